"""The write-behind under the faults that were measured on real ZooKeepers."""

from __future__ import annotations

import msgspec
import pytest

from emulator.migration.dual_write.modes import Mode
from emulator.migration.dual_write.write_behind import GATHER_CHANGES, GATHER_MS
from emulator.migration.states import State
from emulator.trace.rows import MultiRow, RangeRow
from emulator.znodes import own
from emulator.zookeeper.ops import Check, Create, SetData
from tests.unit.migration.world import World, checks, differences, migration_offset
from wire import records as r

A, B, C = (bytes([value]) * 16 for value in b"ABC")
TOPIC, BROKER = 2, 4


def config(kind: int, name: str, key: str, value: str | None) -> r.ConfigRecord:
    return r.ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)


def big_topic(world: World, name: str, topic_id: bytes, partitions: int) -> list[object]:
    return world.topic(name, topic_id, *((1, 2) for _ in range(partitions)))


def chained(world: World, since: int = 0) -> list[tuple[object, ...]]:
    return [ops for ops in world.multis[since:] if checks(ops)]


@pytest.mark.requirement("W03", "W04")
def test_each_multi_checks_the_claim_and_moves_both_counters_by_one() -> None:
    world = World().dual_write()
    since = len(world.multis)
    own_version, migration_version = world.version("/kraft_bridge"), world.version("/migration")
    for name, topic_id in (("a", A), ("b", B)):
        last = world.append(*world.topic(name, topic_id, (1, 2)))
        assert migration_offset(world) == last
    multis = chained(world, since)
    assert len(multis) == 2
    for step, ops in enumerate(multis):
        check, mine, theirs = ops[0], ops[-2], ops[-1]
        assert isinstance(check, Check)
        assert check.version == world.version("/controller_epoch")
        assert isinstance(mine, SetData)
        assert mine.version == own_version + step
        assert isinstance(theirs, SetData)
        assert theirs.version == migration_version + step
    assert differences(world) == {}


@pytest.mark.requirement("G06")
def test_nothing_is_written_before_its_commit() -> None:
    world = World().dual_write()
    since = len(world.multis)
    world.journal.committing = False
    world.append(*world.topic("a", A, (1, 2)))
    world.advance(5_000)
    assert chained(world, since) == []
    assert "/brokers/topics/a" not in world.paths
    world.journal.committing = True
    world.settle()
    assert "/brokers/topics/a" in world.paths


@pytest.mark.requirement("Z02", "W04")
def test_a_change_too_big_for_one_multi_moves_the_offset_only_with_its_last() -> None:
    world = World(write_behind_multi_ops=50).dual_write()
    before = migration_offset(world)
    since = len(world.multis)
    last = world.append(*big_topic(world, "big", A, 200))
    world.advance(10)
    multis = chained(world, since)
    assert len(multis) > 8
    offsets = [msgspec.json.decode(ops[-1].data)["kraft_metadata_offset"] for ops in multis]
    assert offsets == [before] * (len(multis) - 1) + [last]
    parts = [own.parse(ops[-2].data).part for ops in multis]
    assert parts == [*range(1, len(multis)), 0]
    assert all(len(ops) <= 53 for ops in multis)
    assert differences(world) == {}


def test_two_multis_are_in_flight_and_never_more() -> None:
    world = World(write_behind_multi_ops=20).dual_write()
    world.held = []
    world.append(*big_topic(world, "big", A, 100))
    world.advance(10)
    assert world.driver.write_behind.pipeline.in_flight == 2
    world.release()
    world.advance(10)
    assert differences(world) == {}


@pytest.mark.parametrize("multi_ops", [1, 399, 599, 600, 601, 1_000])
def test_a_large_change_ends_however_many_operations_a_multi_may_hold(multi_ops: int) -> None:
    world = World(write_behind_multi_ops=multi_ops).dual_write()
    last = world.append(*big_topic(world, "big", A, 1_100))
    world.advance(100)
    assert migration_offset(world) == last
    assert differences(world) == {}


def test_small_changes_gather_while_a_multi_is_in_flight_and_large_ones_do_not() -> None:
    """Each multi costs as much for one change as for many; a full one gains nothing by waiting."""
    world = World(write_behind_multi_ops=40).dual_write()
    world.held = []
    since = len(world.multis)
    for number in range(9):
        world.append(*world.topic(f"t{number}", number.to_bytes(16), (1, 2)))
    assert len(chained(world, since)) == 1
    world.append(*big_topic(world, "big", A, 20))
    assert len(chained(world, since)) == 2
    world.release()
    world.advance(10)
    assert len(chained(world, since)) <= 5
    assert differences(world) == {}


