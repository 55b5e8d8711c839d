"""A disk with room for records, and none for a snapshot, does not end the node."""

from __future__ import annotations

import pytest

from emulator.node.introspection import metrics, status
from emulator.node.machine import RETRY_MS, RETRY_MS_MAX
from emulator.raft import layout
from emulator.seam import Effect, Log, WriteFile
from emulator.trace.raft_metrics import SNAPSHOT_FAILURES
from tests.unit.node.test_machine import World

EVERY_MS = 3_000
OFF = {
    "zookeeper.metadata.migration.enable": "false",
    "metadata_log_max_snapshot_interval_ms": str(EVERY_MS),
}
WHY = "no space left on the device"


class Full(World):
    no_room = WHY


def full() -> World:
    """A node of which the first snapshot could not be written."""
    world = Full(**OFF)
    world.advance(EVERY_MS + 2_000)
    return world


def told(world: World, text: str) -> list[Log]:
    return [line for line in world.logs if text in line.event]


def snapshots(world: World) -> list[str]:
    return [path for path in world.files if layout.snapshot_id(path) is not None]


def test_it_goes_on_and_its_log_is_kept() -> None:
    world = full()
    assert world.halt is None
    [line] = told(world, "snapshot not written")
    assert (line.level, line.fields["why"]) == ("warning", WHY)
    assert (world.node.raft.log_start_offset, world.node.raft.snapshotting) == (0, False)
    end = world.node.raft.high_watermark
    world.advance(2_000)
    assert world.node.raft.high_watermark > end
    assert snapshots(world) == []


@pytest.mark.slow
def test_it_is_tried_again_after_pauses_that_grow_to_an_hour() -> None:
    world = full()
    found = []
    for expected in (RETRY_MS, 2 * RETRY_MS, 4 * RETRY_MS):
        failure = world.node.snapshots.failure
        assert (failure.why, failure.again_ms - failure.at_ms) == (WHY, expected)
        found.append(failure.times)
        world.advance(failure.again_ms - world.now_ms - 1_000)
        assert world.node.snapshots.failure == failure
        world.advance(2_000)
    assert found == [1, 2, 3]
    for _ in range(5):
        failure = world.node.snapshots.failure
        world.advance(failure.again_ms - world.now_ms + 1_000)
    last = world.node.snapshots.failure
    assert (last.times, last.again_ms - last.at_ms) == (9, RETRY_MS_MAX)


def test_once_there_is_room_the_next_one_is_written_and_nothing_is_left_of_the_failure() -> None:
    world = full()
    shown = status(world.node, world.now_ms)["snapshot_failure"]
    assert (shown["why"], shown["times"]) == (WHY, 1)
    assert shown["again_at"] > shown["at"]
    world.no_room = ""
    world.advance(RETRY_MS + EVERY_MS)
    assert told(world, "snapshot written")
    assert snapshots(world)
    assert world.node.snapshots.failure is None
    assert status(world.node, world.now_ms)["snapshot_failure"] is None
    assert metrics(world.node, world.now_ms)[SNAPSHOT_FAILURES] == 1
    count = len(told(world, "snapshot written"))
    world.advance(2 * EVERY_MS)
    assert len(told(world, "snapshot written")) - count >= 1, "they are due as before"


def test_restarts_do_not_end_it_either() -> None:
    """What is due at once after a restart fails at once, too."""
    files, now_ms = full().files, 2_000_000
    for _ in range(3):
        world = Full(files, now_ms=now_ms, **OFF)
        world.advance(2_000)
        assert world.halt is None
        assert len(told(world, "snapshot not written")) == 1
        files, now_ms = world.files, world.now_ms + 1_000


@pytest.mark.parametrize("there", [True, False])
def test_a_file_that_is_there_though_its_folder_could_not_be_synced_is_removed(there: bool) -> None:
    world = Full(**OFF)
    perform, seen = world.perform, list[str]()

    def leaves(effects: list[Effect]) -> None:
        for one in effects:
            if isinstance(one, WriteFile):
                seen.append(one.path)
                if there:
                    world.files[one.path] = one.data
        perform(effects)

    world.perform = leaves  # type: ignore[method-assign]
    world.advance(EVERY_MS + 2_000)
    assert seen
    assert world.halt is None
    assert snapshots(world) == []


def test_one_that_was_due_by_bytes_alone_is_tried_again_too() -> None:
    due = {"metadata_log_max_record_bytes_between_snapshots": "1500"}
    world = Full(**OFF | due | {"metadata_log_max_snapshot_interval_ms": "0"})
    world.advance(30_000)
    failure = world.node.snapshots.failure
    world.no_room = ""
    world.advance(failure.again_ms - world.now_ms + 1_000)
    assert world.node.raft.latest_snapshot is not None
