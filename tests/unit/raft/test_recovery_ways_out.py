"""What an operator is told about a damaged folder is followed to the letter, and works."""

from __future__ import annotations

import pytest

from emulator.raft import RecoveryError
from emulator.raft.layout import (
    QUORUM_STATE,
    RECOVERY_POINT,
    segment_base,
    segment_path,
    snapshot_id,
)
from tests.unit.raft.world import World, topic

SEGMENT_BYTES = 400


def folder() -> dict[str, bytes]:
    """Five lives, the last ended in order; snapshots and several segments, trimmed at the start."""
    files: dict[str, bytes] = {}
    for life in range(5):
        world = World(files, segment_bytes=SEGMENT_BYTES).start()
        for _ in range(6):
            world.append(topic(f"t{world.raft.log_end_offset}"))
        if life in (1, 2):
            world.snapshot(world.raft.log_end_offset, [topic("all")])
        files = world.disk.files
    world.disk.apply(world.raft.shutdown(world.now))
    return dict(files)


def refused(files: dict[str, bytes]) -> RecoveryError:
    with pytest.raises(RecoveryError) as found:
        World(files, segment_bytes=SEGMENT_BYTES)
    return found.value


def starts(files: dict[str, bytes]) -> World:
    return World(files, segment_bytes=SEGMENT_BYTES).start()


def bases(files: dict[str, bytes]) -> list[int]:
    return sorted(base for path in files if (base := segment_base(path)) is not None)


def test_a_segment_that_is_missing() -> None:
    files = folder()
    first, gone, after = bases(files)[-3:]
    assert first >= min(found.end_offset for path in files if (found := snapshot_id(path)))
    del files[segment_path(gone)]
    error = refused(files)
    assert error.path == segment_path(after)
    assert "remove this segment, later ones, snapshots that end later, and recovery-point" in str(
        error
    )
    for base in bases(files):
        if base >= after:
            del files[segment_path(base)]
    for path in list(files):
        found = snapshot_id(path)
        if found is not None and found.end_offset > gone:
            del files[path]
    del files[RECOVERY_POINT]
    starts(files)


def test_an_election_state_that_is_none() -> None:
    files = folder()
    epoch = starts(dict(files)).raft.leader_epoch
    files[QUORUM_STATE] = b""
    text = str(refused(files))
    assert "if this is the only voter, remove it, the log has the last epoch too" in text
    del files[QUORUM_STATE]
    assert starts(files).raft.leader_epoch == epoch


def test_a_snapshot_that_is_damaged() -> None:
    files = folder()
    end = starts(dict(files)).raft.log_end_offset
    newest = max(path for path in files if snapshot_id(path))
    files[newest] = files[newest][:-1]
    assert "remove it, if an older snapshot" in str(refused(files))
    del files[newest]
    assert starts(files).raft.log_end_offset == end
