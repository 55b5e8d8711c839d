"""The driver's walk through its states, failures at every step, and what it refuses."""

from __future__ import annotations

import msgspec
import pytest

from emulator.metadata.migration_state import MigrationState
from emulator.migration.preconditions import Why
from emulator.migration.states import NEXT, State, check_change, mermaid
from emulator.zookeeper.ops import Create
from tests.unit.migration.world import NODE_ID, World, checks, differences, migration_offset
from wire import messages as m
from wire import records as r

A, B = (bytes([value]) * 16 for value in b"AB")
TOPIC_A = (
    b'{"version":3,"topic_id":"QUFBQUFBQUFBQUFBQUFBQQ","partitions":{"0":[1,2],"1":[2,1]},'
    b'"adding_replicas":{},"removing_replicas":{}}'
)
STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":4,"isr":[1,2]}'
WALK = [
    "INACTIVE",
    "WAIT_FOR_CONTROLLER_QUORUM",
    "WAIT_FOR_BROKERS",
    "BECOME_CONTROLLER",
    "ZK_MIGRATION",
    "SYNC_KRAFT_TO_ZK",
    "KRAFT_CONTROLLER_TO_BROKER_COMM",
    "DUAL_WRITE",
]


def put_topic(world: World, name: str = "a", data: bytes = TOPIC_A) -> None:
    world.put(f"/brokers/topics/{name}", data)
    world.put(f"/config/topics/{name}", b'{"version":1,"config":{"retention.ms":"5"}}')
    for partition in (0, 1):
        world.put(f"/brokers/topics/{name}/partitions/{partition}/state", STATE)


def waiting(world: World) -> set[tuple[Why, str]]:
    return {(w.reason.why, w.reason.subject) for w in world.driver.status(world.now_ms).waiting}


def waiting_world(*brokers: int, **settings: int) -> World:
    world = World(**settings)
    world.cluster(*(brokers or (1, 2)))
    put_topic(world)
    world.bootstrap()
    return world


def ready_world(**settings: int) -> World:
    world = waiting_world(**settings)
    world.start()
    world.register(1)
    world.register(2)
    return world


def test_every_state_can_be_reached_and_left() -> None:
    assert set(NEXT) == set(State)
    reached = {after for afters in NEXT.values() for after in afters}
    assert reached == set(State) - {State.UNINITIALIZED}
    with pytest.raises(AssertionError):
        check_change(State.WAIT_FOR_BROKERS, State.ZK_MIGRATION)


def test_the_diagram_has_every_edge() -> None:
    edges = [line for line in mermaid().splitlines() if "-->" in line]
    assert len(edges) == 1 + sum(len(afters) for afters in NEXT.values())


@pytest.mark.requirement("P07", "P09", "P18", "S04")
def test_the_walk_to_dual_write() -> None:
    world = ready_world()
    world.advance(1_000)
    assert world.states == WALK
    assert world.journal.stable.migration_state is MigrationState.MIGRATION
    topic = world.journal.stable.topic("a")
    assert topic is not None
    assert topic.partitions[0].leader_epoch == 4
    assert world.driver.records_copied == 4
    assert differences(world) == {}
    last = world.append(*world.topic("b", B, (1, 2)))
    assert migration_offset(world) == last


@pytest.mark.requirement("P13", "P14")
def test_the_copy_is_one_transaction_that_ends_with_the_state() -> None:
    world = ready_world()
    world.advance(1_000)
    batches = [records for _, records in world.journal.batches]
    begin = next(
        i
        for i, records in enumerate(batches)
        if isinstance(records[0], r.BeginTransactionRecord) and records[0].name == "ZK Migration"
    )
    assert len(batches[begin]) == 1
    end = next(
        i
        for i, b in enumerate(batches)
        if isinstance(b[-1], r.ZkMigrationStateRecord | r.EndTransactionRecord) and i > begin
    )
    assert [type(record) for record in batches[end]] == [
        r.ZkMigrationStateRecord,
        r.EndTransactionRecord,
    ]
    assert isinstance(batches[begin + 1][0], r.TopicRecord)


