"""Znodes that were skipped are tried again, slowly, until ZooKeeper takes them."""

from __future__ import annotations

import pytest

from emulator.metadata.configs import BROKER
from emulator.migration.dual_write.modes import Mode
from emulator.migration.dual_write.pipeline import Refused
from emulator.migration.dual_write.poison import (
    REPAIRED_MAX,
    REPAIRS_MAX,
    RETRY_MS_MIN,
    SKIPPED_RETRY_MS,
    Poison,
    Poisoned,
    Reaction,
)
from emulator.migration.plan import Group
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import Create, SetData
from tests.unit.migration.test_bound import TOO_LARGE
from tests.unit.migration.test_write_behind import config
from tests.unit.migration.world import World, differences
from tests.unit.znodes.test_no_long_walks import Counted

DEFAULT, SEVEN = "/config/brokers/<default>", "/config/brokers/7"


def skipping() -> World:
    """Two configs that may not be written; both are skipped."""
    world = World(write_behind_poison="skip").dual_write()
    world.put(DEFAULT, b'{"version":1,"config":{}}')
    world.put(SEVEN, b'{"version":1,"config":{}}')
    world.model.tree.read_only |= {DEFAULT, SEVEN}
    world.append(config(BROKER, "", "k", "v"))
    world.append(config(BROKER, "7", "k", "v"))
    world.advance(5_000)
    assert skipped(world) == {DEFAULT, SEVEN}
    return world


def skipped(world: World) -> set[str]:
    return {one.path for one in world.driver.status(world.now_ms).poisoned if one.skipped}


def test_what_may_be_written_again_is_written_without_a_restart() -> None:
    world = skipping()
    world.model.tree.read_only.clear()
    world.advance(SKIPPED_RETRY_MS - 10_000)
    assert set(differences(world)) == {DEFAULT, SEVEN}
    world.advance(20_000)
    assert (skipped(world), differences(world)) == (set(), {}), "the second one at once"
    assert world.driver.write_behind.deadline_ms(world.now_ms) is None


def test_what_is_refused_still_stays_skipped_and_is_named_meanwhile() -> None:
    world = skipping()
    lines = len(world.logs)
    before = world.driver.write_behind.reconcile_count
    for minute in range(60):
        world.append(config(BROKER, "8", "k", str(minute)))
        world.advance(60_000)
        assert skipped(world) == {DEFAULT, SEVEN}
        assert set(differences(world)) == {DEFAULT, SEVEN}, "other changes are written"
    assert world.driver.write_behind.reconcile_count - before == 8, "two for each try"
    assert not [line for line in world.logs[lines:] if line.level == "error"]
    assert world.driver.write_behind.mode is Mode.RUNNING


def test_each_skipped_znode_has_its_turn() -> None:
    world = skipping()
    world.model.tree.read_only.remove(SEVEN)
    world.advance(3 * SKIPPED_RETRY_MS)
    assert skipped(world) == {DEFAULT}
    assert set(differences(world)) == {DEFAULT}


def test_a_change_that_was_too_large_and_is_gone_is_named_no_more() -> None:
    world = World(write_behind_poison="skip").dual_write()
    world.append(config(BROKER, "", "k", TOO_LARGE))
    world.advance(5_000)
    world.append(config(BROKER, "", "k", None))
    world.advance(2 * SKIPPED_RETRY_MS)
    assert (skipped(world), differences(world)) == (set(), {})


def test_zookeeper_is_away_while_one_is_tried_again() -> None:
    world = skipping()
    world.advance(SKIPPED_RETRY_MS - 10_000)
    world.zk_up = False
    world.cut()
    world.advance(SKIPPED_RETRY_MS)
    assert skipped(world) == {DEFAULT, SEVEN}
    world.zk_up = True
    world.model.tree.read_only.clear()
    world.advance(SKIPPED_RETRY_MS)
    assert (skipped(world), differences(world)) == (set(), {})


def test_a_stop_does_not_wait_for_another_try() -> None:
    world = skipping()
    world.advance(SKIPPED_RETRY_MS - 10_000)
    before = world.driver.write_behind.reconcile_count
    world.perform(world.driver.drain(world.now_ms))
    world.advance(20_000)
    world.append(config(BROKER, "9", "k", "committed during the stop"))
    assert world.driver.drained
    assert world.driver.write_behind.reconcile_count == before


