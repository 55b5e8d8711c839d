"""The two bounds on what the log may be ahead of ZooKeeper, as the driver tells them."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from emulator.metadata.idle import ChangeCount
from emulator.metadata.image import EMPTY, Image
from emulator.migration.authority import Authority
from emulator.migration.dual_write.bound import Bound, Bounds
from emulator.migration.dual_write.lag import Lag
from emulator.migration.dual_write.modes import Mode
from emulator.migration.states import State
from emulator.seam import NO_OTHERS, Log, OtherLimits
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
    assert (status.bound.blocked, status.bound.hard_blocked, status.bound.counted_records) == (
        True,
        False,
        100,
    )
    for value in range(50):
        world.append(config(BROKER, "", "k", str(value)))
    assert world.journal.holds[-1] == (0, 0)
    assert world.driver.status(world.now_ms).bound.hard_blocked
    assert world.logs[-1].level == "error"
    world.zk_up = True
    world.advance(5_000)
    assert world.journal.holds[-1] == (100, 150)
    assert not world.driver.status(world.now_ms).bound.hard_blocked
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
    world.reach(State.BECOME_CONTROLLER, 1_000)
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
    world.reach(State.SYNC_KRAFT_TO_ZK, 1_000)
    assert world.journal.end > 100
    for value in range(100):
        world.append(config(BROKER, "", "k", str(value)))
    assert world.journal.holds[-1][0] == 0
    assert world.driver.status(world.now_ms).bound.blocked
    world.zk_up = True
    world.reach(State.DUAL_WRITE, 10_000)
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
    assert (status.lag_records, status.bound.counted_records, status.bound.blocked) == (
        1_001,
        1,
        False,
    )


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


def test_who_leads_no_more_has_no_bounds() -> None:
    """Another voter's log is not bounded by what this one knows of ZooKeeper."""
    world = behind()
    for value in range(100):
        world.append(config(BROKER, "", "k", str(value)))
    assert world.journal.holds[-1] == (0, 19_900)
    world.perform(world.driver.resigned(world.now_ms))
    assert world.journal.holds[-1] == (None, None)
    assert not world.driver.status(world.now_ms).bound.blocked


class Told:
    """A controller whose log begins with a snapshot up to offset 9,999."""

    appended = 7
    appended_bytes = 0
    end = -1
    others = NO_OTHERS

    def __init__(self) -> None:
        self.rooms: list[tuple[int | None, int | None]] = []

    def changes_after(self, offset: int) -> ChangeCount:
        known = self.appended - max(0, offset - 9_999)
        return ChangeCount(known, max(0, 9_999 - offset))

    @property
    def tip(self) -> Image:
        return replace(EMPTY, offset=self.end)

    def hold(
        self,
        *,
        now_ms: int,
        room: int | None = None,
        hard_room: int | None = None,
        others: OtherLimits = NO_OTHERS,
    ) -> None:
        del now_ms
        self.others = others
        self.rooms.append((room, hard_room))


def test_records_of_a_snapshot_count_for_the_first_bound_and_leave_room_below_the_second() -> None:
    """Nobody knows which of them are NoOps: what heals must have room after a restart too."""
    told = Told()
    bound = Bound(told, Bounds(100, 200))
    bound.bind(True)
    bound.apply(-1, Lag(), 0)
    assert told.rooms[-1] == (0, 93)
    bound.apply(9_989, Lag(), 0)
    assert told.rooms[-1] == (83, 183)


@pytest.mark.parametrize(("bounds", "rooms"), [((0, 0), None), ((100, 0), (93, None))])
def test_zero_is_no_bound(bounds: tuple[int, int], rooms: tuple[int | None, int | None]) -> None:
    told = Told()
    bound = Bound(told, Bounds(*bounds))
    bound.bind(True)
    bound.apply(9_999, Lag(), 0)
    assert told.rooms == ([] if rooms is None else [rooms])


def test_when_a_bound_ends_to_apply_that_is_told_once_and_what_was_reached_is_forgotten() -> None:
    told = Told()
    told.appended = 300
    bound = Bound(told, Bounds(100, 200))
    bound.apply(9_999, Lag(), 0)
    assert told.rooms == [], "it never applied"
    for _ in range(2):
        bound.bind(True)
        for _ in range(3):
            bound.apply(9_999, Lag(), 0)
        assert (bound.status.blocked, bound.status.hard_blocked) == (True, True)
        bound.bind(False)
        for _ in range(3):
            assert bound.apply(9_999, Lag(), 0) == []
        assert told.rooms == [(0, 0), (0, 0), (0, 0), (None, None)]
        assert (bound.status.blocked, bound.status.counted_records) == (False, 0)
        told.rooms.clear()


def test_waiting_begins_at_a_bound_and_ends_well_below_it() -> None:
    """Otherwise each multi would let one operation through and block the next."""
    told = Told()
    told.appended = 100
    bound = Bound(told, Bounds(100, 200))
    bound.bind(True)
    rooms = []
    for confirmed in (0, 1, 25, 26, 1, 0):
        bound.apply(9_999 + confirmed, Lag(), 0)
        rooms.append(told.rooms[-1][0])
    assert rooms == [0, 0, 0, 26, 1, 0]