@pytest.mark.requirement("Z01", "E03", "E04", "E06", "E08")
def test_the_claim_is_one_compare_and_set() -> None:
    world = waiting_world()
    world.put("/controller_epoch", b"41")
    version = world.version("/controller_epoch")
    world.start()
    world.register(1)
    world.register(2)
    world.advance(1_000)
    (claim,) = [ops for ops in world.multis if not checks(ops)]
    assert [(type(op).__name__, op.path) for op in claim] == [
        ("SetData", "/controller_epoch"),
        ("Delete", "/controller"),
        ("Create", "/controller"),
    ]
    assert isinstance(claim[2], Create)
    assert claim[2].flags == 0, "persistent"
    assert claim[0].version == version
    assert world.data("/controller_epoch") == b"42"
    assert world.version("/controller_epoch") == version + 1
    controller = msgspec.json.decode(world.data("/controller"))
    assert controller["version"] == 2
    assert (controller["brokerid"], controller["kraftControllerEpoch"]) == (NODE_ID, 1)
    znode = msgspec.json.decode(world.data("/migration"))
    assert set(znode) == {
        "version",
        "kraft_controller_id",
        "kraft_controller_epoch",
        "kraft_metadata_offset",
        "kraft_metadata_epoch",
    }
    update = world.requests[1][0]
    assert isinstance(update, m.UpdateMetadataRequest)
    assert update.controller_epoch == 42


@pytest.mark.requirement("T07", "P06", "Q01")
def test_nothing_is_claimed_while_a_broker_is_missing() -> None:
    world = waiting_world()
    world.start()
    world.register(1)
    before = {p: n.version for p, n in world.model.tree.nodes.items()}
    world.advance(30_000)
    assert world.driver.state is State.WAIT_FOR_BROKERS
    assert waiting(world) == {(Why.BROKER_NOT_REGISTERED, "2")}
    assert {p: n.version for p, n in world.model.tree.nodes.items() if p in before} == before
    assert "/kraft_bridge" not in world.paths
    (why,) = world.driver.status(world.now_ms).waiting
    assert world.now_ms - why.since_ms == 30_000
    world.register(2)
    world.advance(200)
    assert world.driver.state is State.DUAL_WRITE


@pytest.mark.requirement("Q02", "Q03", "T04", "P02")
def test_brokers_are_known_from_assignments_and_configs_too() -> None:
    world = waiting_world(1)
    world.put("/config/brokers/7", b'{"version":1,"config":{"x":"y"}}')
    world.start()
    world.register(1)
    world.advance(1_000)
    assert waiting(world) == {
        (Why.BROKER_NOT_REGISTERED, "2"),
        (Why.BROKER_NOT_REGISTERED, "7"),
    }
    world.register(2)
    world.register(7)
    world.advance(6_000)
    assert waiting(world) == {(Why.OFFLINE_REPLICAS, "2")}
    world.put("/brokers/ids/2", b'{"version":5,"endpoints":[]}')
    world.advance(6_000)
    assert world.driver.state is State.DUAL_WRITE


def test_a_broker_in_kraft_mode_blocks() -> None:
    world = waiting_world()
    world.start()
    world.register(1)
    world.register(2, migrating=False)
    world.advance(1_000)
    assert waiting(world) == {(Why.BROKER_NOT_MIGRATING, "2")}


