"""Requests in a closed loop: each connection sends the next frame when its answer is there.

The frames are encoded before they are needed, so that the client uses little of the machine. What a
peer answers is looked at once, at the end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import uvloop

from emulator.servers.ports import HOST
from emulator.trace.distribution import percentile

NextFrame: TypeAlias = Callable[[], bytes]
"""Returns the next request of one connection, with its length prefix."""


@dataclass(slots=True)
class Calls:
    """What a run of the loop measured."""

    seconds: float = 0.0
    """From the first request to the last answer."""
    latencies_ns: list[int] = field(default_factory=list)
    """In order of the answers."""
    last: dict[int, bytes] = field(default_factory=dict)
    """The last answer of each connection, by its place; without the length."""

    @property
    def rate(self) -> float:
        """Requests per second."""
        return len(self.latencies_ns) / self.seconds

    def percentile_ms(self, share: float) -> float | None:
        """The latency that this share of the answers did not exceed; see ``figures.percentile``."""
        return percentile([ns / 1e6 for ns in self.latencies_ns], share)

    @property
    def longest_ms(self) -> float:
        """The latency of the slowest answer."""
        return max(self.latencies_ns) / 1e6


class _Caller(asyncio.Protocol):
    def __init__(
        self, place: int, next_frame: NextFrame, calls: Calls, stop: asyncio.Event | None
    ) -> None:
        self._place = place
        self._next = next_frame
        self._calls = calls
        self._stop = stop
        self._end_ns = 0
        self._held = bytearray()
        self._sent_ns = 0
        self._transport: asyncio.Transport | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's own class

    def start(self, end_ns: int) -> None:
        self._end_ns = end_ns
        self._send()

    def data_received(self, data: bytes) -> None:
        held: bytes | bytearray = data
        if self._held:
            self._held += data
            held = self._held
        if len(held) < 4 or len(held) < 4 + int.from_bytes(held[:4], "big"):
            if held is data:
                self._held += data
            return
        self._held = bytearray()
        now_ns = time.perf_counter_ns()
        self._calls.latencies_ns.append(now_ns - self._sent_ns)
        if now_ns < self._end_ns and not (self._stop and self._stop.is_set()):
            self._send()
        else:
            self._calls.last[self._place] = bytes(held[4:])
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(ConnectionResetError(f"the controller hung up: {exc}"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _send(self) -> None:
        assert self._transport is not None
        frame = self._next()
        self._sent_ns = time.perf_counter_ns()
        self._transport.write(frame)


async def call(
    port: int,
    sources: Sequence[NextFrame],
    seconds: float,
    *,
    stop: asyncio.Event | None = None,
) -> Calls:
    """Send requests on one connection for each source.

    Args:
        port: of the controller.
        sources: of the frames, one for each connection.
        seconds: no request is sent later.
        stop: none is sent after it is set either.

    Raises:
        OSError: a connection failed.
    """
    loop = asyncio.get_running_loop()
    calls = Calls()
    callers: list[_Caller] = []
    try:
        for place, source in enumerate(sources):
            caller = _Caller(place, source, calls, stop)
            await loop.create_connection(lambda one=caller: one, HOST, port)  # type: ignore[misc]  # a default binds the value of this turn
            callers.append(caller)
        began_ns = time.perf_counter_ns()
        for caller in callers:
            caller.start(began_ns + int(seconds * 1e9))
        await asyncio.gather(*(caller.done for caller in callers))
        calls.seconds = (time.perf_counter_ns() - began_ns) / 1e9
    finally:
        for caller in callers:
            caller.close()
    return calls


def run(port: int, sources: Sequence[NextFrame], seconds: float) -> Calls:
    """As :func:`call`, in an event loop of its own."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(call(port, sources, seconds))
