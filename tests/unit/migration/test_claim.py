"""Claims: the compare-and-set, the next term, and what is never claimed."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from emulator.metadata.migration_state import MigrationState
from emulator.migration.states import State
from emulator.migration.taking_over import checking, claim
from emulator.migration.taking_over.checking import ClaimTask
from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.migration.taking_over.tasks import found_of
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import Check, Create, SetData, ZkOutcome
from tests.unit.migration.stories import (
    TOPIC_A,
    WALK,
    A,
    B,
    put_topic,
    ready_world,
    restart,
    waiting,
    waiting_world,
)
from tests.unit.migration.world import NODE_ID, World, checks, differences, migration_offset
from wire import messages as m
from wire import records as r


@pytest.mark.requirement("Z01", "E03", "E04", "E06", "E08")
def test_the_claim_is_one_compare_and_set() -> None:
    world = waiting_world()
    world.put("/controller_epoch", b"41")
    version = world.version("/controller_epoch")
    world.start(1, 2)
    world.advance(1_000)
    (claim,) = [ops for ops in world.multis if not checks(ops)]
    assert [(type(op).__name__, op.path) for op in claim] == [
        ("SetData", "/controller_epoch"),
        ("Delete", "/controller"),
        ("Create", "/controller"),
        ("Create", "/kraft_bridge"),
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
    assert update.type == 0, "as Kafka's: nothing was told before"


def test_a_claim_whose_own_write_is_not_read_back_stops_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every multi checks the version of ``/controller_epoch`` that this reading gives."""
    world, read = waiting_world(), []

    def stale(outcomes: Sequence[ZkOutcome]) -> claim.Found | Reason:
        task = world.driver._task
        if not (isinstance(task, ClaimTask) and task.raised):
            read.append(found_of(outcomes))
        return read[-1]

    monkeypatch.setattr(checking, "found_of", stale)
    world.start(1)
    with pytest.raises(AssertionError, match="/controller_epoch went back"):
        world.register(2)


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
        ("UpdateMetadataRequest", 2),
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
    world.reach(State.DUAL_WRITE, 1_000)
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
    world.reach(State.DUAL_WRITE, 2_000)
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
    world.reach(State.BECOME_CONTROLLER, 60_000)
    assert waiting(world) == {(Why.ZOOKEEPER_MODE_TOOK_OVER, "/controller")}
    (told,) = world.driver.status(world.now_ms).waiting
    assert (
        "format them in empty folders, let kraft-bridge rollback --clear --yes" in told.reason.text
    )
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
    world.start(1, 2)
    world.advance(2_000)
    assert waiting(world) == {(Why.CONTROLLER_HELD, "/controller")}


def test_reelected_in_the_next_epoch_without_having_been_told_of_the_loss() -> None:
    world = ready_world()
    world.advance(1_000)
    world.journal.epoch += 1
    world.append(r.NoOpRecord())
    world.perform(world.driver.became_leader(world.journal.epoch, world.now_ms))
    world.reach(State.DUAL_WRITE, 1_000)
    assert world.data("/controller_epoch") == b"3"
    last = world.append(*world.topic("b", B, (1, 2)))
    assert migration_offset(world) == last


def test_a_finalised_migration_is_not_entered_again() -> None:
    world = ready_world()
    world.advance(1_000)
    world.append(r.ZkMigrationStateRecord(zk_migration_state=3))
    restart(world)
    world.reach(State.INACTIVE, 5_000)
    status = world.driver.status(world.now_ms)
    assert status.phase == "finalised"
    assert not status.may_roll_back
    assert world.data("/controller_epoch") == b"2"


