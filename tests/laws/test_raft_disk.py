"""Laws of the metadata log on a disk that fails, fills and writes pages in any order.

Nothing acknowledged is lost and the node starts, whatever of the unsynced pages survives; bytes
that were synced and then damaged are refused, unless nothing written later could tell.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from emulator.raft import Raft, RecoveryError
from emulator.seam import (
    AppendFile,
    DeleteFile,
    Effect,
    Log,
    ReplaceFile,
    SyncFile,
    TruncateFile,
)
from emulator.simulation.models.disk import DiskFaults, SimulatedDisk
from tests.unit.raft.world import NOW, SEGMENT, config, topic
from wire.batch import Batch, batch_header

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from([10, 1_000, 3_000, 9_000])),
        st.tuples(st.sampled_from(["flush", "flush", "sync", "sync"]), st.just(0)),
        st.tuples(st.sampled_from(["failed sync", "failed append"]), st.just(0)),
    ),
    max_size=30,
)
ENDS = st.sampled_from(["process", "machine", "machine", "stopped"])
LIVES = st.lists(st.tuples(STEPS, ENDS), min_size=1, max_size=5)
SEGMENTS = st.sampled_from([8_000, 1 << 30])


class Life:
    """One process on a disk: ``acknowledged`` is what a caller or an observer may have seen."""

    def __init__(self, disk: SimulatedDisk, segment_bytes: int) -> None:
        self.disk = disk
        self.failed = False
        self.syncs: list[tuple[SyncFile, int]] = []
        self.raft = Raft(config(segment_bytes=segment_bytes), disk.files, Random(1), NOW)
        self.recovered = self.batches(self.raft.log_end_offset)

    def batches(self, end: int) -> list[Batch]:
        return list(self.raft.read(0, end - 1)) if end > 0 else []

    @property
    def acknowledged(self) -> list[Batch]:
        return self.batches(self.raft.high_watermark)

    def perform(self, effects: list[Effect]) -> None:
        """As the shell does it: what follows a failed file effect is not done."""
        try:
            for effect in effects:
                match effect:
                    case AppendFile():
                        self.disk.append(effect)
                    case ReplaceFile():
                        self.disk.replace(effect)
                    case TruncateFile():
                        self.disk.truncate(effect)
                    case DeleteFile():
                        self.disk.delete(effect)
                    case SyncFile(path):
                        self.syncs.append((effect, self.disk.size(path)))
                    case Log():
                        pass
                    case _:
                        raise AssertionError(effect)
        except OSError:
            self.failed = True

    def sync(self) -> None:
        if self.syncs and not self.failed:
            effect, size = self.syncs.pop(0)
            try:
                self.disk.synced(effect.path, size)
            except OSError:
                self.failed = True
            else:
                self.perform(self.raft.synced(effect.token, NOW))

    def run(self, steps: list[tuple[str, int]]) -> None:
        self.perform(self.raft.start(NOW))
        for step, size in steps:
            if self.failed:
                return
            if step == "append":
                self.raft.append([topic(f"{self.raft.log_end_offset}".zfill(size))], NOW)
                continue
            if step.startswith("failed"):
                self.disk.fail_next("sync" if step == "failed sync" else "append")
            if step in {"flush", "failed append"}:
                self.perform(self.raft.flush(NOW))
            else:
                self.sync()

    def end(self, how: str) -> None:
        if how == "machine":
            self.disk.crash(Random(0))
        elif how == "stopped" and not self.failed:
            self.perform(self.raft.shutdown(NOW))
            while self.syncs and not self.failed:
                self.sync()


@given(LIVES, SEGMENTS, st.integers(0, 1 << 32))
def test_whatever_survives_a_crash_nothing_acknowledged_is_lost_and_the_node_starts(
    lives, segment_bytes, seed
):
    disk = SimulatedDisk({})
    disk.faults = DiskFaults(seed, reordered=0.8)
    acknowledged: list[Batch] = []
    for steps, how in lives:
        life = Life(disk, segment_bytes)
        assert life.recovered[: len(acknowledged)] == acknowledged
        life.run(steps)
        acknowledged = max(acknowledged, life.acknowledged, key=len)
        life.end(how)
        acknowledged = max(acknowledged, life.acknowledged, key=len)
    assert Life(disk, segment_bytes).recovered[: len(acknowledged)] == acknowledged


def test_a_hole_in_what_was_never_synced_is_cut_off_with_all_behind_it():
    """Pages of a group reach the disk in any order: a batch may be there, and one before it not."""
    kept = set()
    for seed in range(30):
        disk = SimulatedDisk({})
        disk.faults = DiskFaults(seed, reordered=0.8)
        first = Life(disk, 1 << 30)
        first.run([("sync", 0), *[("append", 300)] * 8, ("flush", 0)])
        acknowledged = first.acknowledged
        first.end("machine")
        recovered = Life(disk, 1 << 30).recovered
        assert recovered[: len(acknowledged)] == acknowledged
        kept.add(len(recovered) - len(acknowledged))
    assert len(kept) > 2, "some were cut off in the middle"


def test_a_failed_sync_then_a_good_one_then_a_power_cut():
    """The second process must not call durable what the first one's sync gave up."""
    for seed in range(40):
        disk = SimulatedDisk({})
        disk.faults = DiskFaults(seed)
        first = Life(disk, 1 << 30)
        first.run([("sync", 0), ("append", 9_000), ("flush", 0), ("failed sync", 0)])
        assert first.failed
        assert len(first.acknowledged) == 1
        second = Life(disk, 1 << 30)
        assert len(second.recovered) == 2, "the cache still holds it"
        second.run([("sync", 0)])
        acknowledged = second.acknowledged
        assert len(acknowledged) == 3
        disk.crash(Random(0))
        assert Life(disk, 1 << 30).recovered == acknowledged


@given(STEPS, st.booleans(), st.data())
def test_damage_of_what_was_synced_is_refused(steps, stopped, draw):
    """After an orderly stop anywhere; otherwise anywhere before the last group that was written."""
    disk = SimulatedDisk({})
    life = Life(disk, 1 << 30)
    life.run([each for each in steps if not each[0].startswith("failed")])
    life.end("stopped")
    files = disk.files
    if not stopped:
        # A LeaderChange of the next life is the last group: nothing behind it vouches for it.
        again = Life(disk, 1 << 30)
        again.run([("sync", 0)])
        files = {**disk.files, SEGMENT: disk.files[SEGMENT]}
        files.pop("__cluster_metadata-0/recovery-point")
    vouched = len(files[SEGMENT]) - (0 if stopped else 91)
    at = draw.draw(st.integers(0, vouched - 1))
    assume(not in_leader_epoch(files[SEGMENT], at))
    data = bytearray(files[SEGMENT])
    data[at] ^= draw.draw(st.integers(1, 255))
    with pytest.raises(RecoveryError, match="nothing was changed"):
        Raft(config(), {**files, SEGMENT: bytes(data)}, Random(1), NOW)


def in_leader_epoch(segment: bytes, at: int) -> bool:
    """Whether that byte is of a batch's epoch, which Kafka's checksum does not cover."""
    position = 0
    while position + batch_header(segment, position).size <= at:
        position += batch_header(segment, position).size
    return position + 12 <= at < position + 16