def shrunk(world: World, partitions: range) -> None:
    for number in partitions:
        world.append(r.PartitionChangeRecord(partition_id=number, topic_id=A, isr=(1,)))


def with_one_in_flight(bound: int = 10_000) -> World:
    """A multi sent now, and its answer on its way."""
    world = World(write_behind_max_records=bound).dual_write()
    world.append(*big_topic(world, "big", A, 64))
    world.advance(1_000)
    world.held = []
    world.append(config(BROKER, "", "k", "1"))
    return world


def test_many_changes_of_isrs_wait_for_more_of_them_but_not_long() -> None:
    world = with_one_in_flight()
    since = len(world.multis)
    shrunk(world, range(GATHER_CHANGES))
    world.release()
    world.advance(GATHER_MS - 5)
    shrunk(world, range(GATHER_CHANGES, 64))
    assert chained(world, since) == []
    world.advance(5)
    assert len(chained(world, since)) == 1
    assert differences(world) == {}


@pytest.mark.parametrize("other", ["few", "topic", "config", "drain"])
def test_nothing_else_waits(other: str) -> None:
    world = with_one_in_flight()
    since = len(world.multis)
    shrunk(world, range(GATHER_CHANGES - (other == "few")))
    if other == "topic":
        world.append(*world.topic("new", B, (1, 2)))
    if other == "config":
        world.append(config(BROKER, "", "k", "2"))
    if other == "drain":
        world.perform(world.driver.write_behind.drain(world.now_ms))
    world.release()
    assert len(chained(world, since)) == 1


@pytest.mark.parametrize("partitions", [GATHER_CHANGES, GATHER_CHANGES + 4])
def test_while_callers_wait_at_a_bound_nothing_gathers(partitions: int) -> None:
    """Reached while a multi is in flight, or by what gathers."""
    world = with_one_in_flight(GATHER_CHANGES + 4)
    since = len(world.multis)
    shrunk(world, range(partitions))
    waits = world.driver.bound.waits
    world.release()
    assert len(chained(world, since)) == waits == (partitions > GATHER_CHANGES)
    shrunk(world, range(partitions, GATHER_CHANGES + 4))
    assert len(chained(world, since)) == 1
    assert differences(world) == {}


def test_what_fills_a_multi_does_not_wait() -> None:
    world = with_one_in_flight()
    world.driver.write_behind.pipeline.ops_max = 60
    since = len(world.multis)
    shrunk(world, range(29))
    world.release()
    assert chained(world, since) == []
    shrunk(world, range(29, 30))
    assert len(chained(world, since)) == 1


def test_more_multis_are_in_flight_the_farther_zookeeper_is() -> None:
    world = World(write_behind_multi_ops=20).dual_write()
    pipeline = world.driver.write_behind.pipeline
    assert pipeline.depth_now == 2
    for value in range(40):
        world.held = []
        world.append(config(BROKER, "", "k", str(value)))
        world.now_ms += 12
        world.release()
    assert pipeline.depth_now == 4
    world.held = []
    world.append(*big_topic(world, "big", A, 100))
    world.advance(10)
    assert pipeline.in_flight == 4
    world.release()
    world.advance(50)
    assert differences(world) == {}
    pipeline.depth = 4
    world.dropping_replies = True
    world.append(*big_topic(world, "again", B, 100))
    world.advance(10)
    assert pipeline.in_flight == 4, "all of them applied, and no answer came"
    world.cut()
    world.advance(5_000)
    assert differences(world) == {}


def test_changes_committed_meanwhile_coalesce() -> None:
    world = World().dual_write()
    world.held = []
    world.append(*world.topic("a", A, (1, 2)))
    world.append(*world.topic("b", B, (1, 2)))
    since = len(world.multis)
    for value in range(50):
        world.append(config(TOPIC, "a", "retention.ms", str(value)))
    world.append(*world.topic("gone", C, (1, 2)))
    world.append(r.RemoveTopicRecord(topic_id=C))
    world.release()
    world.advance(10)
    multis = chained(world, since)
    assert len(multis) == 1, "fifty changes and a short-lived topic fit into one multi"
    assert not any("gone" in op.path for ops in multis for op in ops)
    assert differences(world) == {}


