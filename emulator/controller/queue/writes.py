"""Calls that may append: decided on the newest image, appended, answered when committed.

Source: QuorumController.ControllerWriteEvent, Kafka 3.9.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from emulator.controller.context import Call
from emulator.controller.queue.answers import Answers, EncodedReply
from emulator.controller.queue.batches import (
    BATCH_BYTES_MAX,
    RECORD_OVERHEAD_BYTES,
    TOO_LARGE,
    BatchTooLargeError,
    encoded,
    too_large,
)
from emulator.controller.queue.gate import BoundGate
from emulator.controller.queue.heartbeats import Heartbeats
from emulator.controller.queue.journal import CallRecords, DivergedError, Journal
from emulator.controller.queue.purgatory import Purgatory, Until, deadline_of
from emulator.controller.queue.urgency import urgency_of
from emulator.controller.registry import Handler, handlers
from emulator.controller.result import Contact, Record, Result
from emulator.controller.rules.broker_changes import Moves
from emulator.controller.surroundings import Surroundings
from emulator.seam import (
    ENCODED_PER_COST,
    RECORD_COST,
    RECORDS_PER_SLICE,
    Slices,
    Ticket,
    whole,
)
from wire import messages as m
from wire.errors import ErrorCode

# Whose turn it is among the calls that may append records: one after the other.
#
# A call that decides or appends more than a slice goes on in later steps (``emulator/seam.py``).
# What may append waits for it, in order of arrival: no record may come between the image that it
# was decided on and its own records. What only reads, and a heartbeat that appends nothing, passes.
#
# Kafka's controller takes one event after the other too, however long each of them is.
#
# Source: KafkaEventQueue, QuorumController.appendWriteEvent, Kafka 3.9.

CALLS_PER_STEP: Final = 32
"""Calls that waited for a long one and are taken in one step after it; most take 0.1 ms each."""


class Turns:
    """The call, or the controller's own work, that is under way, and the calls that wait for it.

    Args:
        answers: takes what a call raises.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._conns = answers.busy_conns
        self._current: tuple[Call | None, Slices[None]] | None = None
        self._held: deque[Call] = deque()
        self._next: Call | None = None
        """One that has waited, while it is taken."""

    @property
    def under_way(self) -> bool:
        """Whether a call is not finished; nothing else may be appended meanwhile."""
        return self._current is not None

    @property
    def busy(self) -> bool:
        """Whether a call is not finished, or calls wait."""
        return self._current is not None or bool(self._held)

    def waits(self, call: Call) -> bool:
        """Whether a call has to wait for others."""
        return self._current is not None or (bool(self._held) and not self.called(call))

    def called(self, call: Call) -> bool:
        """Whether it has waited, and is taken now."""
        return self._next is call

    def too_late(self, call: Call) -> bool:
        """Whether a call is to be taken in the next step, as this one has cost enough."""
        return self._answers.budget.over and not self.called(call)

    def hold(self, call: Call) -> None:
        """Let a call wait for its turn; :meth:`waiting` returns it."""
        self._conns.begins(call)
        self._held.append(call)

    def begin(self, call: Call | None, slices: Slices[None], *, slice_done: bool = False) -> None:
        """Do the first slice of a call; if there are more, or the step is over, it is under way.

        Args:
            call: None: nobody asked for it.
            slices: what it does.
            slice_done: this step has done its slice.

        Raises:
            Exception: of the slice; the call has ended.
        """
        budget = self._answers.budget
        # One that passes the others does nothing but to hold itself, if it is long.
        later = slice_done or (budget.over and not self.under_way)
        if later or budget.goes_on(slices):
            assert not self.under_way, "one call after the other"
            self._current = call, slices
            if call is not None:
                self._conns.begins(call)

    def go_on(self) -> None:
        """Do the next slice of the call that is under way, if there is one."""
        current, self._current = self._current, None
        if current is None:
            return
        call, slices = current
        budget = self._answers.budget
        if call is None:
            self._current = current if budget.goes_on(slices) else None
            return
        with self._answers.to(call):
            if budget.goes_on(slices):
                self._current = current
        if self._current is not current:
            self._conns.ends(call)

    def finish(self) -> None:
        """Do all its slices: something has to be appended now."""
        while self._current is not None:
            self.go_on()

    def waiting(self) -> Iterator[Call]:
        """Calls whose turn it is, a few, until one of them is under way."""
        for count in range(CALLS_PER_STEP):
            if self.under_way or not self._held or (count and self._answers.budget.over):
                break
            self._next = self._held.popleft()
            self._conns.ends(self._next)
            yield self._next
        self._next = None

    def drop(self, gone: Callable[[Ticket], bool], *, current: bool) -> list[Call]:
        """Remove the calls of these tickets; returns them.

        Args:
            gone: which ones.
            current: also the call that is under way.
        """
        dropped: list[Call] = []
        for _ in range(len(self._held)):
            call = self._held.popleft()
            if gone(call.ticket):
                self._conns.ends(call)
                dropped.append(call)
            else:
                self._held.append(call)
        last = self._current[0] if current and self._current is not None else None
        if last is not None and gone(last.ticket):
            dropped += self._end()
        return dropped

    def drain(self) -> list[Call]:
        """Remove and return all calls; the one under way appends nothing more."""
        calls, held = self._end(), [*self._held]
        self._held.clear()
        for call in held:
            self._conns.ends(call)
        return calls + held

    def _end(self) -> list[Call]:
        current, self._current = self._current, None
        if current is None:
            return []
        call, slices = current
        slices.close()
        if call is None:
            return []
        self._conns.ends(call)
        return [call]