@pytest.mark.parametrize(
    ("path", "data", "why"),
    [
        ("/config/users/alice", b'{"version":1,"config":{"a":"1"}}', Why.UNSUPPORTED_ENTITY),
        ("/kafka-acl/Topic/a", b'{"version":1,"acls":[]}', Why.UNSUPPORTED_ENTITY),
        ("/delegation_token/tokens/x", b"{}", Why.UNSUPPORTED_ENTITY),
        ("/brokers/topics/a", b"{", Why.MALFORMED_ZNODE),
        ("/brokers/topics/a", b'{"version":2,"partitions":{"0":[1]}}', Why.MALFORMED_ZNODE),
        ("/brokers/topics/a/partitions/0/state", b"[]", Why.MALFORMED_ZNODE),
        ("/config/topics/a", b"[]", Why.MALFORMED_ZNODE),
        ("/config/brokers/1", b"[]", Why.MALFORMED_ZNODE),
        ("/latest_producer_id_block", b"[]", Why.MALFORMED_ZNODE),
        ("/controller", b"[]", Why.MIGRATION_ZNODE),
        ("/controller_epoch", b"x", Why.MIGRATION_ZNODE),
    ],
)
def test_what_cannot_be_copied_is_named_before_anything_is_claimed(
    path: str, data: bytes, why: Why
) -> None:
    world = waiting_world()
    world.put(path, data)
    world.start()
    world.register(1)
    world.register(2)
    world.advance(10_000)
    assert world.driver.state is State.WAIT_FOR_BROKERS
    assert waiting(world) == {(why, path)}
    assert "/kraft_bridge" not in world.paths
    good = {
        "/brokers/topics/a": TOPIC_A,
        "/controller_epoch": b"1",
        "/brokers/topics/a/partitions/0/state": STATE,
    }
    if path.startswith(("/kafka-acl", "/delegation_token", "/controller")) and path not in good:
        world.remove(path)
    else:
        world.put(path, good.get(path))
    world.advance(10_000)
    assert world.driver.state is State.DUAL_WRITE, "healed by the operator, it goes on by itself"


@pytest.mark.parametrize("data", [None, b"", b"{", b'{"version":1}'])
def test_garbage_in_migration_is_named(data: bytes | None) -> None:
    world = waiting_world()
    world.put("/migration", data)
    world.start()
    world.advance(2_000)
    assert world.driver.state is State.UNINITIALIZED
    assert waiting(world) == {(Why.MIGRATION_ZNODE, "/migration")}
    world.remove("/migration")
    world.register(1)
    world.register(2)
    world.advance(10_000)
    assert world.driver.state is State.DUAL_WRITE


def test_a_cluster_without_any_controller_is_none() -> None:
    world = waiting_world()
    world.remove("/controller_epoch")
    world.start()
    world.register(1)
    world.register(2)
    world.advance(2_000)
    assert waiting(world) == {(Why.NO_CONTROLLER_EPOCH, "/controller_epoch")}


@pytest.mark.requirement("V07")
def test_below_metadata_version_8_nothing_begins() -> None:
    world = waiting_world(metadata_version=8)
    low = r.FeatureLevelRecord(name="metadata.version", feature_level=7)
    world.journal.append([low], world.now_ms)
    world.start()
    world.register(1)
    world.register(2)
    world.advance(5_000)
    assert waiting(world) == {(Why.METADATA_VERSION, "3.3-IV3")}


@pytest.mark.requirement("Z05")
def test_migration_of_another_log_is_refused() -> None:
    world = waiting_world()
    stale = (
        b'{"version":0,"kraft_controller_id":3000,"kraft_controller_epoch":1,'
        b'"kraft_metadata_offset":172,"kraft_metadata_epoch":1}'
    )
    world.put("/migration", stale)
    world.start()
    world.register(1)
    world.register(2)
    for _ in range(300):
        world.append(r.NoOpRecord())
    world.advance(30_000)
    assert world.driver.state is State.WAIT_FOR_BROKERS
    assert waiting(world) == {(Why.OTHER_LOG, "/migration")}
    assert "/brokers/topics/a" in world.paths
    assert world.data("/migration") == stale


@pytest.mark.requirement("D01", "D03")
def test_a_pending_deletion_is_finished() -> None:
    world = waiting_world()
    put_topic(world, "gone", TOPIC_A.replace(b"QUFB", b"QUFC"))
    world.put("/admin/delete_topics/gone")
    world.start()
    world.register(1)
    world.register(2)
    world.advance(1_000)
    assert world.driver.state is State.DUAL_WRITE
    assert world.journal.stable.topic("gone") is None
    assert not [path for path in world.paths if path.endswith("/gone") or "/gone/" in path]
    assert differences(world) == {}