def test_a_config_change_and_its_notification_are_one() -> None:
    world = World().dual_write()
    world.append(*world.topic("a", A, (1, 2)))
    since = len(world.multis)
    world.append(config(TOPIC, "a", "retention.ms", "9"), config(BROKER, "", "x", "y"))
    (ops,) = chained(world, since)
    paths = [op.path for op in ops]
    first = paths.index("/config/topics/a")
    assert isinstance(ops[first + 1], Create)
    assert ops[first + 1].path == "/config/changes/config_change_"
    assert len([p for p in world.paths if p.startswith("/config/changes/")]) == 2


def test_progress_that_changes_nothing_is_written_twice_a_second() -> None:
    world = World().dual_write()
    world.advance(1_000)
    since = len(world.multis)
    for _ in range(20):
        world.append(r.NoOpRecord())
        world.advance(100)
    assert 3 <= len(chained(world, since)) <= 5
    world.advance(600)
    assert world.driver.write_behind.lag.records == 0


@pytest.mark.requirement("W05", "W07")
@pytest.mark.parametrize("times", [1, 2, 3])
def test_foreign_writes_of_migration_leave_no_hole(times: int) -> None:
    world = World(write_behind_multi_ops=20).dual_write()
    world.held = []
    world.append(*big_topic(world, "big", A, 100))
    world.advance(10)
    assert world.driver.write_behind.pipeline.in_flight == 2
    for _ in range(times):
        world.put("/migration", world.data("/migration"))
    world.release()
    world.advance(1_000)
    assert differences(world) == {}
    assert world.driver.state is State.DUAL_WRITE
    assert migration_offset(world) == world.journal.stable.offset
    assert world.driver.write_behind.reconcile_count == 2


@pytest.mark.requirement("W05")
def test_another_claim_stops_the_writer_for_good() -> None:
    world = World(write_behind_multi_ops=20).dual_write()
    world.held = []
    world.append(*big_topic(world, "big", A, 100))
    world.advance(10)
    tree = world.model.tree
    epoch = world.version("/controller_epoch")
    world.put("/controller_epoch", world.data("/controller_epoch"))
    assert world.version("/controller_epoch") == epoch + 1
    world.release()
    world.advance(30_000)
    assert not any(path.startswith("/brokers/topics/big") for path in tree.nodes)
    assert world.driver.state is State.INACTIVE
    assert world.driver.write_behind.mode is Mode.DEPOSED
    before = {path: node.version for path, node in tree.nodes.items()}
    world.append(*world.topic("later", B, (1, 2)))
    world.advance(30_000)
    assert {path: node.version for path, node in tree.nodes.items()} == before
    (waiting,) = world.driver.status(world.now_ms).waiting
    assert "/controller_epoch" in waiting.reason.text


@pytest.mark.requirement("Z05")
def test_a_deleted_controller_znode_is_a_rollback() -> None:
    world = World().dual_write()
    del world.model.tree.nodes["/controller"]
    world.model.tree.nodes["/"].children.remove("controller")
    world.put("/migration", world.data("/migration"))
    world.append(*world.topic("a", A, (1, 2)))
    world.reach(State.INACTIVE, 1_000)
    assert "/brokers/topics/a" not in world.paths


@pytest.mark.requirement("W07")
def test_a_data_op_that_meets_another_tree_is_repaired_by_a_full_comparison() -> None:
    world = World().dual_write()
    world.put("/brokers/topics/a", b"{}")
    world.append(*world.topic("a", A, (1, 2)))
    world.advance(1_000)
    assert differences(world) == {}
    assert world.driver.state is State.DUAL_WRITE
    assert world.driver.write_behind.pipeline.multis["refused"] == 1


@pytest.mark.requirement("W07")
@pytest.mark.parametrize("partitions", [1, 100])
def test_lost_replies_write_everything_exactly_once(partitions: int) -> None:
    world = World(write_behind_multi_ops=20).dual_write()
    own_version = world.version("/kraft_bridge")
    since = len(world.multis)
    world.dropping_replies = True
    last = world.append(*big_topic(world, "big", A, partitions))
    world.advance(10)
    world.cut()
    world.advance(5_000)
    assert differences(world) == {}
    assert migration_offset(world) == last
    versions = {n.version for p, n in world.model.tree.nodes.items() if "/topics/big" in p}
    assert versions == {0}, "no znode was written twice"
    sent = len(chained(world, since))
    assert (
        world.version("/kraft_bridge") - own_version
        == sent - world.driver.write_behind.pipeline.multis["refused"]
    )
    assert world.driver.write_behind.reconcile_count == 1


@pytest.mark.requirement("W07")
def test_one_reply_is_dropped_and_nothing_else_happens() -> None:
    """Pings go on being answered: only the age of the request tells."""
    world = World().dual_write()
    world.dropping_replies = True
    last = world.append(*world.topic("a", A, (1, 2)))
    world.dropping_replies = False
    world.advance(10_000)
    assert differences(world) == {}
    assert migration_offset(world) == last
    assert world.version("/brokers/topics/a") == 0
    assert world.driver.write_behind.lag.records == 0


