"""What settles a doubt is what our own znode says; another hand may have moved the counters."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from emulator.migration.dual_write.modes import Mode
from emulator.migration.states import State
from emulator.seam import Received
from tests.unit.migration.world import World, differences, migration_offset
from wire import records as r

A, B = b"A" * 16, b"B" * 16
OURS = ("/kraft_bridge", "/migration")
END_BYTES, STAT_BYTES, VERSION_AT = 9, 68, 32
"""Of the answer to a multi: its last header, a Stat, and the version in that."""


def running() -> World:
    return World(write_behind_multi_ops=20).dual_write()


def in_flight(world: World, partitions: int) -> None:
    """One multi in flight for a small topic, two for a big one, none of them in ZooKeeper yet."""
    world.held = []
    world.append(*world.topic("a", A, *((1, 2) for _ in range(partitions))))
    world.advance(10)
    assert world.driver.write_behind.pipeline.in_flight == (1 if partitions < 10 else 2)


def rewritten(world: World) -> None:
    """Another hand writes both znodes, with what they hold."""
    for path in OURS:
        world.put(path, world.data(path))


def ends_well(world: World) -> None:
    world.reach(State.DUAL_WRITE, 10_000)
    assert world.driver.write_behind.mode is Mode.RUNNING
    assert differences(world) == {}
    assert migration_offset(world) == world.journal.stable.offset
    assert world.driver.write_behind.lag.records == 0


@pytest.mark.requirement("W07", "Z02")
@pytest.mark.parametrize("partitions", [1, 100])
@pytest.mark.parametrize("times", [1, 2])
def test_both_znodes_rewritten_unchanged_while_multis_are_in_flight(
    partitions: int, times: int
) -> None:
    """The versions are those that the multis would have left; the refused one is in no znode."""
    world = running()
    in_flight(world, partitions)
    for _ in range(times):
        rewritten(world)
    world.release()
    ends_well(world)
    assert world.driver.write_behind.pipeline.multis["refused"] >= 1
    assert world.driver.write_behind.reconcile_count == 2


@pytest.mark.requirement("W07", "Z02")
def test_a_multi_that_overtook_a_refused_one_leaves_no_hole() -> None:
    """The foreign writes stand in for the first multi, so the second one is applied."""
    world = running()
    world.held = []
    for name, topic_id, partitions in (("a", A, 1), ("b", B, 200)):
        world.append(*world.topic(name, topic_id, *[(1, 2)] * partitions))
    assert world.driver.write_behind.pipeline.in_flight == 2
    rewritten(world)
    world.release()
    assert world.driver.write_behind.pipeline.multis["refused"] == 1
    ends_well(world)
    assert {"/brokers/topics/a", "/brokers/topics/b"} <= world.paths


@pytest.mark.requirement("W07", "Z02")
def test_both_znodes_rewritten_unchanged_and_the_refusal_is_lost() -> None:
    world = running()
    in_flight(world, 1)
    rewritten(world)
    world.dropping_replies = True
    world.release()
    assert "/brokers/topics/a" not in world.paths
    world.cut()
    ends_well(world)
    assert world.driver.write_behind.pipeline.multis["lost"] == 1


@pytest.mark.requirement("W07")
def test_an_applied_multi_counts_although_both_znodes_were_rewritten_after_it() -> None:
    world = running()
    world.dropping_replies = True
    last = world.append(*world.topic("a", A, (1, 2)))
    rewritten(world)
    world.zk_up = False
    world.cut()
    world.append(r.NoOpRecord())
    world.zk_up = True
    lowest = []
    write = world.model.tree.multi

    def looking(*args: object) -> object:
        done = write(*args)
        lowest.append(migration_offset(world))
        return done

    world.model.tree.multi = looking  # type: ignore[method-assign, assignment]
    ends_well(world)
    assert lowest
    assert min(lowest) >= last, "/migration does not go back to what was confirmed before"
    assert world.version("/brokers/topics/a") == 0


@pytest.mark.requirement("W07")
@pytest.mark.parametrize("rubbish", [b"rubbish", b"", b"{}", None])
@pytest.mark.parametrize("cut", [False, True])
def test_rubbish_in_both_znodes_is_written_over_while_the_claim_stands(
    rubbish: bytes | None, cut: bool
) -> None:
    """The claim fences every other controller, so whoever wrote this is none."""
    world = running()
    in_flight(world, 100)
    for path in OURS:
        world.put(path, rubbish)
    world.release()
    if cut:
        world.cut()
    ends_well(world)
    said = msgspec.json.decode(world.data("/kraft_bridge"))
    assert said["incarnation"] == world.settings.incarnation


def test_both_znodes_deleted_are_made_anew() -> None:
    world = running()
    in_flight(world, 1)
    for path in OURS:
        world.remove(path)
    world.release()
    ends_well(world)


def test_an_old_content_put_back_by_hand_is_written_over() -> None:
    world = running()
    old = {path: world.data(path) for path in OURS}
    world.append(*world.topic("b", B, (1, 2)))
    in_flight(world, 1)
    for path, data in old.items():
        world.put(path, data)
    world.release()
    ends_well(world)


@pytest.mark.requirement("W05")
def test_another_process_that_writes_under_our_claim_stops_us_and_is_named() -> None:
    """A clone that runs an earlier release takes our claim for its own, by id and epoch."""
    world = running()
    in_flight(world, 1)
    said = msgspec.json.decode(world.data("/kraft_bridge"))
    world.put("/kraft_bridge", msgspec.json.encode({**said, "incarnation": "other"}))
    world.put("/migration", world.data("/migration"))
    world.release()
    world.advance(10_000)
    assert world.driver.write_behind.mode is Mode.DEPOSED
    assert "/brokers/topics/a" not in world.paths
    status = world.driver.status(world.now_ms)
    for why in (status.deposed_because, status.waiting[0].reason.text):
        assert "another process" in why
        assert "end it, then restart this controller" in why


@pytest.mark.requirement("Z02", "W04")
def test_each_multi_says_who_wrote_it_and_which_batch_was_the_last() -> None:
    world = running()
    offset = world.append(*world.topic("a", A, (1, 2)))
    said = msgspec.json.decode(world.data("/kraft_bridge"))
    assert said["incarnation"] == world.settings.incarnation
    assert (said["offset"], said["digest"]) == (offset, world.journal.digest_at(offset))
    world.append(*world.topic("b", B, (1, 2)))
    after = msgspec.json.decode(world.data("/kraft_bridge"))
    assert after["sequence"] == said["sequence"] + 1
    assert after["digest"] != said["digest"]


@pytest.mark.parametrize("wrong", [-1, 1, 2**31 - 1])
def test_an_answer_with_versions_that_cannot_be_proves_nothing(wrong: int) -> None:
    """The multi was applied; what came back says that its counter stands elsewhere."""
    world = running()
    lied: list[int] = []

    def lying(answer: Any) -> list[Any]:
        data = bytearray(answer.data)
        if len(data) > 300 and not lied:
            at = len(data) - END_BYTES - STAT_BYTES + VERSION_AT
            lied.append(int.from_bytes(data[at : at + 4], "big"))
            data[at : at + 4] = wrong.to_bytes(4, "big", signed=True)
        return world.zk.handle(Received(answer.conn, bytes(data)), world.now_ms)

    expected = world.version("/migration") + 1
    world._deliver = lying  # type: ignore[method-assign]
    world.append(*world.topic("a", A, (1, 2)))
    assert lied == [expected], "the version in the last result of the multi"
    ends_well(world)
