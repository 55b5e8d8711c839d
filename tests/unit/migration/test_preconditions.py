"""What must be there before anything is claimed, and how what is missing is named."""

from __future__ import annotations

import pytest

from emulator.migration.states import State
from emulator.migration.taking_over.preconditions import Why
from tests.unit.migration.stories import (
    STATE,
    TOPIC_A,
    ready_world,
    restart,
    waiting,
    waiting_world,
)
from tests.unit.migration.world import NODE_ID
from wire import records as r

LONG_CONFIG = b'{"version":1,"config":{"follower.replication.throttled.replicas":"%s"}}' % (
    b"0:1," * 10_000
)


@pytest.mark.requirement("T07", "P06", "Q01")
def test_nothing_is_claimed_while_a_broker_is_missing() -> None:
    world = waiting_world()
    world.start(1)
    before = {p: n.version for p, n in world.model.tree.nodes.items()}
    world.reach(State.WAIT_FOR_BROKERS, 30_000)
    assert waiting(world) == {(Why.BROKER_NOT_REGISTERED, "2")}
    assert {p: n.version for p, n in world.model.tree.nodes.items() if p in before} == before
    assert "/kraft_bridge" not in world.paths
    (why,) = world.driver.status(world.now_ms).waiting
    assert world.now_ms - why.since_ms == 30_000
    world.register(2)
    world.reach(State.DUAL_WRITE, 200)


@pytest.mark.requirement("Q02", "Q03", "T04", "P02")
def test_brokers_are_known_from_assignments_and_configs_too() -> None:
    world = waiting_world(1)
    world.put("/config/brokers/7", b'{"version":1,"config":{"x":"y"}}')
    world.start(1)
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
    world.reach(State.DUAL_WRITE, 6_000)


def test_a_broker_in_kraft_mode_blocks() -> None:
    world = waiting_world()
    world.start(1)
    world.register(2, migrating=False)
    world.advance(1_000)
    assert waiting(world) == {(Why.BROKER_NOT_MIGRATING, "2")}


@pytest.mark.parametrize(
    ("path", "data", "why"),
    [
        ("/config/users/alice", b'{"version":1,"config":{"a":"1"}}', Why.MALFORMED_ZNODE),
        ("/kafka-acl/Topic/a", b'{"version":2,"acls":[]}', Why.MALFORMED_ZNODE),
        ("/delegation_token/tokens/x", b"{}", Why.MALFORMED_ZNODE),
        ("/brokers/topics/a", b"{", Why.MALFORMED_ZNODE),
        ("/brokers/topics/a", b'{"version":2,"partitions":{"0":[1]}}', Why.MALFORMED_ZNODE),
        ("/brokers/topics/a/partitions/0/state", b"[]", Why.MALFORMED_ZNODE),
        ("/config/topics/a", b"[]", Why.MALFORMED_ZNODE),
        ("/config/brokers/1", b"[]", Why.MALFORMED_ZNODE),
        ("/latest_producer_id_block", b"[]", Why.MALFORMED_ZNODE),
        # Read well enough, but no record can hold it.
        ("/config/topics/a", LONG_CONFIG, Why.MALFORMED_ZNODE),
        ("/config/brokers/1", LONG_CONFIG, Why.MALFORMED_ZNODE),
        ("/brokers/topics/a", TOPIC_A.replace(b'"0":[1,2]', b'"0":[1,-2]'), Why.MALFORMED_ZNODE),
        ("/brokers/topics/a", TOPIC_A.replace(b'"1":', b'"2147483648":'), Why.MALFORMED_ZNODE),
        # A controller numbers the next partition by their count.
        ("/brokers/topics/a", TOPIC_A.replace(b'"0":', b'"2":'), Why.MALFORMED_ZNODE),
        ("/brokers/topics/a", TOPIC_A.replace(b'"1":', b'"2":'), Why.MALFORMED_ZNODE),
        (
            "/brokers/topics/a",
            TOPIC_A.replace(b'"0":[1,2],"1":[2,1]', b""),
            Why.MALFORMED_ZNODE,
        ),
        (
            "/brokers/topics/a/partitions/0/state",
            STATE.replace(b"}", b',"leader_recovery_state":2}'),
            Why.MALFORMED_ZNODE,
        ),
        (
            "/brokers/topics/a/partitions/0/state",
            STATE.replace(b'"leader_epoch":4', b'"leader_epoch":2147483648'),
            Why.MALFORMED_ZNODE,
        ),
        (
            "/latest_producer_id_block",
            b'{"version":1,"broker":1,"block_start":"0","block_end":"9223372036854775807"}',
            Why.MALFORMED_ZNODE,
        ),
        ("/controller", b"[]", Why.MIGRATION_ZNODE),
        ("/controller_epoch", b"x", Why.MIGRATION_ZNODE),
    ],
)
def test_what_cannot_be_copied_is_named_before_anything_is_claimed(
    path: str, data: bytes, why: Why
) -> None:
    world = waiting_world()
    world.put(path, data)
    world.start(1, 2)
    world.reach(State.WAIT_FOR_BROKERS, 10_000)
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


def test_every_malformed_znode_of_a_topic_is_named() -> None:
    """Not one after the other, each after a repair."""
    world = waiting_world()
    parts = "/brokers/topics/a/partitions"
    bad = ["/config/topics/a", f"{parts}/0/state", f"{parts}/1/state"]
    for path in bad:
        world.put(path, b"[]")
    world.start(1, 2)
    world.advance(10_000)
    assert waiting(world) == {(Why.MALFORMED_ZNODE, path) for path in bad}