# Calls of one step whose records are appended as one batch.
#
# To replay, index, read back and seal a batch costs as much as to decide a call, and little more
# for a hundred records than for one. So a call that touches nothing that the calls before it touch
# (``Handler.touches``) is decided on the image without them, and joins them. They are appended
# before anything is decided that may depend on them, and at the end of the step.
#
# Callers see no difference to one batch for each call: one that joins would have been decided in
# the same way behind the others, its answer waits for its own last record, and the bound on what
# ZooKeeper does not have counts it when it joins. What appends nothing, as most heartbeats, is
# answered behind those that have joined. A call that takes tokens of a mutation quota is appended
# by itself, as the next one has to see how many are left.
#
# Kafka's controller appends the records of several events as one batch of the log too.
#
# Source: BatchAccumulator, Kafka 3.9.

CALLS_PER_BATCH: Final = 200


class _Joined(NamedTuple):
    """A call that is decided, and not answered yet."""

    handler: Handler
    call: Call
    result: Result[object]
    reply: EncodedReply
    deadline_ms: int | None
    values: Sequence[bytes]
    """The records, encoded; none: only its answer waits."""
    size: int
    """Bytes of these."""


class NextBatch:
    """The calls whose records are appended together next; see above.

    ``calls_max``: 1 appends each call by itself.
    """

    def __init__(self) -> None:
        self.calls_max = CALLS_PER_BATCH
        self.calls: list[_Joined] = []
        """Decided, in order; none: there is nothing to append."""
        self._keys: set[object] = set()
        self._records = self._bytes = 0

    def conflicts(self, keys: Collection[object] | None) -> bool:
        """Whether a call that touches these keys (None: any) may depend on the calls in it."""
        return keys is None or not self._keys.isdisjoint(keys)

    def holds(self, one: _Joined) -> bool:
        """Whether the records of another call fit into the batch as well."""
        records = self._records + len(one.values)
        size = self._bytes + one.size + records * RECORD_OVERHEAD_BYTES
        return records <= RECORDS_PER_SLICE and size <= BATCH_BYTES_MAX

    @property
    def full(self) -> bool:
        """Whether no other call may join."""
        return len(self.calls) >= self.calls_max or self._records >= RECORDS_PER_SLICE

    def add(self, one: _Joined, keys: Collection[object]) -> None:
        """A call joins; it has no key in common with the others."""
        self.calls.append(one)
        self._keys.update(keys)
        self._records += len(one.values)
        self._bytes += one.size

    def take(self) -> list[_Joined]:
        """Remove and return its calls, in order."""
        taken, self.calls = self.calls, []
        self._keys.clear()
        self._records = self._bytes = 0
        return taken