def test_what_is_below_a_skipped_znode_is_left_out_without_a_walk_over_all_that_are() -> None:
    poison, counted = Poison(skip=True), Counted()
    poison._skipped = counted
    for number in range(500):
        poison.refused(Refused(ZkCode.NO_AUTH, SetData(f"/config/topics/t{number}", b"", 0)), 0)
    counted.looked = 0
    like, other = SetData("/config/topics/t1-like", b"", 0), Create("/other", b"")
    below, same = Create("/config/topics/t499/a/b", b""), SetData("/config/topics/t0", b"", 0)
    groups: list[Group] = [(like,), (other, below), (below, other), (same,)]
    assert poison.filter(groups) == [(like,), (other,)]
    assert counted.looked == 0


def test_of_many_skipped_znodes_a_new_one_is_told_without_comparing_each_with_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(write_behind_poison="skip").dual_write()
    for number in range(100, 140):
        path = f"/config/brokers/{number}"
        world.put(path, b'{"version":1,"config":{}}')
        world.model.tree.read_only.add(path)
        world.append(config(BROKER, str(number), "k", "v"))
    world.advance(5_000)
    assert len(skipped(world)) == 40
    compared, before = 0, len(world.logs)

    def same(one: Poisoned, other: object) -> bool:
        nonlocal compared
        compared += 1
        return isinstance(other, Poisoned) and one.path == other.path

    monkeypatch.setattr(Poisoned, "__eq__", same)
    world.put(SEVEN, b'{"version":1,"config":{}}')
    world.model.tree.read_only.add(SEVEN)
    world.append(config(BROKER, "7", "k", "v"))
    world.advance(5_000)
    told = [one.fields["path"] for one in world.logs[before:] if one.level == "error"]
    assert (told, len(skipped(world))) == ([SEVEN], 41)
    assert compared <= 41


def test_a_difference_is_repaired_twice_and_blocks_then_until_it_is_healed() -> None:
    poison, path = Poison(skip=False), "/config/topics/t"

    def refused(now_ms: int, code: ZkCode = ZkCode.NO_NODE) -> Reaction:
        return poison.refused(Refused(code, SetData(path, b"", 0)), now_ms)

    for _ in range(2):
        assert [refused(5_000) for _ in range(REPAIRS_MAX)] == [Reaction.RECONCILE] * REPAIRS_MAX
        assert poison.znodes == ()
        assert refused(6_000) is Reaction.BLOCK
        assert [one.path for one in poison.znodes] == [path]
        assert (poison.since_ms, poison.retry_ms) == (6_000, 6_000 + RETRY_MS_MIN)
        assert refused(7_000) is Reaction.BLOCK
        assert (poison.since_ms, poison.retry_ms) == (6_000, 7_000 + 2 * RETRY_MS_MIN)
        poison.healed()
        assert (poison.znodes, poison.since_ms) == ((), None)
    assert refused(8_000, ZkCode.NO_AUTH) is Reaction.BLOCK, "no comparison can repair it"


def test_what_a_comparison_repaired_is_remembered_with_its_times() -> None:
    poison = Poison(skip=False)
    for at_ms in (5_000, 7_000):
        poison.refused(Refused(ZkCode.NODE_EXISTS, Create("/a", b"")), at_ms)
    poison.refused(Refused(ZkCode.NO_NODE, SetData("/b", b"", 0)), 9_000)
    poison.refused(Refused(ZkCode.NO_AUTH, SetData("/c", b"", 0)), 9_500)
    assert [
        (one.path, one.error, one.first_ms, one.last_ms, one.times) for one in poison.repaired
    ] == [
        ("/a", "NODE_EXISTS", 5_000, 7_000, 2),
        ("/b", "NO_NODE", 9_000, 9_000, 1),
    ]
    for number in range(REPAIRED_MAX):
        poison.refused(Refused(ZkCode.NO_NODE, SetData(f"/n{number}", b"", 0)), 10_000)
    assert len(poison.repaired) == REPAIRED_MAX
    assert poison.repaired[0].path == "/n0", "the oldest are forgotten"
