"""Answers on their way out: encoded where they are made, so that one that cannot be is found there.

Whatever a handler raises, and whatever answer its version cannot carry, becomes the answer
UNKNOWN_SERVER_ERROR of that API, inside its Envelope if it came in one. An answer that waits for a
commit is encoded before its records are appended: what cannot be told is not done either.

Source: RequestHandlerHelper.handleError, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from emulator.controller.context import Call
from emulator.controller.failures import RequestFailures
from emulator.controller.forwarding import sealed
from emulator.controller.journal import DivergedError
from emulator.controller.registry import advertised, refused
from emulator.net.reply import API_VERSIONS, Reply, Ticket, encoded
from wire.errors import UNEXPECTED, ErrorCode
from wire.frame import RequestHeader


@dataclass(frozen=True, slots=True)
class EncodedReply:
    """One call and its answer, ready to be sent.

    ``call`` is the one inside, if it came in an Envelope; ``answer`` is its response. ``message``
    is what goes out under the ticket: the same, or the Envelope around it. ``payload`` is that with
    its header, without length; None: nothing can be said, the connection must be closed.
    """

    call: Call
    answer: object
    message: object
    payload: bytes | None

    @property
    def ticket(self) -> Ticket:
        """What is answered."""
        return self.call.ticket


class Answers:
    """Makes answers, and keeps those that may leave until they are taken."""

    def __init__(self, release: str) -> None:
        self.failures = RequestFailures()
        self._api_versions_max = advertised(release)[API_VERSIONS][1]
        self._offers: dict[int, tuple[object, bytes]] = {}
        self._ready: list[EncodedReply] = []
        self._forwarded: list[Call] = []
        self._at_raft: dict[Ticket, Call] = {}

    def take(self) -> list[EncodedReply]:
        """Answers ready since the last call, in the order they became so."""
        taken, self._ready = self._ready, []
        return taken

    def made(self, call: Call, message: object) -> EncodedReply:
        """The answer to a call, encoded; it does not leave yet.

        Raises:
            EncodeError: its version cannot carry it.
        """
        payload = self._encoded(call.header, message)
        if call.outer is None:
            return EncodedReply(call, message, message, payload)
        envelope = sealed(call.header, message, payload)
        return EncodedReply(call, message, envelope, self._encoded(call.outer.header, envelope))

    def give(self, answered: EncodedReply) -> None:
        """Let an answer leave."""
        self._ready.append(answered)

    def refuse(self, call: Call, code: ErrorCode, text: str | None) -> None:
        """Answer a call with one error for everything it asked."""
        try:
            self.give(self.made(call, refused(call.header.api_key, call.message, code, text)))
        except Exception as error:  # noqa: BLE001 - as whatever else cannot be answered
            self.fail(call, error)

    def fail(self, call: Call, error: Exception) -> None:
        """Answer UNKNOWN_SERVER_ERROR, and remember why; never raises.

        A response that cannot say even that gives way to the Envelope's own error, or to the end
        of the connection.
        """
        self.failures.note(call.header.api_key, error)
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        try:
            refusal = refused(call.header.api_key, call.message, code, UNEXPECTED)
            answered = self.made(call, refusal)
        except Exception as again:  # noqa: BLE001 - the last place that can answer
            if call.outer is not None:
                self.fail(call.outer, again)
                return
            self.failures.note(call.header.api_key, again)
            answered = EncodedReply(call, None, None, None)
        self.give(answered)

    @contextmanager
    def to(self, call: Call) -> Iterator[None]:
        """Whatever the body of the ``with`` raises before anything is appended fails the call.

        Raises:
            DivergedError: the node must stop.
        """
        try:
            yield
        except DivergedError:
            raise
        except Exception as error:  # noqa: BLE001 - no request ends the node
            self._at_raft.pop(call.ticket, None)
            self.fail(call, error)

    # Calls that the Raft machine answers, direct ones and those found in Envelopes.

    def forward(self, call: Call) -> None:
        """Leave a call to the Raft machine."""
        self._at_raft[call.ticket] = call
        self._forwarded.append(call)

    def take_forwarded(self) -> list[Call]:
        """Those left to it since the last call; give each answer to :meth:`answer`."""
        taken, self._forwarded = self._forwarded, []
        return taken

    def answer(self, reply: Reply) -> None:
        """Answer one of them; what came in an Envelope goes back in one."""
        call = self._at_raft.pop(reply.ticket)
        with self.to(call):
            self.give(self.made(call, reply.message))

    def _encoded(self, header: RequestHeader, message: object) -> bytes:
        if header.api_key != API_VERSIONS:
            return encoded(header, message, self._api_versions_max)
        # The same answer until a feature changes: only the correlation id before it differs.
        known = self._offers.get(header.api_version)
        if known is None or known[0] is not message:
            known = (message, encoded(header, message, self._api_versions_max))
            if 0 <= header.api_version <= self._api_versions_max:
                self._offers[header.api_version] = known
        return header.correlation_id.to_bytes(4, "big", signed=True) + known[1][4:]