class Writes:
    """Takes calls in order; a long one in slices.

    ``gate`` holds those that wait for ZooKeeper, ``turns`` those that wait for a long one,
    ``next_batch`` those that are appended next, ``purgatory`` the responses that wait for the log.

    Args:
        journal: appends.
        answers: takes responses, and what calls raise.
        surroundings: makes the context of each call.
        heartbeats: sessions of brokers.
        too_early: refuses a call that needs the metadata of ZooKeeper; whether it did.
    """

    def __init__(
        self,
        journal: Journal,
        answers: Answers,
        surroundings: Surroundings,
        heartbeats: Heartbeats,
        too_early: Callable[[Handler, Call], bool],
    ) -> None:
        self._journal = journal
        self._answers = answers
        self._surroundings = surroundings
        self._heartbeats = heartbeats
        self._too_early = too_early
        self.gate = BoundGate()
        self.turns = Turns(answers)
        self.next_batch = NextBatch()
        self.purgatory = Purgatory()
        self._now_ms = 0
        self._begun_at = 0
        """End of the log when the call that is under way was taken."""
        self._appended = -1
        """Last offset of what was appended for callers or brokers, or because time has passed."""
        self._term_begins = -1
        """Last offset of what this leader found in the log and of its own first records."""

    def begin_term(self) -> None:
        """Begin anew, as a new leader does when its first records are appended; nothing waits."""
        self.gate.begin_term()
        self._term_begins = self._journal.history.tip.offset
        self._appended = -1

    def take(self, handler: Handler, call: Call, leader_id: int, now_ms: int) -> None:
        """Take a call, or let it wait for those before it."""
        passing = self.turns.waits(call)
        heartbeat = isinstance(call.message, m.BrokerHeartbeatRequest)
        if not heartbeat and (passing or self.turns.too_late(call)):
            self.turns.hold(call)
            return
        if not passing:
            self._surroundings.queue_ms.observe(max(0, now_ms - call.received_ms))
        self._now_ms = now_ms
        keys = None if heartbeat else self._keys(handler, call)
        result = self._decision(handler, call, leader_id)
        if heartbeat and self.next_batch.calls and not _is_idle(result):
            self.flush()
            result = self._decision(handler, call, leader_id)
        if keys is not None:
            self._take_small(handler, call, result, keys)
        elif isinstance(result, Result) and not result.records:
            # Most heartbeats: there is nothing to do in slices.
            self._changes_nothing(handler, call, result, self._answers.made(call, result.response))
        else:
            self._begin(call, self._taken(handler, call, result, passing=passing), now_ms)

    def flush(self) -> None:
        """Append what has joined so far; the answers wait for that, no longer for other calls.

        Raises:
            DivergedError: the node must stop.
        """
        if self.next_batch.calls:
            self._append(self.next_batch.take())

    def go_on(self, now_ms: int) -> None:
        """Do the next slice of a long call."""
        self._now_ms = now_ms
        self.turns.go_on()

    def finish(self, now_ms: int) -> None:
        """Append the rest of a long call, and what has joined: something else is appended next."""
        self._now_ms = now_ms
        self.turns.finish()
        self.flush()

    def release(self, leader_id: int, now_ms: int) -> None:
        """Take the calls that waited for ZooKeeper and need not any more."""
        while not self.turns.under_way and (released := self.gate.next(now_ms)) is not None:
            call, deadline_ms = released
            with self._answers.to(call):
                self._begin(call, self._released(call, deadline_ms, leader_id), now_ms)
        self.flush()

    def drop(self, gone: Callable[[Ticket], bool], now_ms: int) -> list[Call]:
        """Remove the calls of callers who hung up, unless a part of one is appended."""
        calls = self.gate.drop(lambda call: gone(call.ticket), now_ms)
        if self.turns.busy:
            untouched = self._journal.next_offset == self._begun_at
            calls += self.turns.drop(gone, current=untouched)
        return calls

    def drain(self, now_ms: int) -> Iterator[Call]:
        """Remove and return every call that is not answered, and append nothing more of it."""
        joined = [one.call for one in self.next_batch.take()]
        return chain(self.purgatory.drain(), joined, self.gate.drain(now_ms), self.turns.drain())

    def admit(self, records: Sequence[Record], now_ms: int, *, atomic: bool) -> int:
        """Append what no caller asked for and what counts for the bounds.

        It counts also for those who come before the next ``hold``.
        """
        self._now_ms = now_ms
        return whole(self._admitted(records, atomic=atomic))

    def work(self, moves: Moves, now_ms: int) -> None:
        """The same, in slices, of records that are made in slices; no call is under way."""
        self._now_ms = now_ms
        self.turns.begin(None, self._worked(moves))

    # One call.

    def _begin(
        self, call: Call, slices: Slices[None], now_ms: int, *, slice_done: bool = False
    ) -> None:
        self._now_ms = now_ms
        alone = not self.turns.under_way
        self.turns.begin(call, slices, slice_done=slice_done)
        if alone and self.turns.under_way:
            self.flush()  # of the call itself nothing is appended in its first slice
            self._begun_at = self._journal.next_offset

    def _keys(self, handler: Handler, call: Call) -> Collection[object] | None:
        """What a call touches, once nothing is left in the batch that it may depend on."""
        touches = handler.touches
        keys = None if touches is None else touches(self._journal.history.tip, call.message)
        if not (self.next_batch.calls and self.next_batch.conflicts(keys)):
            return keys
        self.flush()
        # What it names may have come or gone with those.
        return None if touches is None else touches(self._journal.history.tip, call.message)

    def _take_small(
        self,
        handler: Handler,
        call: Call,
        result: Result[object] | Slices[Result[object]],
        keys: Collection[object],
    ) -> None:
        """Take a call with keys: most of them are done in less than a slice."""
        if not isinstance(result, Result):
            ended = self._answers.budget.end_of(result)
            if not ended:
                taken = self._taken(handler, call, result, passing=False)
                self._begin(call, taken, self._now_ms, slice_done=True)
                return
            result = ended[0]
        deadline_ms = deadline_of(call)
        if not result.records:
            self._changes_nothing(handler, call, result, self._reply(call, result))
        elif not (
            self._waits(handler, call, result, deadline_ms)
            or self._joins(handler, call, result, deadline_ms, keys)
        ):
            self._begin(call, self._performed(handler, call, result, deadline_ms), self._now_ms)

    def _taken(
        self,
        handler: Handler,
        call: Call,
        result: Result[object] | Slices[Result[object]],
        *,
        passing: bool,
    ) -> Slices[None]:
        """``passing``: others wait before it, so it may not append."""
        deadline_ms = deadline_of(call)
        if not isinstance(result, Result):
            if passing:
                self._hold(call)
                return
            result = yield from result
        if result.records:
            if passing:
                self._hold(call)
                return
            if self._waits(handler, call, result, deadline_ms):
                return
        yield from self._performed(handler, call, result, deadline_ms)

    def _hold(self, heartbeat: Call) -> None:
        """A heartbeat that changes something waits: the broker lives, however long that takes.

        Source: ReplicationControlManager.processExpiredBrokerHeartbeat, Kafka 3.9, for one that was
        in the queue for too long.
        """
        message = heartbeat.message
        assert isinstance(message, m.BrokerHeartbeatRequest), "all others were held before"
        broker = self._journal.history.tip.brokers.get(message.broker_id)
        if broker is not None and broker.epoch == message.broker_epoch:
            self._heartbeats.contact(broker.id, None, self._now_ms)
        self.turns.hold(heartbeat)

    def _waits(
        self, handler: Handler, call: Call, result: Result[object], deadline_ms: int | None
    ) -> bool:
        """Whether a call that appends has to wait for ZooKeeper, and does so from now on."""
        urgency = urgency_of(handler.urgency, result.records, self._journal.history.tip)
        urgency = self.gate.limited(call, urgency)
        if not self.gate.closed(urgency):
            return False
        self.gate.wait(call, urgency, deadline_ms, self._now_ms)
        return True

    def _released(self, call: Call, deadline_ms: int | None, leader_id: int) -> Slices[None]:
        handler = handlers()[call.header.api_key]
        if self._too_early(handler, call):
            return
        keys = self._keys(handler, call)
        result = self._decision(handler, call, leader_id)
        if not isinstance(result, Result):
            result = yield from result
        if keys is None or not self._joins(handler, call, result, deadline_ms, keys):
            yield from self._performed(handler, call, result, deadline_ms)

    def _decision(
        self, handler: Handler, call: Call, leader_id: int
    ) -> Result[object] | Slices[Result[object]]:
        context = self._surroundings.of(call, self._now_ms, leader_id)
        return handler.function(self._journal.history.tip, call.message, context)

    def _joins(
        self,
        handler: Handler,
        call: Call,
        result: Result[object],
        deadline_ms: int | None,
        keys: Collection[object],
    ) -> bool:
        """Whether the records of a call are appended with those of others, and it has joined."""
        records = result.records
        if not records or len(records) > RECORDS_PER_SLICE or result.spent is not None:
            return False
        values = whole(encoded(records, self._journal.history.tip.metadata_version))
        if too_large(values):
            return False
        reply, size = self._reply(call, result), sum(map(len, values))
        self._answers.budget.left -= RECORD_COST * len(records)
        one = _Joined(handler, call, result, reply, deadline_ms, values, size)
        if not self.next_batch.holds(one):
            self.flush()
        self.next_batch.add(one, keys)
        self.gate.passed(len(values), size)
        if self.next_batch.full:
            self.flush()
        return True

    def _changes_nothing(
        self, handler: Handler, call: Call, result: Result[object], reply: EncodedReply
    ) -> None:
        """Answer a call that appends nothing; behind those that have joined."""
        if result.spent is not None:
            self.flush()  # as one does that creates a topic
        if self.next_batch.calls:
            self.next_batch.add(_Joined(handler, call, result, reply, deadline_of(call), (), 0), ())
        else:
            self._answer(handler, call, result, reply)

    def _reply(self, call: Call, result: Result[object]) -> EncodedReply:
        """The answer to a small call, and its cost."""
        reply = self._answers.made(call, result.response)
        self._answers.budget.left -= len(reply.payload or b"") // ENCODED_PER_COST
        return reply

    def _performed(
        self, handler: Handler, call: Call, result: Result[object], deadline_ms: int | None
    ) -> Slices[None]:
        if len(result.records) > RECORDS_PER_SLICE:
            yield
        reply = yield from self._answers.making(call, result.response)
        if not result.records:
            self._changes_nothing(handler, call, result, reply)
            return
        if len(result.records) > RECORDS_PER_SLICE:
            yield
        try:
            offset = yield from self._admitted(result.records, atomic=result.atomic, call=call)
            self._answers.budget.left -= RECORD_COST * len(result.records)
        except BatchTooLargeError:
            self._answers.refuse(call, ErrorCode.POLICY_VIOLATION, TOO_LARGE)
            return
        self._answer(handler, call, result, reply, offset, deadline_ms)

    def _append(self, calls: Sequence[_Joined]) -> None:
        """Append calls as one batch; if that is refused, each by itself, so one fails alone."""
        parts = [
            CallRecords(one.call, one.result.records, one.values) for one in calls if one.values
        ]
        try:
            ends = iter(self._journal.append_together(parts, self._now_ms) if parts else ())
        except DivergedError:
            raise
        except Exception as error:  # noqa: BLE001  # nothing was appended
            if len(calls) > 1:
                for one in calls:
                    self._append([one])
                return
            (one,) = calls
            self.gate.passed(-len(one.values), -one.size)
            self._answers.raised(one.call, error)
            return
        for one in calls:
            offset = next(ends) if one.values else None
            self._appended = self._appended if offset is None else offset
            with self._answers.to(one.call):
                self._answer(one.handler, one.call, one.result, one.reply, offset, one.deadline_ms)

    def _answer(  # noqa: PLR0917  # what was asked, what follows, and until when it may wait
        self,
        handler: Handler,
        call: Call,
        result: Result[object],
        reply: EncodedReply,
        offset: int | None = None,
        deadline_ms: int | None = None,
    ) -> None:
        """Answer when ``offset``, of the last record of a call, is committed; None: it has none."""
        until = Until.COMMITTED if handler.pre_migration else Until.STABLE
        if offset is None:
            # The response may show records that are not committed yet, so it waits for those.
            offset = self._pending_offset(until)
        self._surroundings.performed(result)
        if result.contact is not None:
            self._contact(result.contact)
        if offset is None:
            self._answers.give(reply)
        else:
            deadline_ms = deadline_of(call) if deadline_ms is None else deadline_ms
            self.purgatory.add(until, offset, reply, deadline_ms)

    def _pending_offset(self, until: Until) -> int | None:
        """The newest that a response without records may show, unless it is committed.

        What nobody asked for counts as well: a fencing, an election.
        """
        newest = max(self._appended, self._term_begins)
        pending = newest if self._journal.committed_offset < newest else None
        asked = self.purgatory.highest_pending_offset(until)
        return pending if asked is None else max(asked, newest)

    def _worked(self, moves: Moves) -> Slices[None]:
        records = yield from moves
        if records:
            yield from self._admitted(records, atomic=False)

    def _admitted(
        self, records: Sequence[Record], *, atomic: bool, call: Call | None = None
    ) -> Slices[int]:
        self.flush()
        journal = self._journal
        before = journal.appended_bytes
        offset = yield from journal.appending(
            records, lambda: self._now_ms, atomic=atomic, call=call
        )
        self.gate.passed(len(records), journal.appended_bytes - before)
        self._appended = offset
        return offset

    def _contact(self, contact: Contact) -> None:
        self._heartbeats.contact(contact.broker_id, contact.metadata_offset, self._now_ms)
        if contact.shutting_down:
            offset = self._journal.history.tip.offset
            self._heartbeats.begin_controlled_shutdown(contact.broker_id, offset)


def _is_idle(result: Result[object] | Slices[Result[object]]) -> bool:
    """Whether a heartbeat neither appends anything nor begins or goes on with a shutdown.

    Then it depends on no partition, and on no record that is to be appended.
    """
    if not isinstance(result, Result) or result.records:
        return False
    return result.contact is None or not result.contact.shutting_down
