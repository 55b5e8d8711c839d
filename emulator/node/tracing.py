"""Makes trace rows of answered requests."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from emulator.controller.context import Call
from emulator.controller.queue.answers import EncodedReply
from emulator.controller.queue.gate import Blocked
from emulator.migration.dual_write.modes import Mode
from emulator.trace.distribution import Distribution
from emulator.trace.rows import BlockCause, BlockEnd, BlockRow, RequestRow
from wire import messages as m
from wire.errors import DecodeError
from wire.frame import RequestHeader, split_request
from wire.schema import api_name

SENDERS_MAX: Final = 10_000
"""Whoever may send Envelopes chooses the name."""
LONG_POLLS: Final = frozenset({1})
"""Fetch waits for news: how long says nothing about this node."""


@dataclass(slots=True)
class NodeCounters:
    """Plain numbers for the metrics."""

    answered: dict[tuple[int, bool], int] = field(default_factory=dict)
    """By API key, and whether the request came in an Envelope."""
    forwarded_by: dict[str | None, int] = field(default_factory=dict)
    """The same in Envelopes by who sent them, which a broker of Kafka names by its id."""
    latency_ms: dict[int, Distribution] = field(default_factory=dict)
    """By API key, without long polls."""
    request_errors: dict[tuple[str, str], int] = field(default_factory=dict)
    """By API and error code."""
    elections: int = 0
    """How often a leader was elected while this process ran."""
    waiting: int = 0
    """Requests received and not answered."""
    longest_step_ns: int = 0
    """By the clock."""
    longest_step_cpu_ns: int = 0
    """By the time of its thread, which does not count what other programs take meanwhile."""

    def note_answer(self, reply: EncodedReply, error: int, answered_ns: int) -> None:
        """Count one answer, by the API inside an Envelope."""
        key = reply.call.header.api_key
        count = key, reply.call.outer is not None
        self.answered[count] = self.answered.get(count, 0) + 1
        if reply.call.outer is not None:
            sender = reply.call.outer.header.client_id
            if sender in self.forwarded_by:
                self.forwarded_by[sender] += 1
            elif len(self.forwarded_by) < SENDERS_MAX:
                self.forwarded_by[sender] = 1
        if key not in LONG_POLLS:
            if key not in self.latency_ms:
                self.latency_ms[key] = Distribution()
            self.latency_ms[key].observe((answered_ns - reply.call.ticket.received_ns) / 1e6)
        if error:
            named = api_name(key), str(error)
            self.request_errors[named] = self.request_errors.get(named, 0) + 1


_CAUSES: Final = {
    Mode.DOUBT: BlockCause.SESSION_LOST,
    Mode.SETTLING: BlockCause.FENCING,
    Mode.POISONED: BlockCause.POISONED,
}


class Causes:
    """Why ZooKeeper was behind, over time; a blocked operation gets the cause at its beginning."""

    def __init__(self) -> None:
        self._since: deque[tuple[int, BlockCause | None]] = deque([(0, None)], 1000)

    def note(self, mode: Mode | None, now_ms: int) -> None:
        """Record the cause from now on."""
        cause = None if mode is None else _CAUSES.get(mode)
        if cause is not self._since[-1][1]:
            self._since.append((now_ms, cause))

    def at(self, time_ms: int) -> BlockCause | None:
        """The cause at a time; the oldest known one for earlier times.

        None: writing went on, and a bound was reached all the same.
        """
        held = (cause for since, cause in reversed(self._since) if since <= time_ms)
        return next(held, self._since[0][1])


def block_row(blocked: Blocked, causes: Causes, end_ns: int) -> BlockRow:
    """One operation's wait for ZooKeeper that ended now."""
    return BlockRow(
        begin_ns=end_ns - (blocked.end_ms - blocked.begin_ms) * 1_000_000,
        end_ns=end_ns,
        cause=causes.at(blocked.begin_ms) or blocked.cause,
        api=api_name(blocked.api_key),
        request_id=blocked.ticket.request_id,
        end=BlockEnd.RELEASED if blocked.admitted else BlockEnd.TIMED_OUT,
    )


def request_row(reply: EncodedReply, error: int, answered_ns: int) -> RequestRow:
    """One row; an Envelope shows the client id and correlation id of the request inside."""
    ticket = reply.ticket
    header, inner = ticket.header, _inner(reply.call)
    named = inner or header
    first_offset, last_offset = ticket.offsets or (None, None)
    return RequestRow(
        request_id=ticket.request_id,
        api=api_name(header.api_key),
        api_version=header.api_version,
        client_id=named.client_id,
        correlation_id=named.correlation_id,
        answered_ns=answered_ns,
        received_ns=ticket.received_ns,
        error_code=error,
        first_offset=first_offset,
        last_offset=last_offset,
        inner_api=None if inner is None else api_name(inner.api_key),
        forwarded_by=None if inner is None else header.client_id,
    )


def _inner(call: Call) -> RequestHeader | None:
    """The header inside an Envelope, also of one that was not opened; None if there is none."""
    if call.outer is not None:
        return call.header
    if not isinstance(call.message, m.EnvelopeRequest):
        return None
    try:
        return split_request(call.message.request_data)[0]
    except DecodeError:
        return None
