"""The driver's walk through its states, and the connection lost at each request of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emulator.metadata.migration_state import MigrationState
from emulator.migration.propagation.propagator import Propagator
from emulator.migration.states import State
from emulator.migration.taking_over import copying
from emulator.migration.taking_over.importer import PAGE_RECORDS_MAX
from emulator.migration.taking_over.preconditions import Why
from emulator.znodes import own
from emulator.znodes.tree import Tree
from tests.unit.migration.stories import (
    STATE,
    TOPIC_A,
    WALK,
    A,
    B,
    put_topic,
    ready_world,
    waiting_world,
)
from tests.unit.migration.world import NODE_ID, World, differences, migration_offset
from wire import records as r
from wire.text import uuid_text


@pytest.mark.requirement("P07", "P09", "P18", "S04")
def test_the_walk_to_dual_write() -> None:
    world = ready_world()
    world.advance(1_000)
    assert world.states == WALK
    assert world.journal.stable.migration_state is MigrationState.MIGRATION
    topic = world.journal.stable.topic("a")
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


@pytest.mark.requirement("D01", "D03")
def test_a_pending_deletion_is_finished() -> None:
    world = waiting_world()
    put_topic(world, "gone", TOPIC_A.replace(b"QUFB", b"QUFC"))
    world.put("/admin/delete_topics/gone")
    world.start(1, 2)
    world.reach(State.DUAL_WRITE, 1_000)
    assert world.journal.stable.topic("gone") is None
    assert not [path for path in world.paths if path.endswith("/gone") or "/gone/" in path]
    assert differences(world) == {}


@pytest.mark.parametrize("level", [8, 12])
def test_below_13_a_copy_that_was_cut_is_started_over(level: int) -> None:
    world = waiting_world(metadata_version=level, migration_min_batch_size=1)
    world.start(1, 2)
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
        one.reach(State.DUAL_WRITE, 1_000)
        assert not [
            record
            for _, b in one.journal.batches
            for record in b
            if "Transaction" in type(record).__name__
        ]
    assert restarted.journal.stable.topics == world.journal.stable.topics
    assert restarted.journal.stable.configs == world.journal.stable.configs


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
    world.start(1, 2)
    world.advance(1)
    if seen >= frame:
        world.dropping_replies = False
        if how == "down":
            world.zk_up = False
        if world.zk.connected:
            world.cut()
        world.advance(2_000)
        world.zk_up = True
    world.reach(State.DUAL_WRITE, 20_000)
    assert world.data("/controller_epoch") == b"2", "claimed once, however often it was tried"
    world.append(*world.topic("b", B, (1, 2)))
    world.advance(1_000)
    assert differences(world) == {}


def test_a_foreign_write_of_migration_does_not_hold_the_copy_up() -> None:
    """The claim is asked for once more before the copy ends, and then the chain is not ours."""
    world = waiting_world()
    append = world.journal.append

    def meddling(records: list[object], now_ms: int, *, atomic: bool = True) -> int:
        if records == [r.BeginTransactionRecord(name="ZK Migration")]:
            world.put("/migration", world.data("/migration"))
        return append(records, now_ms, atomic=atomic)

    world.journal.append = meddling  # type: ignore[method-assign]
    world.start(1, 2)
    world.advance(1_000)
    assert [log.event for log in world.logs].count(
        "the whole tree in zookeeper is compared again"
    ) == 1
    assert world.driver.state is State.DUAL_WRITE
    assert differences(world) == {}


EARLY = TOPIC_A.replace(b"QUFB", b"QUFD")
"""A topic as Kafka's controller creates it: no epoch is checked with it, so none can refuse it."""


def put_early(world: World) -> None:
    world.put("/config/topics/early", b'{"version":1,"config":{}}')
    world.put("/brokers/topics/early", EARLY)


def test_what_the_old_controller_creates_during_the_copy_is_compared_and_goes() -> None:
    """It heard late of the claim: the tree had been read, and the client was told of no success."""
    world = waiting_world()
    append = world.journal.append

    def late(records: list[object], now_ms: int, *, atomic: bool = True) -> int:
        if records == [r.BeginTransactionRecord(name="ZK Migration")]:
            put_early(world)
        return append(records, now_ms, atomic=atomic)

    world.journal.append = late  # type: ignore[method-assign]
    world.start(1, 2)
    world.reach(State.DUAL_WRITE, 1_000)
    assert world.journal.stable.topic("early") is None
    assert not [path for path in world.paths if "early" in path]
    assert differences(world) == {}


def test_a_topic_that_the_old_controller_created_later_may_be_created_again() -> None:
    world = ready_world()
    world.reach(State.DUAL_WRITE, 1_000)
    put_early(world)
    assert {*differences(world)} == {"/brokers/topics/early", "/config/topics/early"}
    last = world.append(*world.topic("early", B, (1, 2)))
    world.advance(1_000)
    assert migration_offset(world) == last
    assert uuid_text(B).encode() in (world.data("/brokers/topics/early") or b"")
    assert differences(world) == {}
    assert "zookeeper refuses a znode permanently" not in {log.event for log in world.logs}


