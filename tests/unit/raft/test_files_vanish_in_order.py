"""Wherever a deletion, a cut or a replacement is interrupted: recovery reads what is left.

Each file effect is cut off before and after; what is there then, with what was not synced and
without, must be a folder on which the node begins, and which has all that was committed.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from emulator.raft import Raft, RaftConfig, RecoveryError
from emulator.raft.layout import SnapshotId
from emulator.raft.log import MetadataLog
from emulator.seam import DeleteFile, Effect
from tests.unit.raft.test_following import Follower, batch
from tests.unit.raft.test_recovery_several import asked
from tests.unit.raft.trio import Trio
from tests.unit.raft.world import Disk, World, config, topic
from wire import messages as m

SEGMENT_BYTES = 400


class Watched(Disk):
    """Looks at what is left after each single effect. ``committed``: what must be there then."""

    def __init__(self, files: dict[str, bytes], of: RaftConfig) -> None:
        super().__init__(files)
        self.committed: Callable[[], int] = lambda: 0
        self.cuts = 0
        """Places between two effects of one step that deletes files."""
        self._of = of

    def apply(self, effects: list[Effect]) -> None:
        deletes = sum(isinstance(one, DeleteFile) for one in effects)
        self.cuts += len(effects) if deletes > 1 else 0
        for one in effects:
            super().apply([one])
            self.look()

    def look(self) -> None:
        for left in (dict(self.files), self.crashed(0)):
            again = Raft(self._of, left, Random(1), 0)
            assert again.log_end_offset >= self.committed()
            oldest = again.latest_snapshot
            assert again.log_start_offset <= (0 if oldest is None else oldest.end_offset)


def one_voter() -> Watched:
    """Snapshots each of which lets several segments and a snapshot go."""
    world = World(segment_bytes=SEGMENT_BYTES)
    disk = Watched(world.disk.files, config(segment_bytes=SEGMENT_BYTES))
    world.disk = disk
    world.start()
    disk.committed = lambda: world.raft.high_watermark
    for _ in range(5):
        for _ in range(14):
            world.append(topic(f"t{world.raft.log_end_offset}"))
        world.snapshot(world.raft.log_end_offset, [topic("all")])
    assert world.raft.log_start_offset > 0
    return disk


def follower(epoch: int = 3) -> tuple[Follower, Watched]:
    one = Follower(epoch=epoch, segment_bytes=SEGMENT_BYTES)
    disk = Watched(one.disk.files, Trio(segment_bytes=SEGMENT_BYTES).config(1))
    disk.tokens, disk.synced = one.disk.tokens, one.disk.synced
    one.disk = disk
    return one, disk


def fed(one: Follower, offsets: range, committed: int) -> None:
    for offset in offsets:
        one.answer(asked(one), records=batch(offset, 2), high_watermark=committed)
        one.now += 1_000
        one.sync()


def truncated() -> Watched:
    """The leader has other records from offset 7 on: several segments go, and one is cut."""
    one, disk = follower()
    fed(one, range(24), committed=4)
    disk.committed = lambda: 4
    diverging = m.FetchResponse.EpochEndOffset(epoch=2, end_offset=7)
    one.answer(asked(one), diverging_epoch=diverging)
    assert one.raft.log_end_offset == 7
    return disk


def replaced() -> Watched:
    """The leader's log begins behind this one: a snapshot takes the place of all segments."""
    one, disk = follower()
    fed(one, range(24), committed=20)
    disk.committed = lambda: 20
    snapshot = SnapshotId(60, 2)
    said = m.FetchResponse.SnapshotId(end_offset=60, epoch=2)
    one.answer(asked(one), snapshot_id=said, high_watermark=60)
    one.whole_snapshot(one.fetch(), snapshot)
    assert one.raft.log_start_offset == 60
    disk.committed = lambda: 60
    disk.look()
    return disk


STORIES = [one_voter, truncated, replaced]


@pytest.mark.parametrize("story", STORIES, ids=lambda one: one.__name__)
def test_what_is_left_at_any_cut_can_be_read_and_has_what_is_committed(
    story: Callable[[], Watched],
) -> None:
    assert story().cuts >= 4, "files went, one after the other"


def backwards(real: Callable[..., list[Effect]]) -> Callable[..., list[Effect]]:
    """The same deletions, in the other order."""

    def turned(*args: object) -> list[Effect]:
        effects = real(*args)
        gone = [one for one in effects if isinstance(one, DeleteFile)]
        return [gone.pop() if isinstance(one, DeleteFile) else one for one in effects]

    return turned


@pytest.mark.parametrize(
    ("story", "name"),
    [(one_voter, "truncate_from_start"), (truncated, "truncate_to")],
    ids=["trimmed", "truncated"],
)
def test_the_other_order_is_noticed(
    story: Callable[[], Watched], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MetadataLog, name, backwards(getattr(MetadataLog, name)))
    with pytest.raises(RecoveryError):
        story()