@pytest.mark.parametrize("level", [8, 12])
def test_below_13_a_copy_that_was_cut_is_started_over(level: int) -> None:
    world = waiting_world(metadata_version=level, migration_min_batch_size=1)
    world.start()
    world.register(1)
    world.register(2)
    partial = [r.TopicRecord(name="a", topic_id=A), r.TopicRecord(name="old", topic_id=B)]
    restarted = World(metadata_version=level)
    restarted.cluster(1, 2)
    put_topic(restarted)
    restarted.bootstrap()
    restarted.journal.append(partial, restarted.now_ms)
    restarted.start()
    restarted.register(1)
    restarted.register(2)
    for one in (world, restarted):
        one.advance(1_000)
        assert one.driver.state is State.DUAL_WRITE
        assert not [
            record
            for _, b in one.journal.batches
            for record in b
            if "Transaction" in type(record).__name__
        ]
    assert restarted.journal.stable.topics == world.journal.stable.topics
    assert restarted.journal.stable.configs == world.journal.stable.configs


# ---------------------------------------------------------------------- a new process, a new term
def restart(world: World) -> World:
    """The process dies and comes back over the same log, in the next epoch."""
    world.cut()
    world.driver.lost_leadership(world.now_ms)
    world.journal.epoch += 1
    world.states.clear()
    world.multis.clear()
    world.requests.clear()
    world.start_process()
    world.journal.append([r.NoOpRecord()], world.now_ms)
    return world.start()


@pytest.mark.requirement("Z03", "E06")
def test_a_restart_claims_again_compares_and_writes_only_what_differs() -> None:
    world = ready_world()
    world.advance(1_000)
    world.append(*world.topic("b", B, (1, 2)))
    epoch = world.version("/controller_epoch")
    restart(world)
    world.advance(1_000)
    assert world.states == [s for s in WALK if s not in ("WAIT_FOR_BROKERS", "ZK_MIGRATION")]
    assert world.version("/controller_epoch") == epoch + 1
    assert world.data("/controller_epoch") == b"3"
    data = [op for ops in world.multis if checks(ops) for op in ops[1:-2]]
    assert data == []
    kinds = [(type(q).__name__, q.type) for q in world.requests[1]]
    assert kinds[:3] == [
        ("UpdateMetadataRequest", 0),
        ("LeaderAndIsrRequest", 2),
        ("UpdateMetadataRequest", 2),
    ]
    assert world.requests[1][0].controller_epoch == 3
    assert world.requests[1][1].topic_states[0].partition_states[0].controller_epoch == 2


def test_a_crash_with_unwritten_changes_loses_none() -> None:
    world = ready_world()
    world.advance(1_000)
    world.held = []
    world.append(*world.topic("b", B, (1, 2)))
    world.append(r.RemoveTopicRecord(topic_id=A))
    world.held = None
    restart(world)
    world.advance(1_000)
    assert world.driver.state is State.DUAL_WRITE
    assert differences(world) == {}


def test_a_crash_between_the_end_of_the_copy_and_the_first_offset() -> None:
    world = ready_world()
    for _ in range(200):
        if world.journal.stable.migration_state is MigrationState.MIGRATION:
            break
        world.advance(1)
    initial = (
        b'{"version":0,"kraft_controller_id":-1,"kraft_controller_epoch":-1,'
        b'"kraft_metadata_offset":-1,"kraft_metadata_epoch":-1}'
    )
    world.cut()
    world.put("/migration", initial)
    restart(world)
    world.advance(2_000)
    assert world.driver.state is State.DUAL_WRITE
    assert differences(world) == {}


@pytest.mark.parametrize("recorded", [True, False])
def test_a_cluster_that_was_rolled_back_is_left_alone(recorded: bool) -> None:
    world = ready_world()
    world.advance(1_000)
    world.put("/controller_epoch", b"3")
    world.remove("/controller")
    world.put(
        "/controller", b'{"version":2,"brokerid":1,"timestamp":"5","kraftControllerEpoch":-1}'
    )
    if not recorded:
        world.remove("/kraft_bridge")
    put_topic(world, "since", TOPIC_A.replace(b"QUFB", b"QUFC"))
    before = {p: n.version for p, n in world.model.tree.nodes.items()}
    restart(world)
    world.advance(60_000)
    assert world.driver.state is State.BECOME_CONTROLLER
    assert waiting(world) == {(Why.ZOOKEEPER_MODE_TOOK_OVER, "/controller")}
    assert {p: n.version for p, n in world.model.tree.nodes.items()} == before