@pytest.mark.requirement("S04")
def test_nothing_is_written_into_a_cluster_that_was_rolled_back() -> None:
    """``/migration`` was, if the first attempt had ended before it was made."""
    world = World()
    world.bootstrap()
    mark = own.OwnZnode(NODE_ID, 1, 1, 0, -1, -1, writer=own.ROLLED_BACK)
    world.put(own.PATH, own.encode(mark))
    world.put("/controller_epoch", b"1")
    before = world.paths
    world.start(1)
    world.advance(10_000)
    assert world.paths == before
    assert Why.ZOOKEEPER_MODE_TOOK_OVER in {one.reason.why for one in world.driver.waits.reasons}
    assert world.multis == []


def test_the_phases_have_names() -> None:
    world = waiting_world()
    world.start(1)
    world.advance(100)
    assert world.driver.status(world.now_ms).phase == "pre-migration"
    world.register(2)
    world.advance(1_000)
    assert world.driver.status(world.now_ms).phase == "hybrid"
    for broker in (1, 2):
        world.register(broker, migrating=False)
    status = world.driver.status(world.now_ms)
    assert status.phase == "dual write"
    assert status.may_roll_back


def test_the_copy_does_not_run_away_from_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "APPEND_AHEAD_RECORDS", 3_000)
    world = waiting_world()
    count = 7
    for index in range(count):
        partitions = ",".join(f'"{p}":[1,2]' for p in range(999))
        topic_id = uuid_text((index + 100).to_bytes(16))
        world.put(
            f"/brokers/topics/many{index}",
            f'{{"version":3,"topic_id":"{topic_id}","partitions":{{{partitions}}}}}'.encode(),
        )
    append = world.journal.append

    def stalling(records: list[object], now_ms: int, *, atomic: bool = True) -> int:
        if isinstance(records[0], r.BeginTransactionRecord):
            world.journal.committing = False
        return append(records, now_ms, atomic=atomic)

    world.journal.append = stalling  # type: ignore[method-assign]
    world.start(1, 2)
    world.reach(State.ZK_MIGRATION, 1_000)
    ahead = world.journal.end - world.journal.high_watermark
    assert 3_000 <= ahead <= 3_000 + PAGE_RECORDS_MAX < 999 * count
    assert world.driver.copy_progress in {(3, count + 1), (4, count + 1)}
    world.journal.committing = True
    world.reach(State.DUAL_WRITE, 5_000)
    assert len(world.journal.stable.topics) == count + 1
    assert world.driver.copy_progress is None


def test_the_trees_of_a_takeover_are_freed_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were checked, copied and compared: at once, 100,000 topics took 35 ms each."""
    checked: list[Tree] = []
    written: list[Tree] = []
    emptied = Tree.emptied

    def noted(tree: Tree, count: int = 5_000) -> Iterator[None]:
        (written if count == 5_000 else checked).append(tree)
        left = len(tree.nodes)
        for _ in emptied(tree, min(count, 500)):
            assert left - len(tree.nodes) <= 500
            left = len(tree.nodes)
            yield

    monkeypatch.setattr(Tree, "emptied", noted)
    world = waiting_world()
    partitions = ",".join(f'"{p}":[1,2]' for p in range(999))
    for index in range(3):
        topic_id = uuid_text((index + 100).to_bytes(16))
        path = f"/brokers/topics/many{index}"
        topic = f'{{"version":3,"topic_id":"{topic_id}","partitions":{{{partitions}}}}}'
        world.put(path, topic.encode())
        for p in range(999):
            world.put(f"{path}/partitions/{p}/state", STATE)
    world.start(1, 2)
    world.reach(State.DUAL_WRITE, 5_000)
    assert len(checked) >= 1
    assert len(written) == 2, "what was copied, and what was compared"
    assert all(len(tree.nodes) <= 500 for tree in [*checked, *written])
    assert len(world.journal.stable.topics) == 4


def test_the_copy_waits_for_what_is_done_in_slices() -> None:
    """To append does the rest of it at once: fencing a broker of 100,000 topics took a second."""
    world = waiting_world()
    append = world.journal.append

    def beginning(records: list[object], now_ms: int, *, atomic: bool = True) -> int:
        if isinstance(records[0], r.BeginTransactionRecord):
            world.journal.under_way = True
        return append(records, now_ms, atomic=atomic)

    world.journal.append = beginning  # type: ignore[method-assign]
    world.start(1, 2)
    world.reach(State.ZK_MIGRATION, 1_000)
    world.advance(100)
    assert not world.journal.tip.topics
    world.journal.under_way = False
    world.append(r.NoOpRecord())
    world.reach(State.DUAL_WRITE, 5_000)
    assert world.journal.stable.topics


@pytest.mark.requirement("R09")
def test_brokers_that_have_registered_are_ready_though_they_are_fenced() -> None:
    world = World()
    world.cluster(1, 2)
    world.bootstrap()
    world.start()
    world.register(1, fenced=True)
    world.advance(5_000)
    assert world.driver.state is State.WAIT_FOR_BROKERS, "the other one has not registered"
    world.register(2, fenced=True)
    world.reach(State.DUAL_WRITE, 5_000)
    assert b'"kraftControllerEpoch":1' in (world.data("/controller") or b"")


def test_work_that_was_split_goes_on_at_once_and_not_in_the_past(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = World().dual_write().driver
    quiet_ms = driver.deadline_ms
    driver.tick(7_000_000)
    monkeypatch.setattr(Propagator, "busy", True)
    assert driver.deadline_ms == 7_000_000 != quiet_ms
