"""The metadata log of one node: batches in memory, segments on disk, and the durable end.

The encoded batches are kept in memory, as they are written to disk and sent to observers; nothing
is decoded here. An append only buffers; ``flush`` puts everything buffered into one ``AppendFile``
and one ``SyncFile``, and while that sync runs the next group is buffered (group commit).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from emulator.raft import layout
from emulator.raft.epochs import LeaderEpochs
from emulator.seam import (
    AppendFile,
    DeleteFile,
    Effect,
    ReplaceFile,
    SyncFile,
    TruncateFile,
)
from wire.batch import NO_SEQUENCE

_READS_KEPT: Final = 8
"""Number of cached answers; each may be as large as a whole Fetch answer."""


class LogBatch(msgspec.Struct, frozen=True, gc=False):
    """One encoded batch; readers see all of it or none."""

    base_offset: int
    last_offset: int
    epoch: int
    data: bytes


@dataclass(slots=True)
class Segment:
    """One ``.log`` file; ``size`` counts the bytes handed to it, durable or not."""

    base_offset: int
    size: int = 0

    @property
    def path(self) -> str:
        """The file, relative to the node's folder."""
        return layout.segment_path(self.base_offset)


class MetadataLog:
    """Offsets, batches and segments of ``__cluster_metadata-0``.

    Invariants: batches follow each other without a gap from ``start_offset`` to ``end_offset``;
    ``start_offset <= durable_end <= end_offset``, each on a batch boundary; at most one group is
    being synced; a group never spans two segments.

    A group is written only when the group before it is durable, and the first group only when what
    recovery read is durable (``recovery.py`` ensures it). So an intact batch proves that everything
    below the start of its group was durable when the batch was written. The batch records that
    start: ``base_sequence`` is the distance in offsets from the start of the group to the batch.
    The first batch of a group has no sequence, and neither has any batch that Kafka wrote. Such a
    batch proves that everything below itself was durable.
    """

    def __init__(self, segment_bytes: int, *, start_offset: int = 0, start_epoch: int = 0) -> None:
        self._segment_bytes = segment_bytes
        self.start_offset = start_offset
        self.start_epoch = start_epoch
        """Epoch of the record just below the start; 0 if there is none."""
        self.end_offset = start_offset
        self.durable_end = start_offset
        self.epochs = LeaderEpochs()
        self.segments: list[Segment] = []
        self._batches: list[LogBatch] = []
        self._bases: list[int] = []
        self._buffer: list[LogBatch] = []
        self._in_flight: tuple[int, int] | None = None
        self._token = 0
        self._roll_next = False
        self._reads: dict[tuple[int, int], bytes] = {}
        self._begin_with_start_epoch()

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record, 0 for an empty log."""
        return self._batches[-1].epoch if self._batches else self.epochs.latest

    @property
    def dirty(self) -> bool:
        """Whether an appended batch is not durable yet."""
        return self._in_flight is not None or bool(self._buffer)

    @property
    def next_sequence(self) -> int:
        """The ``base_sequence`` of the next batch; see the docstring of the class."""
        return self.end_offset - self._buffer[0].base_offset if self._buffer else NO_SEQUENCE

    def recovered(self, batch: LogBatch) -> None:
        """Add a batch found in a segment at start; the segment already counts its size."""
        self._index(batch)

    def append(self, batch: LogBatch) -> bool:
        """Buffer one batch at ``end_offset``; True if it begins a new leader epoch."""
        opened = self._index(batch)
        self._buffer.append(batch)
        return opened

    def flush(self) -> list[Effect]:
        """Write and sync everything buffered, unless a sync is still running."""
        if self._in_flight is not None or not self._buffer:
            return []
        effects: list[Effect] = []
        data = b"".join(batch.data for batch in self._buffer)
        if self._must_roll(len(data)):
            self.segments.append(Segment(self._buffer[0].base_offset))
            # Created by a replace, which makes the name itself durable before bytes go in.
            effects.append(ReplaceFile(self.segments[-1].path, b""))
            self._roll_next = False
        active = self.segments[-1]
        active.size += len(data)
        self._token += 1
        self._in_flight = (self._token, self._buffer[-1].last_offset + 1)
        self._buffer.clear()
        return [*effects, AppendFile(active.path, data), SyncFile(active.path, self._token)]

    def synced(self, token: int) -> None:
        """The group with that token is durable, and all groups before it."""
        assert self._in_flight is not None, f"sync {token} was never issued"
        issued, end_offset = self._in_flight
        assert issued == token, f"sync {token} reported, {issued} is under way"
        self._in_flight = None
        self.durable_end = end_offset
        self._reads.clear()

    def roll(self) -> None:
        """Begin a new segment with the next group, so that this one can be deleted later."""
        self._roll_next = True

    def truncate_from_start(self, offset: int) -> list[Effect]:
        """Delete the segments that hold only records below ``offset``, and drop those below it.

        If no segment can be deleted, nothing is dropped: a restart would read the batches again.
        """
        assert offset <= self.durable_end, "only what is durable may be cut away"
        gone = [
            segment
            for segment, after in zip(self.segments, self.segments[1:], strict=False)
            if after.base_offset <= offset
        ]
        if not gone:
            return []
        del self.segments[: len(gone)]
        count = bisect_left(self._bases, offset)
        del self._bases[:count]
        del self._batches[:count]
        self.start_offset = offset
        self.start_epoch = self.epochs.epoch_at(offset - 1) or self.start_epoch
        self.epochs.truncate_from_start(offset)
        self._reads.clear()
        return [DeleteFile(segment.path) for segment in gone]

    def all_durable(self) -> None:
        """Recovery has rewritten everything that was found."""
        assert not self.dirty, "nothing was appended since"
        self.durable_end = self.end_offset

    def truncate_to(self, offset: int) -> list[Effect]:
        """Drop every batch from ``offset`` on, as a follower does whose leader has others there.

        Later segments are deleted newest first, so what a crash leaves has no gap. They must not
        come back behind a segment that was cut: writing the file of the epochs syncs the folder.
        """
        assert not self.dirty, "only what is durable is truncated"
        assert self.start_offset <= offset, "below the start there is nothing to truncate"
        assert self.is_boundary(offset), "a batch is kept whole or not at all"
        keep, old_end = bisect_left(self._bases, offset), self.end_offset
        dropped = self._batches[keep:]
        del self._batches[keep:]
        del self._bases[keep:]
        self.end_offset = self.durable_end = offset
        self.epochs.truncate_from_end(offset)
        self._begin_with_start_epoch()
        self._reads.clear()
        effects: list[Effect] = []
        after = old_end
        while len(self.segments) > 1 and self.segments[-1].base_offset >= offset:
            gone = self.segments.pop()
            after = gone.base_offset
            effects.append(DeleteFile(gone.path))
        effects.append(self.epochs_file())
        if self.segments:
            last = self.segments[-1]
            last.size -= sum(len(one.data) for one in dropped if one.base_offset < after)
            effects.append(TruncateFile(last.path, last.size))
        return effects

    def restart_at(self, offset: int, epoch: int) -> list[Effect]:
        """Drop the whole log: a snapshot of all records below ``offset`` replaces it.

        ``epoch`` is that of the record just below ``offset``. A new segment is the last effect but
        one: when it is there, what was deleted does not come back.
        """
        assert not self.dirty, "only what is durable is replaced"
        effects: list[Effect] = [DeleteFile(one.path) for one in reversed(self.segments)]
        self.segments.clear()
        self._batches.clear()
        self._bases.clear()
        self._reads.clear()
        self.start_offset = self.end_offset = self.durable_end = offset
        self.start_epoch = epoch
        self.epochs = LeaderEpochs()
        self._begin_with_start_epoch()
        self.segments.append(Segment(offset))
        return [*effects, ReplaceFile(self.segments[-1].path, b""), self.epochs_file()]

    def epochs_file(self) -> ReplaceFile:
        """Write the file with the start offset of each leader epoch."""
        return ReplaceFile(layout.EPOCHS, layout.render_epochs(self.epochs))

    def _begin_with_start_epoch(self) -> None:
        """A log without batches goes on in the epoch of the snapshot below it."""
        if not self._batches and self.start_offset:
            self.epochs = LeaderEpochs([(self.start_epoch, self.start_offset)])

    def batches(self, first: int, last: int) -> Iterator[LogBatch]:
        """Whole batches that hold offsets ``first`` to ``last`` (inclusive), as of this moment."""
        begin = max(0, bisect_right(self._bases, first) - 1)
        for batch in self._batches[begin : bisect_right(self._bases, last)]:
            if batch.last_offset >= first:
                yield batch

    def is_boundary(self, offset: int) -> bool:
        """Whether a batch begins at ``offset``, or the log ends there."""
        index = bisect_left(self._bases, offset)
        return offset == self.end_offset or (
            index < len(self._bases) and self._bases[index] == offset
        )

    def boundary_below(self, offset: int) -> int:
        """Largest offset not above ``offset`` at which a batch begins or the log ends."""
        if offset >= self.end_offset:
            return self.end_offset
        index = bisect_right(self._bases, offset)
        return self._bases[index - 1] if index else self.start_offset

    def read(self, offset: int, bytes_max: int) -> bytes:
        """Whole durable batches from ``offset`` on; at least one if there is any.

        Answers are cached until the durable end moves: a fleet of observers asks for the same
        bytes.
        """
        if offset >= self.durable_end:
            return b""
        found = self._reads.get((offset, bytes_max))
        if found is None:
            if len(self._reads) == _READS_KEPT:
                self._reads.clear()
            found = self._reads[offset, bytes_max] = self._read(offset, bytes_max)
        return found

    def _read(self, offset: int, bytes_max: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        index = max(0, bisect_right(self._bases, offset) - 1)
        while index < len(self._batches):
            batch = self._batches[index]
            if batch.base_offset >= self.durable_end or (
                parts and size + len(batch.data) > bytes_max
            ):
                break
            parts.append(batch.data)
            size += len(batch.data)
            index += 1
        return b"".join(parts)

    def _index(self, batch: LogBatch) -> bool:
        assert batch.base_offset == self.end_offset, "batches follow each other without a gap"
        assert batch.last_offset >= batch.base_offset, "a batch holds at least one record"
        opened = self.epochs.assign(batch.epoch, batch.base_offset)
        self._batches.append(batch)
        self._bases.append(batch.base_offset)
        self.end_offset = batch.last_offset + 1
        return opened

    def _must_roll(self, size: int) -> bool:
        if not self.segments:
            return True
        active = self.segments[-1]
        if active.size == 0:
            return False
        return self._roll_next or active.size + size > self._segment_bytes
