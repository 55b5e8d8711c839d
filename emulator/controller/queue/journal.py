"""The log as the active controller uses it: records are replayed as soon as they are appended.

Keeps the newest image, the index over it and the brokers' sessions in step, batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from emulator.controller.context import Call
from emulator.controller.queue.batches import BatchTooLargeError, chunks, encoded, too_large
from emulator.controller.queue.heartbeats import Heartbeats
from emulator.controller.result import Record
from emulator.controller.tables.index import IndexChange, TipIndex, index_change
from emulator.metadata.brokers import FENCE
from emulator.metadata.delta import Delta
from emulator.metadata.features import Features
from emulator.metadata.history import History
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.metadata_version import Feature
from emulator.seam import Slices, Ticket, whole
from wire import records as r

_OF_SESSIONS: Final = frozenset(
    {
        r.RegisterBrokerRecord,
        r.UnregisterBrokerRecord,
        r.BrokerRegistrationChangeRecord,
        r.FenceBrokerRecord,
    }
)
"""Records that change a broker's session."""


class ReplicatedLog(Protocol):
    """The operations of the replicated log that the controller uses."""

    @property
    def log_end_offset(self) -> int:
        """Offset that the next appended record will get."""

    @property
    def high_watermark(self) -> int:
        """Offset of the first record that is not committed."""

    @property
    def caught_up(self) -> bool:
        """Whether the log has everything that the leader of this epoch said to be committed."""

    @property
    def leader_epoch(self) -> int:
        """Epoch in which records are appended."""

    def prepared(self, values: Sequence[bytes]) -> Slices[Any]:
        """Make what :meth:`append` takes of the records of one batch; the log stays as it is.

        Raises:
            ValueError: they are no batch.
        """

    def append(self, records: Any, now_ms: int) -> int:
        """Append one atomic batch; returns the offset of its first record.

        Raises:
            ValueError: nothing was appended.
        """


class DivergedError(Exception):
    """Memory and log differ, or only a part of an operation is in the log.

    The node must stop before it writes anything more; the next start replays the log.
    """


