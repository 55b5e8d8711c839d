"""Calls that may append: decided on the newest image, appended, answered when committed.

Source: QuorumController.ControllerWriteEvent, Kafka 3.9.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final

from emulator.controller.context import Call
from emulator.controller.queue.answers import Answers, EncodedReply
from emulator.controller.queue.batches import TOO_LARGE, BatchTooLargeError
from emulator.controller.queue.gate import Gate
from emulator.controller.queue.heartbeats import Heartbeats
from emulator.controller.queue.journal import Journal
from emulator.controller.queue.purgatory import Purgatory, Until, deadline_of
from emulator.controller.queue.urgency import urgency_of
from emulator.controller.registry import Handler, handlers
from emulator.controller.result import Contact, Record, Result
from emulator.controller.rules.broker_changes import Moves
from emulator.controller.surroundings import Surroundings
from emulator.seam import RECORD_COST, RECORDS_PER_SLICE, Slices, Ticket, whole
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

    def hold(self, call: Call) -> None:
        """Let a call wait for its turn; :meth:`waiting` returns it."""
        self._conns.begins(call)
        self._held.append(call)

    def begin(self, call: Call | None, slices: Slices[None]) -> None:
        """Do the first slice of a call; if there are more, or the step is over, it is under way.

        Args:
            call: None: nobody asked for it.
            slices: what it does.

        Raises:
            Exception: of the slice; the call has ended.
        """
        budget = self._answers.budget
        # One that passes the others does nothing but to hold itself, if it is long.
        if (budget.over and not self.under_way) or budget.goes_on(slices):
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
        for _ in range(CALLS_PER_STEP):
            if self.under_way or not self._held:
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


class Writes:
    """Takes calls in order; a long one in slices.

    ``gate`` holds those that wait for ZooKeeper, ``turns`` those that wait for a long one,
    ``purgatory`` the responses that wait for the log.

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
        self.gate = Gate()
        self.turns = Turns(answers)
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
        self._term_begins = self._journal.tip.offset
        self._appended = -1

    def take(self, handler: Handler, call: Call, leader_id: int, now_ms: int) -> None:
        """Take a call, or let it wait for those before it."""
        passing = self.turns.waits(call)
        if passing and not isinstance(call.message, m.BrokerHeartbeatRequest):
            self.turns.hold(call)
            return
        if not passing:
            self._surroundings.queue_ms.observe(max(0, now_ms - call.received_ms))
        self._now_ms = now_ms
        result = self._decision(handler, call, leader_id)
        if isinstance(result, Result) and not result.records:
            # Most heartbeats: there is nothing to do in slices.
            self._answer(handler, call, result, self._answers.made(call, result.response))
            return
        self._begin(call, self._taken(handler, call, result, passing=passing), now_ms)

    def go_on(self, now_ms: int) -> None:
        """Do the next slice of a long call."""
        self._now_ms = now_ms
        self.turns.go_on()

    def finish(self, now_ms: int) -> None:
        """Do the rest of a long call: something else has to be appended now."""
        self._now_ms = now_ms
        self.turns.finish()

    def release(self, leader_id: int, now_ms: int) -> None:
        """Take the calls that waited for ZooKeeper and need not any more."""
        while not self.turns.under_way and (released := self.gate.next(now_ms)) is not None:
            call, deadline_ms = released
            with self._answers.to(call):
                self._begin(call, self._released(call, deadline_ms, leader_id), now_ms)

    def drop(self, gone: Callable[[Ticket], bool], now_ms: int) -> list[Call]:
        """Remove the calls of callers who hung up, unless a part of one is appended."""
        calls = self.gate.drop(lambda call: gone(call.ticket), now_ms)
        if self.turns.busy:
            untouched = self._journal.next_offset == self._begun_at
            calls += self.turns.drop(gone, current=untouched)
        return calls

    def drain(self, now_ms: int) -> Iterator[Call]:
        """Remove and return every call that is not answered, and append nothing more of it."""
        return chain(self.purgatory.drain(), self.gate.drain(now_ms), self.turns.drain())

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

    def _begin(self, call: Call, slices: Slices[None], now_ms: int) -> None:
        self._now_ms = now_ms
        if not self.turns.under_way:
            self._begun_at = self._journal.next_offset
        self.turns.begin(call, slices)

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
                self.turns.hold(call)
                return
            result = yield from result
        if result.records:
            if passing:
                self.turns.hold(call)
                return
            urgency = urgency_of(handler.urgency, result.records, self._journal.tip)
            urgency = self.gate.limited(call, urgency)
            if self.gate.closed(urgency):
                self.gate.wait(call, urgency, deadline_ms, self._now_ms)
                return
        yield from self._performed(handler, call, result, deadline_ms)

    def _released(self, call: Call, deadline_ms: int | None, leader_id: int) -> Slices[None]:
        handler = handlers()[call.header.api_key]
        if not self._too_early(handler, call):
            result = self._decision(handler, call, leader_id)
            if not isinstance(result, Result):
                result = yield from result
            yield from self._performed(handler, call, result, deadline_ms)

    def _decision(
        self, handler: Handler, call: Call, leader_id: int
    ) -> Result[object] | Slices[Result[object]]:
        context = self._surroundings.of(call, self._now_ms, leader_id)
        return handler.function(self._journal.tip, call.message, context)

    def _performed(
        self, handler: Handler, call: Call, result: Result[object], deadline_ms: int | None
    ) -> Slices[None]:
        if len(result.records) > RECORDS_PER_SLICE:
            yield
        reply = yield from self._answers.making(call, result.response)
        if len(result.records) > RECORDS_PER_SLICE:
            yield
        offset: int | None = None
        if result.records:
            try:
                offset = yield from self._admitted(result.records, atomic=result.atomic, call=call)
                self._answers.budget.left -= RECORD_COST * len(result.records)
            except BatchTooLargeError:
                self._answers.refuse(call, ErrorCode.POLICY_VIOLATION, TOO_LARGE)
                return
        self._answer(handler, call, result, reply, offset, deadline_ms)

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
            offset = self._journal.tip.offset
            self._heartbeats.begin_controlled_shutdown(contact.broker_id, offset)