def test_two_topics_of_one_id_are_named() -> None:
    world = waiting_world()
    world.put("/brokers/topics/b", TOPIC_A)
    world.start(1, 2)
    world.advance(10_000)
    assert waiting(world) == {(Why.MALFORMED_ZNODE, "/brokers/topics/b")}
    assert "/kraft_bridge" not in world.paths


@pytest.mark.parametrize("data", [None, b"", b"{", b'{"version":1}'])
def test_garbage_in_migration_is_named(data: bytes | None) -> None:
    world = waiting_world()
    world.put("/migration", data)
    world.start()
    world.reach(State.UNINITIALIZED, 2_000)
    assert waiting(world) == {(Why.MIGRATION_ZNODE, "/migration")}
    world.remove("/migration")
    world.register(1)
    world.register(2)
    world.reach(State.DUAL_WRITE, 10_000)


@pytest.mark.requirement("C12")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"version":"1","id":"5L6g3nShT-eMCtK--X86sw"}', Why.OTHER_CLUSTER),
        (b'{"version":"1"}', Why.MALFORMED_ZNODE),
        (None, Why.MALFORMED_ZNODE),
    ],
)
def test_nothing_is_written_into_the_zookeeper_of_another_cluster(
    data: bytes | None, why: Why
) -> None:
    world = waiting_world()
    ours = world.data("/cluster/id")
    world.put("/cluster/id", data)
    before = world.paths
    world.start(1, 2)
    world.reach(State.UNINITIALIZED, 10_000)
    assert waiting(world) == {(why, "/cluster/id")}
    assert world.paths == before
    assert world.data("/controller_epoch") == b"1"
    world.put("/cluster/id", ours)
    world.reach(State.DUAL_WRITE, 10_000)


def test_after_a_restart_another_clusters_zookeeper_is_refused_too() -> None:
    world = ready_world()
    world.advance(1_000)
    world.put("/cluster/id", b'{"version":"1","id":"5L6g3nShT-eMCtK--X86sw"}')
    epoch = world.data("/controller_epoch")
    restart(world)
    world.reach(State.UNINITIALIZED, 10_000)
    assert world.data("/controller_epoch") == epoch
    (reason,) = [w.reason for w in world.driver.status(world.now_ms).waiting]
    assert reason.fatal
    assert "-t 5L6g3nShT-eMCtK--X86sw" in reason.text


def test_a_zookeeper_that_is_nobodys_yet_is_not_another_clusters() -> None:
    world = waiting_world()
    world.remove("/cluster/id")
    world.start()
    assert world.driver.state is State.WAIT_FOR_BROKERS


def test_an_id_of_another_cluster_that_a_broker_writes_later_is_the_only_reason() -> None:
    world = waiting_world()
    ours = world.data("/cluster/id")
    world.remove("/cluster/id")
    world.start()
    assert world.driver.state is State.WAIT_FOR_BROKERS
    world.put("/cluster/id", b'{"version":"1","id":"5L6g3nShT-eMCtK--X86sw"}')
    world.advance(10_000)
    assert waiting(world) == {(Why.OTHER_CLUSTER, "/cluster/id")}
    world.put("/cluster/id", ours)
    world.register(1)
    world.register(2)
    world.reach(State.DUAL_WRITE, 10_000)


def test_a_cluster_without_any_controller_is_none() -> None:
    world = waiting_world()
    world.remove("/controller_epoch")
    world.start(1, 2)
    world.advance(2_000)
    assert waiting(world) == {(Why.NO_CONTROLLER_EPOCH, "/controller_epoch")}


@pytest.mark.requirement("V07")
def test_below_metadata_version_8_nothing_begins() -> None:
    world = waiting_world(metadata_version=8)
    low = r.FeatureLevelRecord(name="metadata.version", feature_level=7)
    world.journal.append([low], world.now_ms)
    world.start(1, 2)
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
    world.start(1, 2)
    for _ in range(300):
        world.append(r.NoOpRecord())
    world.reach(State.WAIT_FOR_BROKERS, 30_000)
    assert waiting(world) == {(Why.OTHER_LOG, "/migration")}
    assert "/brokers/topics/a" in world.paths
    assert world.data("/migration") == stale


def test_a_log_begun_without_migration_has_nothing_to_migrate_into() -> None:
    world = waiting_world(metadata_version=8)
    world.journal = type(world.journal)()
    world.start_process()
    world.journal.append(
        [r.FeatureLevelRecord(name="metadata.version", feature_level=21)], world.now_ms
    )
    world.start()
    world.reach(State.INACTIVE, 1_000)
    assert waiting(world) == {(Why.MIGRATION_STATE, "NONE")}


def test_a_voter_that_has_not_registered_is_waited_for() -> None:
    world = waiting_world(metadata_version=14)
    world.metadata_version = 21
    level = r.FeatureLevelRecord(name="metadata.version", feature_level=21)
    world.journal.append([level], world.now_ms)
    world.start()
    world.reach(State.WAIT_FOR_CONTROLLER_QUORUM, 1_000)
    assert waiting(world) == {(Why.CONTROLLER_NOT_READY, str(NODE_ID))}
    world.append(r.RegisterControllerRecord(controller_id=NODE_ID, zk_migration_ready=True))
    assert world.driver.state is State.WAIT_FOR_BROKERS