class CallRecords(NamedTuple):
    """What one call of a batch appends: its records, at least one, and the same encoded."""

    call: Call
    records: Sequence[Record]
    values: Sequence[bytes]


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Records that a call, or the controller itself (``ticket`` None), put into the log."""

    ticket: Ticket | None
    api_key: int | None
    first_offset: int
    last_offset: int
    at_ms: int


class Journal:
    """Keeps log, history, index and sessions consistent.

    ``features_epoch`` is the offset of the last change of a finalised feature that became stable.
    """

    def __init__(self, log: ReplicatedLog, history: History, heartbeats: Heartbeats) -> None:
        self.index = TipIndex()
        self._indexed = EMPTY.topics
        """Of which topics the index is: of none before this node leads."""
        self.features_epoch = history.stable.offset
        self.last_append_ms = 0
        self.appended_bytes = 0
        """Bytes of the records appended, without NoOps; never falls."""
        self._log = log
        self.history = history
        self._heartbeats = heartbeats
        self._appended: list[Appended] = []
        self._features: Features | None = None
        self._knows_no_op = False
        self._loaded = False

    @property
    def stable(self) -> Image:
        """The image of everything that may be shown."""
        return self.history.stable

    @property
    def before_transaction(self) -> Image:
        """The image after an abort; the tip if no metadata transaction is open."""
        return self.history.begin or self.history.tip

    def no_op_ms(self, idle_ms: int) -> int | None:
        """When a log that got nothing for ``idle_ms`` needs a NoOp; None if none is needed."""
        features = self.history.tip.features
        if features is not self._features:
            # Asked for after each step; features hardly ever change.
            self._features = features
            self._knows_no_op = self.history.tip.metadata_version.supports(Feature.NO_OP_RECORD)
        return self.last_append_ms + idle_ms if idle_ms and self._knows_no_op else None

    @property
    def leader_epoch(self) -> int:
        """The epoch in which records are appended."""
        return self._log.leader_epoch

    @property
    def next_offset(self) -> int:
        """Offset that the next record will get."""
        return self._log.log_end_offset

    @property
    def committed_offset(self) -> int:
        """Offset of the last committed record."""
        return self._log.high_watermark - 1

    @property
    def loaded(self) -> bool:
        """Whether ``stable`` has shown once all that a leader said to be committed.

        A new leader does not know it before its first record is committed; what is stable stays so.
        """
        return self._loaded or (self._log.caught_up and self.replayed)

    @property
    def replayed(self) -> bool:
        """Whether all is replayed that the log knows to be committed."""
        return self.history.committed.offset + 1 >= self._log.high_watermark

    def take_appended(self) -> list[Appended]:
        """Records appended since the last call."""
        taken, self._appended = self._appended, []
        return taken

    def append(
        self,
        records: Sequence[Record],
        now_ms: int,
        *,
        atomic: bool = True,
        call: Call | None = None,
    ) -> int:
        """Append records and replay them; see ``Controller.append``.

        Raises:
            Exception: nothing was appended, nothing changed.
            DivergedError: a part was appended, and the rest could not be.
        """
        return whole(self.appending(records, lambda: now_ms, atomic=atomic, call=call))

    def appending(
        self,
        records: Sequence[Record],
        clock: Callable[[], int],
        *,
        atomic: bool = True,
        call: Call | None = None,
    ) -> Slices[int]:
        """As :meth:`append`, in slices; each batch is appended and replayed in one of them.

        Nothing else may be appended between the slices.

        Args:
            records: at least one.
            clock: the time when a batch is appended.
            atomic: as of ``Controller.append``.
            call: that asked for them; None: nobody did.

        Raises:
            Exception: as :meth:`append`.
        """
        values = yield from encoded(records, self.history.tip.metadata_version)
        if atomic and too_large(values):
            raise BatchTooLargeError(f"{len(values)} records do not fit one batch")
        first_offset = self._log.log_end_offset
        for part in [range(len(values))] if atomic else chunks(values):
            if part.start:
                yield
            cut = slice(part.start, part.stop)
            try:
                yield from self._batch(records[cut], values[cut], clock)
            except Exception as error:
                if part.start and not isinstance(error, DivergedError):
                    text = f"{part.start} of {len(values)} records were appended: {error}"
                    raise DivergedError(text) from error
                raise
        self.last_append_ms = clock()
        self._note(call, first_offset, self.history.tip.offset)
        return self.history.tip.offset

    def append_together(self, parts: Sequence[CallRecords], now_ms: int) -> list[int]:
        """Append what several calls ask for as one batch, at once; it has to fit one.

        Args:
            parts: in the order of their offsets.
            now_ms: the clock.

        Returns:
            The last offset of each part.

        Raises:
            Exception: nothing was appended, nothing changed.
            DivergedError: memory and log differ.
        """
        first_offset = self._log.log_end_offset
        _, records, values = parts[0]
        if len(parts) > 1:
            records = [record for part in parts for record in part.records]
            values = [value for part in parts for value in part.values]
        whole(self._batch(records, values, lambda: now_ms))
        self.last_append_ms = now_ms
        ends: list[int] = []
        for part in parts:
            ends.append(first_offset + len(part.records) - 1)
            self._note(part.call, first_offset, ends[-1])
            first_offset = ends[-1] + 1
        return ends

    def _note(self, call: Call | None, first_offset: int, last_offset: int) -> None:
        ticket = None if call is None else call.ticket
        api_key = None if call is None else call.header.api_key
        self._appended.append(
            Appended(ticket, api_key, first_offset, last_offset, self.last_append_ms)
        )

    def _batch(
        self, records: Sequence[Record], values: Sequence[bytes], clock: Callable[[], int]
    ) -> Slices[None]:
        """Replay, append, update the index. If replay or append fails, nothing has changed."""
        before, base_offset = self.history.tip, self._log.log_end_offset
        replayed = yield from self.history.replayed(records, base_offset, self._log.leader_epoch)
        after = replayed.segments[-1].image
        change = yield from index_change(before, after, records)
        prepared = yield from self._log.prepared(values)
        now_ms = clock()
        try:
            got = self._log.append(prepared, now_ms)
            assert got == base_offset, f"log appended at {got}, expected {base_offset}"
            self.history.accept(replayed)
            if not replayed.idle:
                self.appended_bytes += sum(map(len, values))
            self._follow(change, records, now_ms)
            self._indexed = after.topics
        except Exception as error:
            if self._log.log_end_offset == base_offset:
                raise
            raise DivergedError(f"offset {base_offset}: {error!r}") from error

    def advance(self) -> list[Delta]:
        """Take over the high watermark; returns what became stable."""
        deltas = self.history.advance(self._log.high_watermark)
        self._loaded = self.loaded
        if not self.indexed and self._indexed:
            # A follower's: nobody looks at it, and it would keep the topics that were.
            self.index, self._indexed = TipIndex(), EMPTY.topics
        for delta in deltas:
            if delta.touched.features:
                self.features_epoch = delta.last_offset
        return deltas

    def begin_anew(self, image: Image) -> None:
        """A snapshot replaced the log: everything through its offset is committed."""
        self.history.begin_anew(image)
        self.features_epoch = image.offset

    @property
    def indexed(self) -> bool:
        """Whether the index is of the tip: records may have been replayed without it."""
        return self._indexed is self.history.tip.topics

    def reindex(self) -> Slices[None]:
        """Build the index anew if it is of other topics, in slices; the tip stays meanwhile."""
        if not self.indexed:
            topics = self.history.tip.topics
            self.index = yield from TipIndex.of(self.history.tip)
            self._indexed = topics

    def rewind(self) -> None:
        """Drop the records that are not committed; the index may be of them."""
        self.history.rewind()

    def _follow(self, change: IndexChange, records: Sequence[Record], now_ms: int) -> None:
        kinds = set(map(type, records))
        if r.AbortTransactionRecord in kinds:
            # Sessions stay: registrations acknowledged inside the transaction are appended again
            # next.
            whole(self.reindex())
            return
        self.index.apply(change)
        if kinds.isdisjoint(_OF_SESSIONS):
            return
        for record in records:
            match record:
                case r.RegisterBrokerRecord():
                    self._heartbeats.register(record.broker_id, now_ms)
                case r.UnregisterBrokerRecord():
                    self._heartbeats.remove(record.broker_id)
                case r.BrokerRegistrationChangeRecord() if record.fenced == FENCE:
                    self._heartbeats.fenced(record.broker_id)
                case r.FenceBrokerRecord():
                    self._heartbeats.fenced(record.id)
                case _:
                    pass