@pytest.mark.requirement("W07")
def test_bytes_that_arrive_after_the_reconnect_are_not_applied() -> None:
    world = World(write_behind_multi_ops=20).dual_write()
    world.held = []
    world.append(*big_topic(world, "big", A, 100))
    world.advance(10)
    late, world.held = world.held, None
    world.cut()
    world.advance(5_000)
    before = {path: node.version for path, node in world.model.tree.nodes.items()}
    for conn, data in late:
        world.model.received(conn, data, world.now_ms)
        world.model.run(world.now_ms)
    assert {path: node.version for path, node in world.model.tree.nodes.items()} == before
    assert differences(world) == {}


@pytest.mark.requirement("W07")
def test_a_session_that_expired_while_zookeeper_was_away() -> None:
    world = World().dual_write()
    world.zk_up = False
    world.cut()
    world.append(*world.topic("a", A, (1, 2)))
    world.advance(30_000)
    assert world.driver.write_behind.mode is Mode.DOUBT
    assert world.driver.write_behind.lag.changed_records == 2
    assert world.driver.status(world.now_ms).lag_ms == 30_000
    world.zk_up = True
    world.advance(5_000)
    assert differences(world) == {}
    assert world.driver.write_behind.lag.records == 0


def test_no_bound_is_no_hold() -> None:
    world = World(write_behind_max_records=0).dual_write()
    world.zk_up = False
    world.cut()
    for value in range(300):
        world.append(config(BROKER, "", "k", str(value)))
    assert not world.journal.blocked


@pytest.mark.requirement("W07")
def test_what_zookeeper_refuses_for_good_blocks_and_is_named() -> None:
    world = World().dual_write()
    world.append(config(BROKER, "", "k", "x" * 1_100_000))
    world.append(*world.topic("a", A, (1, 2)))
    world.advance(3_000)
    assert world.driver.write_behind.mode is Mode.POISONED
    (znode,) = world.driver.status(world.now_ms).poisoned
    assert znode.path == "/config/brokers/<default>"
    assert "jute.maxbuffer" in znode.cause
    world.append(config(BROKER, "", "k", "small"))
    world.advance(60_000)
    assert differences(world) == {}
    assert world.driver.status(world.now_ms).poisoned == ()


def test_what_zookeeper_refuses_for_good_is_left_out_if_so_configured() -> None:
    world = World(write_behind_poison="skip").dual_write()
    world.append(config(BROKER, "", "k", "x" * 1_100_000))
    world.append(*world.topic("a", A, (1, 2)))
    world.advance(3_000)
    (znode,) = world.driver.status(world.now_ms).poisoned
    assert znode.skipped
    assert list(differences(world)) == ["/config/brokers/<default>"]


@pytest.mark.requirement("M07", "M08")
def test_durations_are_counted_per_delta_that_wrote_and_per_reconcile() -> None:
    world = World().dual_write()
    deltas = world.driver.write_behind.confirmations.delta_time_ms
    assert world.driver.write_behind.confirmations.snapshot_time_ms.count == 1
    before = deltas.count
    world.append(*world.topic("a", A, (1, 2)))
    world.append(r.NoOpRecord())
    world.advance(2_000)
    assert deltas.count == before + 1


def test_rows_tell_what_each_multi_carried() -> None:
    world = World().dual_write()
    world.rows.clear()
    last = world.append(*world.topic("a", A, (1, 2)))
    (multi,) = [row for row in world.rows if isinstance(row, MultiRow)]
    assert multi.ops == sum(kind.ops for kind in multi.operations)
    assert multi.bytes == sum(kind.bytes for kind in multi.operations)
    assert {kind.operation for kind in multi.operations} >= {"topic_create", "chain"}
    assert (multi.first_offset, multi.last_offset) == (last - 1, last)
    stages = [row.stage for row in world.rows if isinstance(row, RangeRow)]
    assert stages == ["planned", "zk_sent", "zk_acked", "propagated"]


@pytest.mark.requirement("B03")
def test_drain_writes_at_once() -> None:
    world = World().dual_write()
    world.append(r.NoOpRecord())
    world.append(r.NoOpRecord())
    assert not world.driver.drained
    world.perform(world.driver.drain(world.now_ms))
    world.settle()
    assert world.driver.drained
    assert migration_offset(world) == world.journal.stable.offset
