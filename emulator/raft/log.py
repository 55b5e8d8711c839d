"""The metadata log of one node: batches in memory, segments on disk, and the durable end.

The encoded batches are kept in memory, as they are written to disk and sent to observers; nothing
is decoded here. An append only buffers; ``flush`` puts everything buffered into one ``AppendFile``
and one ``SyncFile``, and while that sync runs the next group is buffered (group commit).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from emulator.raft import layout
from emulator.raft.layout import AppendRefusedError
from emulator.seam import (
    RECORDS_PER_SLICE,
    AppendFile,
    DeleteFile,
    Effect,
    ReplaceFile,
    Slices,
    SyncFile,
    TruncateFile,
)
from wire.batch import (
    NO_SEQUENCE,
    batch_header,
    crc_holds,
    decode_batches,
    decode_records,
    encode_records,
)
from wire.errors import DecodeError
from wire.record_serde import decode_control, decode_record

# Decodes each batch before it is written: one malformed record stops every real node.
#
# Followers and brokers parse a record when it arrives, before it is committed, and stop if they
# cannot; after a restart they stop again at the copy on their own disk. So our decoder first reads
# each batch to the last byte.

_REFUSED = "our own decoder refuses the batch"


class CheckedRecords(msgspec.Struct, frozen=True, gc=False):
    """The records of one batch, encoded and read back; its header is still to come."""

    body: bytes
    count: int


def checked(values: Sequence[bytes]) -> Slices[CheckedRecords]:
    """Encode metadata records for one batch and decode each of them again, in slices.

    Raises:
        AppendRefusedError: there is no record, or one does not end where it should.
    """
    if not values:
        raise AppendRefusedError("a batch holds at least one record")
    parts: list[bytes] = []
    for first in range(0, len(values), RECORDS_PER_SLICE):
        if first:
            yield
        some = values[first : first + RECORDS_PER_SLICE]
        part = encode_records([(None, value) for value in some], first)
        try:
            for _, value in decode_records(part, first, len(some)):
                decode_record(value)
        except DecodeError as error:
            raise AppendRefusedError(f"{_REFUSED}: {error}") from error
        parts.append(part)
    return CheckedRecords(b"".join(parts), len(values))


def checked_control(record: tuple[bytes, bytes]) -> CheckedRecords:
    """Encode the one record of a control batch, and decode it again.

    Raises:
        DecodeError: it does not end where it should.
    """
    body = encode_records([record])
    for key, value in decode_records(body, 0, 1):
        decode_control(key, value)
    return CheckedRecords(body, 1)


def check_sealed(data: bytes, records: CheckedRecords) -> None:
    """Read back the header of a batch that holds checked records.

    Raises:
        AppendRefusedError: it does not describe exactly these bytes.
    """
    header = batch_header(data)
    if (header.size, header.count) != (len(data), records.count) or not crc_holds(data, header):
        raise AppendRefusedError(f"{_REFUSED}: {header} does not describe its {len(data)} bytes")


def read_back(data: bytes) -> None:
    """Decode one encoded batch and every record in it.

    Raises:
        AppendRefusedError: it is not exactly one batch, or a record does not end where it should.
    """
    try:
        count = 0
        for batch in decode_batches(data):
            count += 1
            for key, value in batch.records:
                if batch.is_control:
                    if key is None:
                        raise AppendRefusedError("a control record has no key")
                    decode_control(key, value)
                else:
                    decode_record(value)
    except DecodeError as error:
        raise AppendRefusedError(f"{_REFUSED}: {error}") from error
    if count != 1:
        raise AppendRefusedError(f"{count} batches, expected one")


# The start offset of each leader epoch, and the end offset of an epoch for a follower.


class LeaderEpochs:
    """Epoch -> start offset, oldest first.

    Invariant: epochs grow strictly, start offsets never fall.
    Source: LeaderEpochFileCache and KafkaMetadataLog.endOffsetForEpoch, Kafka 3.9.
    """

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(list(self._epochs), list(self._starts), strict=True)

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def latest(self) -> int:
        """Epoch of the newest entry, 0 when there is none."""
        return self._epochs[-1] if self._epochs else 0

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record the epoch of a batch at ``start_offset``; True if it is a new epoch."""
        if self._epochs and epoch <= self._epochs[-1]:
            assert epoch == self._epochs[-1], f"epoch {epoch} after {self._epochs[-1]}"
            return False
        assert not self._starts or start_offset >= self._starts[-1], "start offsets never fall"
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        return True

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Largest known epoch not above ``epoch``, with the offset where it ends.

        Never (-1, -1), which on the wire means "not diverging", so a diverged follower would
        continue. For an epoch older than all known ones: that epoch and the start of the first
        known one. Without any known epoch: (``epoch``, ``log_end_offset``).
        """
        index = bisect_right(self._epochs, epoch)
        if index == len(self._epochs):
            return (self._epochs[-1] if self._epochs else epoch), log_end_offset
        found = epoch if index == 0 else self._epochs[index - 1]
        return found, self._starts[index]

    def epoch_at(self, offset: int) -> int | None:
        """Epoch of the record at ``offset``; None below the first entry."""
        index = bisect_right(self._starts, offset)
        return None if index == 0 else self._epochs[index - 1]

    def truncate_from_start(self, log_start_offset: int) -> None:
        """Drop epochs that end at or below ``log_start_offset``; the epoch at that offset stays."""
        keep = bisect_right(self._starts, log_start_offset) - 1
        if keep >= 0:
            del self._epochs[:keep]
            del self._starts[:keep]
            self._starts[0] = log_start_offset

    def truncate_from_end(self, log_end_offset: int) -> None:
        """Drop epochs that begin at or above ``log_end_offset``."""
        keep = bisect_left(self._starts, log_end_offset)
        del self._epochs[keep:]
        del self._starts[keep:]


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
        self.waiting: list[LogBatch] = []
        """Appended, and not written yet."""
        self._in_flight: tuple[int, int] | None = None
        self._token = 0
        self._roll_next = False
        self._reads: dict[tuple[int, int, int], bytes] = {}
        self._begin_with_start_epoch()

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record, 0 for an empty log."""
        return self._batches[-1].epoch if self._batches else self.epochs.latest

    @property
    def dirty(self) -> bool:
        """Whether an appended batch is not durable yet."""
        return self._in_flight is not None or bool(self.waiting)

    @property
    def next_sequence(self) -> int:
        """The ``base_sequence`` of the next batch; see the docstring of the class."""
        return self.end_offset - self.waiting[0].base_offset if self.waiting else NO_SEQUENCE

    def recovered(self, batch: LogBatch) -> None:
        """Add a batch found in a segment at start; the segment already counts its size."""
        self._index(batch)

    def append(self, batch: LogBatch) -> bool:
        """Buffer one batch at ``end_offset``; True if it begins a new leader epoch."""
        opened = self._index(batch)
        self.waiting.append(batch)
        return opened

    def flush(self) -> list[Effect]:
        """Write and sync everything buffered, unless a sync is still running."""
        if self._in_flight is not None or not self.waiting:
            return []
        effects: list[Effect] = []
        data = b"".join([batch.data for batch in self.waiting])
        if self._must_roll(len(data)):
            self.segments.append(Segment(self.waiting[0].base_offset))
            # Created by a replace, which makes the name itself durable before bytes go in.
            effects.append(ReplaceFile(self.segments[-1].path, b""))
            self._roll_next = False
        active = self.segments[-1]
        active.size += len(data)
        self._token += 1
        self._in_flight = (self._token, self.waiting[-1].last_offset + 1)
        self.waiting.clear()
        path = active.path
        return [*effects, AppendFile(path, data), SyncFile(path, self._token)]

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

    def read(self, offset: int, end: int, bytes_max: int) -> bytes:
        """Whole batches from ``offset`` to ``end``; at least one if there is any.

        Answers are cached until the durable end moves or batches go: a fleet of observers asks for
        the same bytes.
        """
        if offset >= end:
            return b""
        found = self._reads.get((offset, end, bytes_max))
        if found is None:
            if len(self._reads) == _READS_KEPT:
                self._reads.clear()
            found = self._reads[offset, end, bytes_max] = self._read(offset, end, bytes_max)
        return found

    def _read(self, offset: int, end: int, bytes_max: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        index = max(0, bisect_right(self._bases, offset) - 1)
        while index < len(self._batches):
            batch = self._batches[index]
            if batch.base_offset >= end or (parts and size + len(batch.data) > bytes_max):
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
