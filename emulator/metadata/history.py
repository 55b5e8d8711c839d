"""History: a node's images at three positions of its log, and the deltas that become stable.

``tip`` has every appended record, ``committed`` those below the high watermark, ``stable`` those
that may be shown: inside a metadata transaction nothing is stable until its End is committed, and
Abort removes everything since Begin.

Source: KIP-868; OffsetControlManager and MetadataBatchLoader, Kafka 3.9.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from emulator.metadata.delta import Delta, Touched
from emulator.metadata.errors import ReplayError
from emulator.metadata.idle import ChangeCount, IdleOffsets
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.replay import Replayer
from emulator.seam import RECORDS_PER_SLICE, Slices, whole
from wire import records as r


class _Segment(msgspec.Struct, gc=False):
    """Records of one batch up to its end or up to a Begin, and the state after them."""

    first_offset: int
    image: Image
    begin: Image | None
    """The image to which an Abort returns, if a transaction is open after this segment."""
    touched: Touched
    aborts: bool = False
    """Whether the segment aborts what the transaction touched in earlier segments."""


class Replayed(msgspec.Struct, frozen=True, gc=False):
    """A batch replayed onto the tip ``follows``; not accepted as appended yet."""

    follows: Image
    segments: tuple[_Segment, ...]
    idle: bool
    """Whether it holds only NoOps."""


class History:
    """Images at named offsets of one log, all replayed from its records.

    A batch is atomic: the high watermark is never inside one.
    """

    def __init__(self, image: Image = EMPTY) -> None:
        self.stable = image
        """Through the last record that may be shown."""
        self.tip = image
        """Through the last appended record."""
        self._begin: Image | None = None
        # The first committed segment of the open transaction, with all that these touch, and the
        # last one; then segments above the high watermark.
        self._open: list[_Segment] = []
        self._appended: deque[_Segment] = deque()
        self._idle = IdleOffsets(image.offset)
        self.rewinds = 0
        """How often it was rewound."""
        self.confirmed_leader = -1
        """Offset of the newest record that only a leader which may speak appends: neither a control
        batch nor of its activation."""

    @property
    def committed(self) -> Image:
        """The image through the high watermark, including records of an open transaction."""
        return self._open[-1].image if self._open else self.stable

    @property
    def stable_offset(self) -> int:
        """Offset of the last record that may be shown; -1 if there is none."""
        return self.stable.offset

    @property
    def begin(self) -> Image | None:
        """The image before the transaction that is open at the tip, or None."""
        return self._begin

    @property
    def empty(self) -> bool:
        """Whether the log holds no metadata, but for that of an open transaction."""
        return replace(self._begin or self.tip, offset=-1, epoch=-1) == EMPTY

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open at the tip."""
        return self._begin is not None

    def changes_after(self, offset: int) -> ChangeCount:
        """Count the appended records above an offset, without those known to change nothing."""
        return self._idle.changes(offset, self.tip.offset)

    def trimmed(self, log_start_offset: int) -> None:
        """The log begins at that offset now: less is kept of what is below it."""
        self._idle.thin(log_start_offset)

    def append(self, records: Sequence[object], base_offset: int, epoch: int) -> None:
        """Replay one batch onto the tip. An error leaves everything as it was.

        Args and errors as in :meth:`replayed`.
        """
        self.accept(whole(self.replayed(records, base_offset, epoch)))

    def replayed(self, records: Sequence[object], base_offset: int, epoch: int) -> Slices[Replayed]:
        """Compute the tip with one more batch, in slices; nothing changes before :meth:`accept`.

        Args:
            records: all records of the batch.
            base_offset: offset of the first; above the tip's. Offsets between may be control
                batches.
            epoch: leader epoch of the batch.

        Raises:
            ReplayError: a record does not fit, a second Begin, or an End or Abort without Begin.
        """
        assert records, "a batch holds at least one record"
        self._follows(base_offset)
        begin, replayer = self._begin, Replayer(self.tip)
        segments = [_Segment(base_offset, self.tip, begin, Touched())]
        slice_end = base_offset + RECORDS_PER_SLICE
        for offset, record in enumerate(records, base_offset):
            if offset == slice_end:
                slice_end += RECORDS_PER_SLICE
                # The image so far is made now, or the last slice would make it of all records.
                replayer.make()
                yield
            if isinstance(record, r.AbortTransactionRecord):
                # Keep the offset of this record, not the earlier one: offsets only grow.
                begun = self._opened(begin, offset, record)
                replayer = Replayer(replace(begun, offset=offset, epoch=epoch))
                begin = None
                segments[-1].touched, segments[-1].aborts = Touched(), True
            elif isinstance(record, r.BeginTransactionRecord):
                if begin is not None:
                    raise ReplayError(
                        f"offset {offset}: BeginTransactionRecord: a transaction is open since "
                        f"offset {begin.offset + 1}"
                    )
                if offset > base_offset:
                    segments[-1].image, segments[-1].begin = replayer.image, None
                    segments.append(_Segment(offset, replayer.image, None, Touched()))
                begin = replayer.image
                replayer.other(record, offset, epoch)
            else:
                if isinstance(record, r.EndTransactionRecord):
                    self._opened(begin, offset, record)
                    begin = None
                replayer.take(record, offset, epoch, segments[-1].touched)
        segments[-1].image, segments[-1].begin = replayer.image, begin
        _judge_mark(segments, epoch)
        idle = {*map(type, records)} == {r.NoOpRecord}
        return Replayed(self.tip, tuple(segments), idle)

    def accept(self, batch: Replayed) -> None:
        """Accept a replayed batch as appended; the tip must not have changed since."""
        assert batch.follows is self.tip, "replayed onto another tip"
        self._appended.extend(batch.segments)
        last = batch.segments[-1]
        self.tip, self._begin = last.image, last.begin
        if not (last.touched.controllers or last.aborts):
            self.confirmed_leader = last.image.offset
        if batch.idle:
            self._idle.add(batch.segments[0].first_offset, last.image.offset)

    def skip(self, base_offset: int, last_offset: int, epoch: int) -> None:
        """Move the tip past a control batch, which holds no metadata.

        Raises:
            ReplayError: the batch does not lie above the tip.
        """
        self._follows(base_offset)
        self.tip = replace(self.tip, offset=last_offset, epoch=epoch)
        self._appended.append(_Segment(base_offset, self.tip, self._begin, Touched()))
        self._idle.add(base_offset, last_offset)

    def advance(self, high_watermark: int) -> list[Delta]:
        """Commit every batch below the high watermark.

        Args:
            high_watermark: offset of the first record that is not committed.

        Returns:
            What became stable, in order: a delta per batch, one for a whole transaction. A batch
            with a Begin inside gives one for what precedes it.
        """
        deltas = []
        while self._appended and self._appended[0].image.offset < high_watermark:
            segment = self._appended.popleft()
            if self._open:
                # One at a time: a transaction may have thousands of batches.
                first = self._open[0]
                if segment.aborts:
                    first.touched = Touched()
                first.touched.merge(segment.touched)
            self._open[1:] = [segment]
            if segment.begin is None:
                deltas.append(self._close())
        return deltas

    def appended_deltas(self, offset: int) -> list[Delta]:
        """Deltas of the batches above an offset that are appended and not committed.

        Not those from an open metadata transaction on.
        """
        deltas: list[Delta] = []
        if self._open:
            return deltas
        before = self.stable
        for segment in self._appended:
            if segment.begin is not None:
                break
            first, last = segment.first_offset, segment.image.offset
            if last > offset:
                deltas.append(Delta(before, segment.image, segment.touched, first, last))
            before = segment.image
        return deltas

    def rewind(self) -> None:
        """Drop every record that is not committed, as a deposed leader does."""
        self.rewinds += 1
        self._appended.clear()
        self.tip = self.committed
        self._idle.rewind(self.tip.offset)
        self._begin = self._open[-1].begin if self._open else None

    def begin_anew(self, image: Image) -> None:
        """Go on from a snapshot of everything through its offset, which is committed."""
        assert image.offset > self.stable.offset, "a snapshot goes further than what is shown"
        self.stable = self.tip = image
        self._begin = None
        self._open.clear()
        self._appended.clear()
        self._idle = IdleOffsets(image.offset)

    def _close(self) -> Delta:
        first, last = self._open[0], self._open[-1]
        offsets = first.first_offset, last.image.offset
        delta = Delta(self.stable, last.image, first.touched, *offsets)
        self.stable = last.image
        self._open.clear()
        return delta

    def _follows(self, base_offset: int) -> None:
        if base_offset <= self.tip.offset:
            raise ReplayError(f"offset {base_offset} does not follow offset {self.tip.offset}")

    @staticmethod
    def _opened(begin: Image | None, offset: int, record: object) -> Image:
        if begin is None:
            raise ReplayError(
                f"offset {offset}: {type(record).__name__}: there is no open transaction"
            )
        return begin


def _judge_mark(segments: Sequence[_Segment], epoch: int) -> None:
    """Take the mark from images in which it holds no more; one that is left in a change is none."""
    gone = False
    for segment in segments:
        mark = segment.image.mark
        if mark is None:
            continue
        gone = gone or (segment.touched.in_zookeeper and not mark.bears(epoch))
        if gone:
            segment.image = replace(segment.image, mark=None)
            if segment.begin is not None and segment.begin.offset >= segments[0].first_offset:
                segment.begin = replace(segment.begin, mark=None)
