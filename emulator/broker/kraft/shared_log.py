"""The metadata of committed batches, decoded once for all brokers of a process.

In a fleet every broker reads the same log. By Raft's log matching property the offset and the epoch
of a batch name everything before it; with the batch's checksum they name one state here, which all
brokers share that have applied this batch.

Source: MetadataBatchLoader, Kafka 3.9; KIP-868 for transactions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias
from weakref import WeakValueDictionary

from msgspec.structs import replace

from emulator.metadata.delta import Delta, Touched
from emulator.metadata.errors import ReplayError
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.replay import Replayer
from emulator.metadata.snapshot import from_records
from emulator.raft.snapshots import values_of
from emulator.seam import RECORDS_PER_SLICE, Pace, Slices
from wire import records as r
from wire.batch import CONTROL, Batch, BatchHeader, decode_batches
from wire.record_serde import decode_record

RECENT_MAX: Final = 64
"""States kept for brokers that read a batch a little later than others."""

StateKey: TypeAlias = tuple[int, int, int]
"""Offset and epoch of the last record, checksum of its batch (0: a snapshot)."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class LogState:
    """The metadata after a batch; never changed, as several brokers hold it.

    ``stable`` may be shown. ``tip`` has the records of an open transaction too, that began after
    ``begin``; ``touched`` is what they touched since ``first_offset``. ``deltas`` are those that
    the last batch made, in order.
    """

    stable: Image
    tip: Image
    begin: Image | None = None
    touched: Touched | None = None
    first_offset: int = 0
    deltas: tuple[Delta, ...] = ()


START: Final = LogState(EMPTY, EMPTY)


class LogStates(Protocol):
    """What a follower makes of the log: whole images, or offsets alone (``log_offsets``)."""

    def after(self, state: LogState, header: BatchHeader, data: bytes) -> Slices[LogState]:
        """The state after one more batch, which follows ``state``, made in slices."""

    def known(self, header: BatchHeader) -> LogState | None:
        """The state after a batch, if it is at hand."""

    def of_snapshot(self, data: bytes, end_offset: int, epoch: int) -> LogState:
        """The state of a snapshot of all records below ``end_offset``."""


class LogImages:
    """The states that brokers of this process hold, of one cluster."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[StateKey, LogState] = WeakValueDictionary()
        self._recent: deque[LogState] = deque(maxlen=RECENT_MAX)
        self._making: dict[StateKey, Slices[LogState]] = {}
        """Of a long batch: whoever reads it does the next slice, for all who do."""
        self.decoded_total = 0
        """Batches and snapshots that were decoded; the others were found decoded."""

    def after(self, state: LogState, header: BatchHeader, data: bytes) -> Slices[LogState]:
        """The state after one more batch, which follows ``state``, made in slices.

        Args:
            state: what was applied so far.
            header: of the batch.
            data: the bytes of the whole batch.

        Raises:
            ReplayError: a record does not fit.
            DecodeError: the batch cannot be read.
        """
        key = _key(header)
        while (known := self._known.get(key)) is None:
            slices = self._making.pop(key, None) or _applied(state, data)
            try:
                next(slices)
            except StopIteration as end:
                made: LogState = end.value
                return self._made(key, made)
            self._making[key] = slices
            yield
        return known

    def known(self, header: BatchHeader) -> LogState | None:
        """The state after a batch, if another broker has applied it and it is still held."""
        return self._known.get(_key(header))

    def of_snapshot(self, data: bytes, end_offset: int, epoch: int) -> LogState:
        """The state of a snapshot of all records below ``end_offset``.

        Raises:
            RecoveryError: it is damaged.
            ReplayError: a record does not fit.
            DecodeError: a record cannot be read.
        """
        key = (end_offset - 1, epoch, 0)
        known = self._known.get(key)
        if known is None:
            records = (decode_record(value)[0] for value in values_of("snapshot", data))
            image = from_records(records, end_offset - 1, epoch)
            known = self._made(key, LogState(image, image))
        return known

    def _made(self, key: StateKey, state: LogState) -> LogState:
        self.decoded_total += 1
        self._known[key] = state
        self._recent.append(state)
        return state


def _key(header: BatchHeader) -> StateKey:
    return header.last_offset, header.leader_epoch, header.crc


def _applied(state: LogState, data: bytes) -> Slices[LogState]:
    (batch,) = decode_batches(data)
    if batch.attributes & CONTROL:
        return _moved(state, batch)
    values = (value for _key, value in batch.records)
    return (yield from _replayed(state, (decode_record(value)[0] for value in values), batch))


def _moved(state: LogState, batch: Batch) -> LogState:
    """A control batch holds no metadata, but has offsets."""
    tip = replace(state.tip, offset=batch.last_offset, epoch=batch.leader_epoch)
    if state.begin is not None:
        return LogState(state.stable, tip, state.begin, state.touched, state.first_offset)
    delta = Delta(state.stable, tip, Touched(), batch.base_offset, batch.last_offset)
    return LogState(tip, tip, deltas=(delta,))


def _replayed(state: LogState, records: Iterable[object], batch: Batch) -> Slices[LogState]:
    epoch = batch.leader_epoch
    stable, begin, replayer = state.stable, state.begin, Replayer(state.tip)
    touched, first = Touched(), batch.base_offset
    if begin is not None:
        touched.merge(state.touched or Touched())
        first = state.first_offset
    deltas: list[Delta] = []
    pace = Pace(RECORDS_PER_SLICE)
    for offset, record in enumerate(records, batch.base_offset):
        if pace.over():
            # The image so far is made now, or the last slice would make it of all records.
            replayer.make()
            yield
        if isinstance(record, r.BeginTransactionRecord):
            if begin is not None:
                raise ReplayError(f"offset {offset}: a transaction is open already")
            begin = replayer.image
            if offset > first:
                deltas.append(Delta(stable, begin, touched, first, begin.offset))
                stable = begin
            touched, first = Touched(), offset
            replayer.other(record, offset, epoch)
        elif isinstance(record, r.AbortTransactionRecord):
            if begin is None:
                raise ReplayError(f"offset {offset}: there is no open transaction")
            replayer = Replayer(replace(begin, offset=offset, epoch=epoch))
            begin, touched = None, Touched()
        else:
            if isinstance(record, r.EndTransactionRecord):
                if begin is None:
                    raise ReplayError(f"offset {offset}: there is no open transaction")
                begin = None
            replayer.take(record, offset, epoch, touched)
    tip = replayer.image
    if begin is not None:
        return LogState(stable, tip, begin, touched, first, tuple(deltas))
    deltas.append(Delta(stable, tip, touched, first, tip.offset))
    return LogState(tip, tip, deltas=tuple(deltas))
