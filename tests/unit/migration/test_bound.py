"""The two bounds on what the log may be ahead of ZooKeeper, as the driver tells them."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pytest

from emulator.metadata.idle import ChangeCount
from emulator.metadata.image import EMPTY, Image
from emulator.migration.authority import Authority
from emulator.migration.dual_write.bound import Bound
from emulator.migration.dual_write.modes import Mode
from emulator.migration.states import State
from tests.unit.migration.stories import TOPIC_A, put_topic, restart
from tests.unit.migration.test_write_behind import config
from tests.unit.migration.world import World, differences
from wire import records as r

BROKER = 4
TOO_LARGE = "x" * 1_100_000


def behind(**settings: int) -> World:
    """Dual write, and ZooKeeper has just gone away."""
    world = World(write_behind_max_records=100, **settings).dual_write()
    world.zk_up = False
    world.cut()
    return world


@pytest.mark.requirement("W02", "U03")
def test_callers_wait_at_the_bound_and_go_on_below_it() -> None:
    world = behind(write_behind_hard_max_records=150)
    for value in range(99):
        world.append(config(BROKER, "", "k", str(value)))
    assert world.journal.holds[-1] == (1, 51)
    world.append(config(BROKER, "", "k", "last"))
    assert world.journal.holds[-1] == (0, 50)
    status = world.driver.status(world.now_ms)
    assert (status.blocked, status.hard_blocked, status.counted_records) == (True, False, 100)
    for value in range(50):
        world.append(config(BROKER, "", "k", str(value)))
    assert world.journal.holds[-1] == (0, 0)
    assert world.driver.status(world.now_ms).hard_blocked
    assert world.logs[-1].level == "error"
    world.zk_up = True
    world.advance(5_000)
    assert world.journal.holds[-1] == (100, 150)
    assert not world.driver.status(world.now_ms).hard_blocked
    assert differences(world) == {}


@pytest.mark.requirement("W02")
def test_what_is_appended_counts_before_it_is_committed() -> None:
    world = World(write_behind_max_records=100).dual_write()
    world.journal.committing = False
    for value in range(60):
        world.append(config(BROKER, "", "k", str(value)))
    world.perform(world.driver.tick(world.now_ms))
    assert world.journal.holds[-1][0] == 40
    assert world.driver.write_behind.lag.records == 0, "nothing of it is committed"


@pytest.mark.requirement("W02")
def test_the_bound_applies_while_a_claim_that_the_guards_allow_cannot_be_written() -> None:
    """Callers are served then; what was appended since the start counts, committed or not."""
    world = World(write_behind_max_records=100).dual_write()
    world.model.tree.read_only.add("/controller_epoch")
    restart(world)
    world.advance(1_000)
    assert world.driver.state is State.BECOME_CONTROLLER
    assert world.driver.authority is Authority.GRANTED
    for value in range(60):
        world.append(config(BROKER, "", "k", str(value)))
    assert world.journal.holds[-1][0] == 40


@pytest.mark.requirement("W02")
def test_the_bound_applies_from_the_end_of_the_copy_without_what_was_copied() -> None:
    """ZooKeeper may go away before the first comparison, and callers are served already."""
    world = World(write_behind_max_records=100)
    for number in range(60):
        put_topic(world, f"a{number}", TOPIC_A.replace(b"QUFB", base64.b64encode(b"%03d" % number)))
    world.cluster(1, 2)
    world.bootstrap()
    append = world.journal.append

    def appended(records: Sequence[object], now_ms: int, *, atomic: bool = True) -> int:
        kinds = [one for one in records if isinstance(one, r.ZkMigrationStateRecord)]
        world.journal.committing &= all(one.zk_migration_state != 1 for one in kinds)
        return append(records, now_ms, atomic=atomic)

    world.journal.append = appended  # type: ignore[method-assign]
    world.start()
    for broker in (1, 2):
        world.register(broker)
    world.advance(1_000)
    world.journal.append = append  # type: ignore[method-assign]
    world.zk_up = False
    world.cut()
    world.journal.committing = True
    world.advance(1_000)
    assert world.driver.state is State.SYNC_KRAFT_TO_ZK
    assert world.journal.end > 100
    for value in range(100):
        world.append(config(BROKER, "", "k", str(value)))
    assert world.journal.holds[-1][0] == 0
    assert world.driver.status(world.now_ms).blocked
    world.zk_up = True
    world.advance(10_000)
    assert world.driver.state is State.DUAL_WRITE
    assert world.journal.holds[-1][0] == 100
    assert differences(world) == {}


@pytest.mark.requirement("W02")
def test_an_idle_log_never_comes_near_the_bound() -> None:
    world = behind(write_behind_hard_max_records=200)
    world.append(config(BROKER, "", "k", "1"))
    for _ in range(1_000):
        world.append(r.NoOpRecord())
    assert world.journal.holds[-1] == (99, 199)
    status = world.driver.status(world.now_ms)
    assert (status.lag_records, status.counted_records, status.blocked) == (1_001, 1, False)


@pytest.mark.requirement("U03")
def test_behind_a_znode_that_zookeeper_refuses_the_deletion_has_room_after_hours() -> None:
    world = World(write_behind_max_records=100).dual_write()
    world.append(config(BROKER, "", "k", TOO_LARGE))
    world.advance(2_000)
    assert world.driver.write_behind.mode is Mode.POISONED
    for _ in range(1_000):
        world.append(r.NoOpRecord())
    assert world.journal.holds[-1][0] == 99
    world.append(config(BROKER, "", "k", None))
    world.advance(60_000)
    assert world.driver.status(world.now_ms).poisoned == ()
    assert differences(world) == {}


class Told:
    """A controller whose log begins with a snapshot up to offset 9,999."""

    tip: Image = EMPTY

    def __init__(self) -> None:
        self.rooms: list[tuple[int | None, int | None]] = []

    def changes_after(self, offset: int) -> ChangeCount:
        return ChangeCount(7, 9_999 - offset)

    def hold(self, *, now_ms: int, room: int | None = None, hard_room: int | None = None) -> None:
        del now_ms
        self.rooms.append((room, hard_room))


def test_records_of_a_snapshot_count_for_the_first_bound_and_leave_room_below_the_second() -> None:
    """Nobody knows which of them are NoOps: what heals must have room after a restart too."""
    told = Told()
    bound = Bound(told, 100, 200)
    bound.bind(True)
    bound.apply(-1, 0)
    assert told.rooms[-1] == (0, 93)
    bound.apply(9_989, 0)
    assert told.rooms[-1] == (83, 183)


@pytest.mark.parametrize(("bounds", "rooms"), [((0, 0), None), ((100, 0), (93, None))])
def test_zero_is_no_bound(bounds: tuple[int, int], rooms: tuple[int | None, int | None]) -> None:
    told = Told()
    bound = Bound(told, *bounds)
    bound.bind(True)
    bound.apply(9_999, 0)
    assert told.rooms == ([] if rooms is None else [rooms])
