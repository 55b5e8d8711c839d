"""A disk that fails ends the node, also when it fails in the very step that ends it."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeGuard, cast

import pytest

from emulator.node.stopping import DRAIN_MS_MAX
from emulator.raft.layout import SnapshotId, snapshot_path
from emulator.raft.machine import Raft
from emulator.seam import (
    AppendFile,
    DiskFailed,
    Effect,
    Event,
    FileNotWritten,
    Halt,
    Log,
    Synced,
    SyncFile,
)
from tests.unit.node.test_machine import World, dual_writing


def plain() -> World:
    return World(zookeeper_metadata_migration_enable="false")


def test_a_disk_that_fails_ends_the_node() -> None:
    world = plain()
    effects = world.node.step([DiskFailed("no space")], world.now_ms)
    assert effects[-1] == Halt(1, "the disk failed: no space")
    assert world.node.step([], world.now_ms) == []


def test_a_leaders_snapshot_that_cannot_be_written_ends_the_node() -> None:
    """Its log cannot go on without; its own it can do without."""
    world = plain()
    path = snapshot_path(SnapshotId(10, 2))
    effects = world.node.step([FileNotWritten(path, "no space")], world.now_ms)
    assert effects[-1] == Halt(1, "the disk failed: no space")


def test_a_file_that_cannot_be_written_in_the_last_step_does_not_keep_the_node_alive() -> None:
    """The shell does nothing of what follows a file effect that failed, the Halt neither."""
    world = plain()
    effects = world.node.shutdown(world.now_ms)
    assert effects[-1] == Halt(0, "stopped")
    assert world.node.step([DiskFailed("no space")], world.now_ms) == [
        Halt(1, "the disk failed: no space")
    ]


def said(effects: list[Effect], text: str) -> list[str]:
    found = [one for one in effects if isinstance(one, Log) and text in one.event]
    return [one.level for one in found]


def stopped_at_the_mark(world: World) -> list[Effect]:
    """Of the step that appends the mark, which is not performed."""
    step, found = world.node.step, list[Effect]()

    def until(events: list[Event], now_ms: int) -> list[Effect]:
        effects = step(events, now_ms)
        if found or said(effects, "the mark is written"):
            found.extend(effects)
            return []
        return effects

    world.node.step = until  # type: ignore[method-assign]
    world.perform(world.node.shutdown(world.now_ms))
    world.advance(1_000)
    world.node.step = step  # type: ignore[method-assign]
    return found


@pytest.mark.parametrize("full", [False, True])
def test_a_mark_that_is_not_on_the_disk_is_not_said_to_be_kept(full: bool) -> None:
    world = dual_writing()
    effects = stopped_at_the_mark(world)
    assert any(isinstance(one, AppendFile) for one in effects)
    tokens = [one.token for one in effects if isinstance(one, SyncFile)]
    assert not said(world.logs + effects, "may finalise")
    if full:
        ended = world.node.step([DiskFailed("no space")], world.now_ms)
        assert ended[-1] == Halt(1, "the disk failed: no space")
        assert said(ended, "it is not known whether the mark is kept") == ["warning"]
        return
    kept = world.node.step([Synced(one) for one in tokens], world.now_ms)
    assert said(kept, "may finalise") == ["info"]


def test_a_mark_that_another_leader_wrote_over_is_not_said_to_be_kept() -> None:
    """Others hold more than its offset by then, and committed it."""
    world = dual_writing()
    effects = stopped_at_the_mark(world)
    (offset,) = (one.fields["offset"] for one in effects if is_mark(one))
    stop, epoch = world.node._stop, world.node.raft.leader_epoch
    for high_watermark, there, lines in (
        (offset, epoch, ([], [])),
        (offset + 1, epoch + 1, ([], ["warning"])),
        (offset + 9, None, ([], [])),
    ):
        stop._raft = cast(Any, Deposed(world.node.raft, high_watermark, there))
        told = stop.hand_over(world.now_ms)
        assert (said(told, "the mark is kept: "), said(told, "no mark is left")) == lines


def test_who_ends_before_its_mark_is_committed_says_so() -> None:
    """It follows by then, and waits for nothing."""
    world = dual_writing()
    (offset,) = (one.fields["offset"] for one in stopped_at_the_mark(world) if is_mark(one))
    stop, migration = world.node._stop, world.node.migration
    assert migration.drained
    stop._raft = cast(Any, Deposed(world.node.raft, offset, world.node.raft.leader_epoch))
    stop._controller = cast(Any, SimpleNamespace(busy=False, stable=world.node.controller.stable))
    told, end = stop.go_on(world.now_ms + DRAIN_MS_MAX)
    assert end is not None
    assert said(told, "it is not known whether the mark is kept") == ["warning"]


def is_mark(effect: Effect) -> TypeGuard[Log]:
    return isinstance(effect, Log) and "the mark is written" in effect.event


@dataclass
class Deposed:
    """The log of a voter that follows another one."""

    raft: Raft
    high_watermark: int
    there: int | None
    is_leader: bool = False
    dirty: bool = False

    def epoch_at(self, offset: int) -> int | None:
        return self.there

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raft, name)


def test_a_disk_that_fails_before_the_mark_leaves_none() -> None:
    world = dual_writing()
    world.held = []
    world.perform(world.node.shutdown(world.now_ms))
    ended = world.node.step([DiskFailed("no space")], world.now_ms)
    assert said(ended, "no mark is left") == ["warning"]
