"""A slow line to ZooKeeper: requests become as small as it carries within the session's time."""

from __future__ import annotations

import pytest

from emulator.migration.dual_write.modes import Mode
from emulator.zookeeper.frame_limit import BEGIN_BYTES
from tests.unit.migration.slow_line import SlowLine, behind_a_line
from tests.unit.migration.test_write_behind import A, config
from tests.unit.migration.world import World, differences, migration_offset

BROKER = 4
SLOW_BYTES_PER_S = 4_000
"""16 kB in the 4 s that a request has with a session of 6 s."""


def on_a_line(**settings: object) -> tuple[World, SlowLine]:
    world = World(**settings)
    line = behind_a_line(world)
    return world.dual_write(), line


@pytest.mark.requirement("W04")
def test_a_large_change_reaches_zookeeper_over_a_slow_line() -> None:
    """One multi of it took longer than a request may take, and was sent again for ever."""
    world, line = on_a_line()
    line.bytes_per_s = SLOW_BYTES_PER_S
    last = world.append(*world.topic("a", A, *[(1, 2)] * 180))
    sessions = world.zk.generation
    world.advance(120_000)
    assert migration_offset(world) == last
    assert differences(world) == {}
    assert world.zk.generation - sessions <= 4
    assert line.carried < 3 * 45_000, "it is not sent over and over"
    assert world.zk.limit.bytes < 16_000


def test_once_the_line_is_fast_again_requests_grow() -> None:
    world, line = on_a_line()
    line.bytes_per_s = SLOW_BYTES_PER_S
    world.append(*world.topic("a", A, *[(1, 2)] * 180))
    world.advance(120_000)
    line.bytes_per_s = 0
    for number in range(12):
        world.append(*world.topic(f"t{number}", number.to_bytes(16), *[(1, 2)] * 300))
        world.advance(1_000)
    assert differences(world) == {}
    assert world.zk.limit.bytes > 50_000, "more than 400 operations need"


def test_one_change_that_the_line_does_not_carry_in_time_is_named_and_retried() -> None:
    world, line = on_a_line()
    line.bytes_per_s = SLOW_BYTES_PER_S
    world.append(config(BROKER, "", "k", "x" * 20_000))
    world.advance(120_000)
    (znode,) = world.driver.status(world.now_ms).poisoned
    assert znode.path == "/config/brokers/<default>"
    assert "zookeeper.session.timeout.ms" in znode.cause
    line.bytes_per_s = 0
    world.advance(60_000)
    assert world.driver.write_behind.mode is Mode.RUNNING
    assert world.driver.status(world.now_ms).poisoned == ()
    assert differences(world) == {}


def test_one_that_is_left_out_lets_the_others_pass() -> None:
    world, line = on_a_line(write_behind_poison="skip")
    line.bytes_per_s = SLOW_BYTES_PER_S
    world.append(config(BROKER, "", "k", "x" * 20_000))
    last = world.append(*world.topic("a", A, (1, 2)))
    world.advance(120_000)
    assert migration_offset(world) >= last
    assert list(differences(world)) == ["/config/brokers/<default>"]


def test_a_zookeeper_that_stands_still_is_no_slow_line_for_long() -> None:
    world, _ = on_a_line()
    world.held = []
    world.append(*world.topic("a", A, *[(1, 2)] * 180))
    world.advance(20_000)
    assert world.zk.limit.bytes < BEGIN_BYTES
    world.held = None
    world.advance(20_000)
    assert differences(world) == {}
    for number in range(8):
        world.append(*world.topic(f"t{number}", number.to_bytes(16), *[(1, 2)] * 300))
        world.advance(1_000)
    assert world.zk.limit.bytes > 50_000
    assert world.driver.status(world.now_ms).poisoned == ()