def test_bytes_have_a_bound_of_their_own() -> None:
    told = Told()
    bound = Bound(told, Bounds(bytes=1_000, hard_bytes=2_000))
    bound.bind(True, after=9_999)
    told.end = 9_999
    told.appended_bytes = 50_000
    bound.apply(9_999, Lag(), 0)
    for step in range(1, 5):
        told.end, told.appended_bytes = 9_999 + step, 50_000 + 300 * step
        bound.apply(9_999, Lag(), 0)
    assert told.others.byte_room == 0
    assert told.others.hard_byte_room == 800
    assert bound.status.reached == ("bytes",)
    assert bound.status.counted_bytes == 1_200
    bound.apply(10_000, Lag(), 0)
    assert (told.others.byte_room, bound.status.counted_bytes) == (0, 900)
    bound.apply(10_001, Lag(), 0)
    assert (told.others.byte_room, bound.status.counted_bytes) == (400, 600)
    assert not bound.status.blocked


@pytest.mark.requirement("U04")
def test_age_has_a_bound_for_ordinary_calls_only_and_comes_by_itself() -> None:
    world = World(write_behind_max_age_ms=5_000).dual_write()
    world.zk_up = False
    world.cut()
    world.append(config(BROKER, "", "k", "1"))
    began_ms = world.now_ms
    world.advance(4_000)
    # The oldest decides: under load the newest is never old.
    world.append(config(BROKER, "", "k", "2"))
    world.advance(999)
    assert not world.driver.status(world.now_ms).bound.blocked
    world.advance(1)
    assert world.driver.status(world.now_ms).bound.reached == ("age",)
    assert world.journal.other_limits.aged
    assert world.journal.holds[-1] == (9_998, 19_998), "what brokers need goes on"
    world.zk_up = True
    world.advance(10_000)
    assert not world.journal.other_limits.aged
    assert world.now_ms == began_ms + 15_000


def test_a_caller_is_told_when_room_is_expected() -> None:
    """100 records at the bound; 10 of them confirmed in 500 ms; 15 more until 75 are left."""
    told = Told()
    told.appended = 100
    bound = Bound(told, Bounds(100, 200))
    bound.bind(True)
    bound.apply(9_999, Lag(), 1_000)
    assert told.others.retry_ms == 5_000, "nothing was confirmed since"
    bound.apply(10_009, Lag(), 1_500)
    assert told.others.retry_ms == 750
    bound.apply(10_024, Lag(), 1_501)
    assert told.others.retry_ms == 100
    bound.apply(10_030, Lag(), 1_502)
    assert told.others.retry_ms == 0


def test_each_change_of_what_waits_is_one_line() -> None:
    told = Told()
    bound = Bound(told, Bounds(100, 200))
    bound.bind(True)
    lines = []
    for appended in (99, 100, 150, 200, 250, 100, 10, 9):
        told.appended = appended
        lines += [
            (one.level, one.fields) for one in bound.apply(9_999, Lag(), 0) if isinstance(one, Log)
        ]
    reached = {"reached": "records"}
    assert lines == [
        ("warning", {"lag_records": 100, "bound_records": 100} | reached),
        ("error", {"lag_records": 200, "bound_records": 200} | reached),
        ("warning", {"lag_records": 100, "bound_records": 100} | reached),
        ("info", {"lag_records": 10, "bound_records": 100}),
    ]


def test_of_bytes_the_line_says_how_many() -> None:
    told = Told()
    bound = Bound(told, Bounds(0, 0, bytes=50, hard_bytes=100))
    bound.bind(True)
    told.end = 9_999
    assert bound.apply(9_999, Lag(), 0) == []
    told.end, told.appended_bytes = 10_000, 50
    (line,) = bound.apply(9_999, Lag(), 0)
    assert isinstance(line, Log)
    assert line.fields == {
        "lag_records": 7,
        "bound_records": 0,
        "lag_bytes": 50,
        "bound_bytes": 50,
        "reached": "bytes",
    }


@pytest.mark.parametrize(
    ("done", "after_ms", "retry_ms"),
    [(1, 1_000, 250), (1, 399, 100), (1, 404, 101), (0, 1_000, 5_000), (1, 0, 5_000)],
)
def test_of_one_record_at_a_bound_of_one_a_quarter_must_still_go(
    done: int, after_ms: int, retry_ms: int
) -> None:
    told = Told()
    told.appended = 1 + done
    bound = Bound(told, Bounds(1, 2))
    bound.bind(True)
    bound.apply(9_999, Lag(), 1_000)
    bound.apply(9_999 + done, Lag(), 1_000 + after_ms)
    assert told.others.retry_ms == retry_ms


@pytest.mark.requirement("M06", "M12")
def test_what_an_earlier_process_left_to_write_is_pending_until_the_trees_agree() -> None:
    """The gauge said 0, which means that the stores agree, while a znode was refused for hours."""
    world = World(write_behind_max_age_ms=5_000).dual_write()
    world.append(config(BROKER, "", "k", "first"))
    world.advance(1_000)
    world.zk_up = False
    world.cut()
    for value in range(3):
        world.append(config(BROKER, "", "k", str(value)))
        world.append(r.NoOpRecord())
    world.zk_up = True
    world.model.tree.read_only.add("/config/brokers/<default>")
    restart(world)
    world.advance(10_000)
    assert world.driver.write_behind.mode is Mode.POISONED
    assert differences(world)
    status = world.driver.status(world.now_ms)
    assert status.lag_changed_records == 3
    assert status.lag_ms > 5_000
    assert status.bound.reached == ("age",)
    world.model.tree.read_only.clear()
    world.advance(60_000)
    assert differences(world) == {}
    status = world.driver.status(world.now_ms)
    assert (status.lag_changed_records, status.lag_ms, status.bound.reached) == (0, 0, ())


def test_before_the_copy_nothing_is_said_to_be_pending() -> None:
    world = World().dual_write()
    assert world.driver.write_behind.lag.changed_records == 0
    assert world.driver.bound.behind(-1, EMPTY) == 0
