"""While ZooKeeper takes nothing, it is said early when the second bound will be reached."""

from __future__ import annotations

import pytest

from emulator.migration.dual_write.bound import STANDSTILL_MS, Bound, Bounds
from emulator.migration.dual_write.lag import Lag
from emulator.migration.dual_write.modes import Mode
from tests.unit.migration.test_bound import BROKER, TOO_LARGE, Told, behind
from tests.unit.migration.test_write_behind import config
from tests.unit.migration.world import World


def foreseen(world: World) -> int | None:
    return world.driver.status(world.now_ms).bound.hard_in_ms


def grow(world: World, count: int, every_ms: int = 1_000) -> None:
    for number in range(count):
        world.advance(every_ms)
        world.append(config(BROKER, "1", "k", str(number)))


@pytest.mark.slow
@pytest.mark.requirement("W02", "M06")
def test_behind_a_refused_znode_it_is_said_long_before() -> None:
    world = World(write_behind_max_records=1_000, write_behind_hard_max_records=2_000).dual_write()
    world.append(config(BROKER, "", "k", TOO_LARGE))
    world.advance(2_000)
    assert world.driver.write_behind.mode is Mode.POISONED
    assert foreseen(world) is None
    refused_ms = world.driver.status(world.now_ms).blocked_since_ms
    assert refused_ms is not None
    assert world.now_ms - 2_000 <= refused_ms <= world.now_ms
    grow(world, 100)
    left_ms = foreseen(world)
    assert left_ms is not None
    assert 0.95 < left_ms / (1_900 * 1_000) < 1.05, "one record each second"
    grow(world, 900)
    left_ms = foreseen(world)
    assert left_ms is not None
    assert 0.95 < left_ms / (1_000 * 1_000) < 1.05
    grow(world, 1_000)
    assert foreseen(world) == 0
    world.append(config(BROKER, "", "k", None))
    world.advance(60_000)
    assert foreseen(world) is None
    assert world.driver.status(world.now_ms).blocked_since_ms is None


def test_nothing_is_foreseen_while_zookeeper_confirms_or_nothing_is_added() -> None:
    world = World(write_behind_max_records=100).dual_write()
    for _ in range(100):
        grow(world, 1)
        assert foreseen(world) is None
    world = behind()
    world.append(config(BROKER, "", "k", "v"))
    world.advance(STANDSTILL_MS // 2)
    assert foreseen(world) is None, "too early to say"


def test_without_a_second_bound_nothing_is_foreseen() -> None:
    world = behind(write_behind_hard_max_records=0)
    grow(world, 50)
    assert foreseen(world) is None


@pytest.mark.parametrize(
    ("appended", "confirmed", "after_ms", "left_ms"),
    [
        (60, 9_999, STANDSTILL_MS - 1, None),
        (60, 9_999, STANDSTILL_MS, 28_000),
        (60, 9_999, 2 * STANDSTILL_MS, 56_000),
        (11, 9_999, STANDSTILL_MS, 1_890_000),
        (10, 9_999, STANDSTILL_MS, None),
        (9, 9_999, STANDSTILL_MS, None),
        (199, 9_999, STANDSTILL_MS, 52),
        (200, 9_999, STANDSTILL_MS, 0),
        (300, 9_999, STANDSTILL_MS, 0),
        (60, 10_000, STANDSTILL_MS, None),
    ],
)
def test_it_is_foreseen_at_the_rate_since_the_last_confirmation(
    appended: int, confirmed: int, after_ms: int, left_ms: int | None
) -> None:
    told = Told()
    bound = Bound(told, Bounds(100, 200))
    bound.bind(True)
    told.appended = 10
    bound.apply(9_999, Lag(), 5_000)
    told.appended = appended
    bound.apply(confirmed, Lag(), 5_000 + after_ms)
    assert bound.status.hard_in_ms == left_ms