def test_migration_offset_of_another_log_stops_a_migrated_controller() -> None:
    world = ready_world()
    world.advance(1_000)
    znode = msgspec.json.decode(world.data("/migration"))
    znode["kraft_metadata_offset"] = 100_000
    world.put("/migration", msgspec.json.encode(znode))
    restart(world)
    world.advance(10_000)
    assert waiting(world) == {(Why.OTHER_LOG, "/migration")}


def test_another_kraft_controller_in_a_later_epoch_is_not_displaced() -> None:
    world = waiting_world()
    world.put(
        "/controller", b'{"version":2,"brokerid":3001,"timestamp":"5","kraftControllerEpoch":9}'
    )
    world.start()
    world.register(1)
    world.register(2)
    world.advance(2_000)
    assert waiting(world) == {(Why.CONTROLLER_HELD, "/controller")}


def test_reelected_in_the_next_epoch_without_having_been_told_of_the_loss() -> None:
    world = ready_world()
    world.advance(1_000)
    world.journal.epoch += 1
    world.append(r.NoOpRecord())
    world.perform(world.driver.became_leader(world.journal.epoch, world.now_ms))
    world.advance(1_000)
    assert world.driver.state is State.DUAL_WRITE
    assert world.data("/controller_epoch") == b"3"
    last = world.append(*world.topic("b", B, (1, 2)))
    assert migration_offset(world) == last


def test_a_finalised_migration_is_not_entered_again() -> None:
    world = ready_world()
    world.advance(1_000)
    world.append(r.ZkMigrationStateRecord(zk_migration_state=3))
    restart(world)
    world.advance(5_000)
    assert world.driver.state is State.INACTIVE
    status = world.driver.status(world.now_ms)
    assert status.phase == "finalised"
    assert not status.may_roll_back
    assert world.data("/controller_epoch") == b"2"


def test_a_log_begun_without_migration_has_nothing_to_migrate_into() -> None:
    world = waiting_world(metadata_version=8)
    world.journal = type(world.journal)()
    world.start_process()
    world.journal.append(
        [r.FeatureLevelRecord(name="metadata.version", feature_level=21)], world.now_ms
    )
    world.start()
    world.advance(1_000)
    assert world.driver.state is State.INACTIVE
    assert waiting(world) == {(Why.MIGRATION_STATE, "NONE")}


def test_a_voter_that_has_not_registered_is_waited_for() -> None:
    world = waiting_world(metadata_version=14)
    world.metadata_version = 21
    level = r.FeatureLevelRecord(name="metadata.version", feature_level=21)
    world.journal.append([level], world.now_ms)
    world.start()
    world.advance(1_000)
    assert world.driver.state is State.WAIT_FOR_CONTROLLER_QUORUM
    assert waiting(world) == {(Why.CONTROLLER_NOT_READY, str(NODE_ID))}
    world.append(r.RegisterControllerRecord(controller_id=NODE_ID, zk_migration_ready=True))
    assert world.driver.state is State.WAIT_FOR_BROKERS


# ---------------------------------------------------------------------- ZooKeeper fails at any step
@pytest.mark.requirement("E09")
@pytest.mark.parametrize("frame", range(1, 26))
@pytest.mark.parametrize("how", ["cut", "lost reply", "down"])
def test_the_connection_is_lost_at_each_request(frame: int, how: str) -> None:
    """At the n-th request of the walk the connection goes, with or without the request applied."""
    world = waiting_world()
    seen = 0
    received = world.model.received

    def counting(conn: int, data: bytes, now_ms: int) -> None:
        nonlocal seen
        seen += 1
        if seen == frame and how == "lost reply":
            received(conn, data, now_ms)
            world.dropping_replies = True
        elif seen != frame:
            received(conn, data, now_ms)

    world.model.received = counting  # type: ignore[method-assign]
    world.start()
    world.register(1)
    world.register(2)
    world.advance(1)
    if seen >= frame:
        world.dropping_replies = False
        if how == "down":
            world.zk_up = False
        if world.zk.connected:
            world.cut()
        world.advance(2_000)
        world.zk_up = True
    world.advance(20_000)
    assert world.driver.state is State.DUAL_WRITE
    assert world.data("/controller_epoch") == b"2", "claimed once, however often it was tried"
    world.append(*world.topic("b", B, (1, 2)))
    world.advance(1_000)
    assert differences(world) == {}
