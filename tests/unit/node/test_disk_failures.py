"""A disk that fails ends the node, also when it fails in the very step that ends it."""

from __future__ import annotations

from emulator.seam import DiskFailed, Halt
from tests.unit.node.test_machine import World


def plain() -> World:
    return World(zookeeper_metadata_migration_enable="false")


def test_a_disk_that_fails_ends_the_node() -> None:
    world = plain()
    effects = world.node.step([DiskFailed("no space")], world.now_ms)
    assert effects[-1] == Halt(1, "the disk failed: no space")
    assert world.node.step([], world.now_ms) == []


def test_a_file_that_cannot_be_written_in_the_last_step_does_not_keep_the_node_alive() -> None:
    """The shell does nothing of what follows a file effect that failed, the Halt neither."""
    world = plain()
    effects = world.node.shutdown(world.now_ms)
    assert effects[-1] == Halt(0, "stopped")
    assert world.node.step([DiskFailed("no space")], world.now_ms) == [
        Halt(1, "the disk failed: no space")
    ]
