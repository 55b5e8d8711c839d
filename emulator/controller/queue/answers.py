"""Responses on their way out. Each is encoded when it is made, so an encoding error is found there.

If a handler raises, or its response cannot be encoded in the caller's version, the caller gets
UNKNOWN_SERVER_ERROR in that API's response, inside an Envelope if the request came in one. A
response that waits for a commit is encoded before its records are appended: if it cannot be
encoded, nothing is appended.

Source: RequestHandlerHelper.handleError, Kafka 3.9.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from emulator.controller.context import Call
from emulator.controller.queue.journal import DivergedError
from emulator.controller.queue.urgency import Urgency
from emulator.controller.registry import advertised, handlers, refusing
from emulator.controller.result import RequestFailures
from emulator.net.reply import (
    API_VERSIONS,
    ENTRIES_PER_SLICE,
    encoded,
    encoding,
    finding,
    first_error,
    sealing,
)
from emulator.seam import ENCODED_PER_COST, Budget, Pace, Reply, Slices, Ticket, whole
from wire.errors import UNEXPECTED, ErrorCode
from wire.frame import RequestHeader

# Answers that take longer than a slice to make: a slice of one of them in each step, in turn.
#
# What only reads, what is refused, and what an Envelope holds: none of it appends, and the image
# that it is made of does not change, so any number of them may be under way, with a long call that
# appends (``writes.py``) or without one.


class BusyConns:
    """Connections whose calls are under way or wait for a long one, counted as calls come and go.

    So that no step looks at all of them: there may be thousands.
    """

    def __init__(self) -> None:
        self._calls: dict[int, int] = {}
        self.moves: list[tuple[Ticket, int]] = []
        """What has come and gone since :meth:`take_changed`."""

    def begins(self, call: Call) -> None:
        """A call is under way, or waits."""
        self.moves.append((call.ticket, 1))

    def ends(self, call: Call) -> None:
        """It is not, any more."""
        self.moves.append((call.ticket, -1))

    def take_changed(self) -> dict[int, bool]:
        """Connections that may have changed since the last call, and whether they are busy now."""
        moves, self.moves = self.moves, []
        for ticket, more in moves:
            self._calls[ticket.conn] = self._calls.get(ticket.conn, 0) + more
        changed = {ticket.conn: bool(self._calls[ticket.conn]) for ticket, _ in moves}
        for conn, busy in changed.items():
            if not busy:
                del self._calls[conn]
        return changed


class LongAnswers:
    """The calls that are under way, each with what is left to do for it.

    Args:
        busy: knows their connections.
    """

    def __init__(self, busy: BusyConns) -> None:
        self._busy = busy
        self._under_way: deque[tuple[Call, Slices[None]]] = deque()

    def __bool__(self) -> bool:
        return bool(self._under_way)

    def put(self, call: Call, slices: Slices[None]) -> None:
        """Take a call whose first slice is done."""
        self._busy.begins(call)
        self._under_way.append((call, slices))

    def next(self) -> tuple[Call, Slices[None]]:
        """Remove the one whose turn it is; it is put back if there is more to do."""
        call, slices = self._under_way.popleft()
        self._busy.ends(call)
        return call, slices

    def drop(self, gone: Callable[[Ticket], bool]) -> list[Call]:
        """Remove the calls of these tickets; returns them."""
        dropped: list[Call] = []
        for _ in range(len(self._under_way)):
            call, slices = self._under_way.popleft()
            if gone(call.ticket):
                self._busy.ends(call)
                dropped.append(call)
            else:
                self._under_way.append((call, slices))
        return dropped


_FETCH: Final = 1
_ENVELOPE: Final = 58
_ALIKE: Final = (API_VERSIONS, _FETCH)
"""APIs whose answer many get alike: the same message, except for the correlation id."""
BLOCKED: Final = (
    "The request waited for ZooKeeper until its timeout. Nothing was changed; send it again later."
)


class EncodedReply(msgspec.Struct, frozen=True, gc=False):
    """One call and its answer, ready to be sent.

    ``call`` is the inner call, if it came in an Envelope; ``answer`` is its response. ``message``
    is sent under the ticket: ``answer``, or the EnvelopeResponse around it. ``payload`` is
    ``message`` encoded with its header, without the length; None if no response can be encoded and
    the connection must be closed. ``error``: the first error code in it, the Envelope's first.
    """

    call: Call
    answer: object
    message: object
    payload: bytes | None
    error: int = 0

    @property
    def ticket(self) -> Ticket:
        """The ticket of the request that this reply answers."""
        return self.call.ticket


class Answers:
    """Makes responses, and keeps those that are ready to send until ``take`` is called.

    ``budget``: of the step, for all that serves callers.
    """

    def __init__(self, release: str) -> None:
        self.failures = RequestFailures()
        self.budget = Budget()
        self._versions_max = {key: advertised(release)[key][1] for key in _ALIKE}
        self._api_versions_max = self._versions_max[API_VERSIONS]
        self._alike: dict[tuple[int, int], tuple[object, bytes]] = {}
        """The last message of an API that many get alike, and its bytes, by API key and version."""
        self.ready: list[EncodedReply] = []
        """Responses to :meth:`take`."""
        self.forwarded: list[Call] = []
        """Calls to :meth:`take_forwarded`."""
        self._at_raft: dict[Ticket, Call] = {}
        self.busy_conns = BusyConns()
        self.long = LongAnswers(self.busy_conns)
        self._refused: deque[tuple[Iterator[Call], ErrorCode, str]] = deque()
        """Calls that are refused together and were not looked at yet."""

    @property
    def under_way(self) -> bool:
        """Whether :meth:`go_on` has something to do."""
        return bool(self.long or self._refused)

    def take(self) -> list[EncodedReply]:
        """Responses that became ready, in that order; in one step only as many as it may send."""
        taken, self.ready = self.ready, []
        if taken:
            most = self.budget.answers
            self.ready = taken[most:]
            del taken[most:]
            self.budget.answers -= len(taken)
        return taken

    def made(self, call: Call, message: object) -> EncodedReply:
        """The encoded response to a call; it is not sent yet.

        Raises:
            EncodeError: its version cannot carry it.
        """
        if call.outer is not None:
            return whole(self.making(call, message))
        # Most answers: there is nothing to do in slices.
        payload = self._encoded(call.header, message)
        return EncodedReply(call, message, message, payload, first_error(message))

    def making(self, call: Call, message: object) -> Slices[EncodedReply]:
        """The same, in slices."""
        if call.header.api_key in _ALIKE:
            payload = self._encoded(call.header, message)
        else:
            payload = yield from encoding(call.header, message)
            self.budget.left -= len(payload) // ENCODED_PER_COST
        error = yield from finding(message, None, Pace(ENTRIES_PER_SLICE))
        if call.outer is None:
            return EncodedReply(call, message, message, payload, error)
        envelope = yield from sealing(call.header, message, payload)
        outside = encoded(call.outer.header, envelope, self._api_versions_max)
        return EncodedReply(call, message, envelope, outside, envelope.error_code or error)

    def give(self, answered: EncodedReply) -> None:
        """Mark a response as ready to send."""
        self.ready.append(answered)

    def refuse(self, call: Call, code: ErrorCode, text: str | None) -> None:
        """Answer a call with one error for everything it asked."""
        with self.to(call):
            self.begin(call, self._refusing(call, code, text))

    def refuse_all(self, calls: Iterator[Call], code: ErrorCode, text: str) -> None:
        """The same, of many calls: those that have to wait are taken when there is time."""
        self._refused.append((calls, code, text))
        self._refuse_on()

    def _refuse_on(self) -> None:
        while self._refused and not self.budget.over:
            calls, code, text = self._refused[0]
            if (call := next(calls, None)) is None:
                self._refused.popleft()
            else:
                self.refuse(call, code, text)

    def _refusing(self, call: Call, code: ErrorCode, text: str | None) -> Slices[None]:
        refusal = yield from refusing(call.header.api_key, call.message, code, text)
        yield from self.giving(call, refusal)

    def giving(self, call: Call, message: object) -> Slices[None]:
        """Send the response to a call, once it is encoded, in slices."""
        self.give((yield from self.making(call, message)))

    def begin(self, call: Call, slices: Slices[None]) -> None:
        """Do the first slice of what answers a call, unless the step is over.

        :meth:`go_on` does the others.

        Raises:
            Exception: of the slice.
        """
        # What an Envelope holds comes before what its connection has sent after it.
        later = self.budget.over and call.header.api_key != _ENVELOPE
        if later or self.budget.goes_on(slices):
            self.long.put(call, slices)

    def go_on(self) -> None:
        """Do the next slice of one of the long answers; before it, those that need no other one."""
        self._refuse_on()
        more = False
        while self.long and not more:
            call, slices = self.long.next()
            with self.to(call):
                more = self.budget.goes_on(slices)
                if more:
                    self.long.put(call, slices)
            more = more or self.budget.over

    def refuse_blocked(self, call: Call, retry_ms: int) -> None:
        """Answer REQUEST_TIMED_OUT to a call that waited for ZooKeeper until its deadline.

        Args:
            call: nothing of it was appended.
            retry_ms: when room is expected; clients and forwarding brokers wait that long, as for
                a quota. Calls of brokers have no such advice: their other requests must not wait.
        """
        code, api_key = ErrorCode.REQUEST_TIMED_OUT, call.header.api_key
        ordinary = handlers()[api_key].urgency is Urgency.ORDINARY

        def blocked() -> Slices[None]:
            refusal = yield from refusing(api_key, call.message, code, BLOCKED)
            if ordinary and isinstance(refusal, Struct) and hasattr(refusal, "throttle_time_ms"):
                refusal = replace(refusal, throttle_time_ms=retry_ms)
            yield from self.giving(call, refusal)

        with self.to(call):
            self.begin(call, blocked())

    def fail(self, call: Call, error: Exception) -> None:
        """Answer UNKNOWN_SERVER_ERROR and record the failure; never raises.

        If even that response cannot be encoded, the Envelope carries the error, or the connection
        is closed.
        """
        self.failures.note(call.header.api_key, error)
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        try:
            refusal = whole(refusing(call.header.api_key, call.message, code, UNEXPECTED))
            answered = self.made(call, refusal)
        except Exception as again:  # noqa: BLE001 - the last place that can answer
            if call.outer is not None:
                self.fail(call.outer, again)
                return
            self.failures.note(call.header.api_key, again)
            answered = EncodedReply(call, None, None, None)
        self.give(answered)

    def to(self, call: Call) -> AnswersWhatFails:
        """Context manager: an exception in its body, before anything is appended, fails the call.

        Raises:
            DivergedError: the node must stop.
        """
        return AnswersWhatFails(self, call)

    def raised(self, call: Call, error: Exception) -> None:
        """Before anything was appended, an exception ended the call: it is answered so."""
        self._at_raft.pop(call.ticket, None)
        self.fail(call, error)

    # Calls that the Raft machine answers, direct ones and those found in Envelopes.

    def forward(self, call: Call) -> None:
        """Hand a call over to the Raft machine."""
        self._at_raft[call.ticket] = call
        self.forwarded.append(call)

    def take_forwarded(self) -> list[Call]:
        """Calls handed over since the last call of this; pass each response to :meth:`answer`."""
        taken, self.forwarded = self.forwarded, []
        return taken

    def answer(self, reply: Reply) -> None:
        """Answer a call that was handed over; inside an Envelope if the request came in one."""
        call = self._at_raft.pop(reply.ticket)
        with self.to(call):
            if call.header.api_key == _FETCH and call.outer is None:
                self.give(self.made(call, reply.message))  # short, and of many observers at once
            else:
                self.begin(call, self.giving(call, reply.message))

    def _encoded(self, header: RequestHeader, message: object) -> bytes:
        key = (header.api_key, header.api_version)
        if header.api_key not in _ALIKE:
            return encoded(header, message, self._api_versions_max)
        # The offer is the same until a feature changes, and observers that stand at one offset are
        # given one message: only the correlation id before it differs.
        known = self._alike.get(key)
        if known is None or known[0] is not message:
            known = (message, encoded(header, message, self._api_versions_max))
            if 0 <= header.api_version <= self._versions_max[header.api_key]:
                self._alike[key] = known
        return b"".join((header.correlation_id.to_bytes(4, "big", signed=True), known[1][4:]))


class AnswersWhatFails:
    """See :meth:`Answers.to`. A class, as a generator costs more, and each request enters one."""

    __slots__ = ("_answers", "_call")

    def __init__(self, answers: Answers, call: Call) -> None:
        self._answers = answers
        self._call = call

    def __enter__(self) -> None:
        """Nothing has failed yet."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: object
    ) -> bool:
        """Answer the call if its body raised; no request ends the node."""
        if not isinstance(error, Exception) or isinstance(error, DivergedError):
            return False
        self._answers.raised(self._call, error)
        return True