@pytest.mark.requirement("Z04", "W05", "E06")
def test_an_old_controller_that_wakes_up_writes_nothing_and_stops() -> None:
    """Its multis were on their way when the new one claimed; they arrive after the new one's."""
    old = ready_world()
    old.advance(1_000)
    old.held = []
    old.append(*old.topic("late", B, (1, 2)))
    old.advance(10)
    assert old.driver.write_behind.pipeline.in_flight == 1
    new = World(beside=old)
    new.journal.epoch += 1
    new.journal.append([r.RemoveTopicRecord(topic_id=B)], new.now_ms)
    new.start()
    new.reach(State.DUAL_WRITE, 1_000)
    before = {path: node.version for path, node in new.model.tree.nodes.items()}
    old.release()
    old.advance(10_000)
    assert {path: node.version for path, node in new.model.tree.nodes.items()} == before
    assert old.driver.state is State.INACTIVE
    assert "claimed" in old.driver.status(old.now_ms).deposed_because
    assert differences(new) == {}


@pytest.mark.requirement("E01")
def test_a_write_that_the_old_zookeeper_controller_had_on_its_way_is_refused() -> None:
    world = waiting_world()
    seen = world.version("/controller_epoch")
    world.start(1, 2)
    world.advance(1_000)
    late = (Check("/controller_epoch", seen), SetData("/brokers/topics/a", b"{}"))
    assert world.model.tree.multi(late, 1, world.now_ms) == (0, ZkCode.BAD_VERSION)


def test_deposed_in_the_middle_of_the_copy_takes_the_copy_back() -> None:
    world = waiting_world(migration_min_batch_size=1)
    append = world.journal.append

    def deposing(records: list[object], now_ms: int, *, atomic: bool = True) -> int:
        if isinstance(records[0], r.TopicRecord) and world.data("/controller_epoch") == b"2":
            world.put("/controller_epoch", b"9")
        return append(records, now_ms, atomic=atomic)

    world.journal.append = deposing  # type: ignore[method-assign]
    world.start(1, 2)
    world.reach(State.INACTIVE, 1_000)
    assert world.journal.history.begin is None


@pytest.mark.requirement("E06")
def test_an_epoch_set_back_by_hand_is_raised_above_what_brokers_know() -> None:
    world = ready_world()
    world.advance(1_000)
    for _ in range(3):
        restart(world)
        world.advance(1_000)
    known = int(world.data("/controller_epoch") or b"")
    world.put("/controller_epoch", b"1")
    world.append(*world.topic("later", B, (1, 2)))
    world.reach(State.INACTIVE, 1_000)
    assert "restart this controller" in world.driver.status(world.now_ms).deposed_because
    restart(world)
    world.reach(State.DUAL_WRITE, 1_000)
    assert int(world.data("/controller_epoch") or b"") == known + 1
    told = [message.controller_epoch for message in world.requests[1]]  # type: ignore[attr-defined]
    assert set(told) == {known + 1}
    assert differences(world) == {}


@pytest.mark.requirement("E06")
@pytest.mark.parametrize(
    ("there", "shown", "written", "epoch"),
    [
        # ZooKeeper was restored: each of the terms 2 to 5 may have claimed since.
        (8, 8, 1, 13),
        # Somebody had raised it by then: the claims since were above that.
        (11, 8, 1, 16),
        # Somebody has set it back by hand.
        (1, 8, 1, 13),
        # Controllers of Kafka claimed in the terms 2 to 5, and the last of them wrote /migration.
        (12, 8, 5, 13),
        # Only that of term 4 did: that of term 5 may be missing.
        (11, 8, 4, 13),
        # ... and ZooKeeper was restored from before term 4, but for /migration.
        (1, 8, 4, 13),
        # They claimed above what somebody had raised: only that of term 5 may be missing.
        (100, 8, 4, 102),
        # Nobody can have written a term that is still to come.
        (12, 8, 9, 13),
    ],
)
def test_a_claim_is_above_what_the_terms_since_the_one_shown_may_have_claimed(
    there: int, shown: int, written: int, epoch: int
) -> None:
    found: Any = SimpleNamespace(
        zk_epoch=there,
        own=SimpleNamespace(zk_epoch=shown, kraft_epoch=1),
        migration=SimpleNamespace(kraft_controller_epoch=written),
    )
    who: Any = SimpleNamespace(kraft_epoch=6)
    assert claim.next_epoch(found, who) == epoch
