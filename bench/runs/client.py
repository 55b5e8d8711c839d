"""The client of a row: requests become due by a schedule, and are sent as connections get free.

A Kafka server answers one request of a connection before it reads the next one, so each connection
has one request outstanding. A request that is due while all are busy waits here, and its latency
counts from when it was due. Frames are raw bytes: the client must be much faster than the server.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from emulator.servers.ports import HOST
from emulator.trace.rows import RequestRow
from wire.errors import DecodeError
from wire.frame import RequestHeader, encode_request, framed

UNANSWERED = -2
"""In place of an error code: the request got no answer."""
_CORRELATION = slice(8, 12)
"""Where a request with its length holds its correlation id."""


class Load(Protocol):
    """The requests of a row, in order."""

    api: str
    api_key: int
    version: int

    def key(self, number: int) -> int | None:
        """What the request changes, None for nothing else's: two of one key never overlap."""

    def frame(self, number: int) -> bytes | None:
        """The request with its length; None if it cannot be made any more."""

    def answered(self, number: int, frame: bytes) -> int:
        """Take the answer, without its length; returns the error code."""


def request_frame(message: object, api_key: int, version: int, client_id: str) -> bytes:
    """A request with its length; its correlation id is 0 until it is sent."""
    header = RequestHeader(
        api_key=api_key, api_version=version, correlation_id=0, client_id=client_id
    )
    return framed(encode_request(header, message))


class LostConnectionError(ConnectionError):
    """The controller closed a connection."""


class _Wire(asyncio.Protocol):
    """One connection."""

    def __init__(self, owner: OpenLoop) -> None:
        self._owner = owner
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self.number = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast: uvloop's transports are of no class of asyncio.
        self._transport = cast("asyncio.Transport", transport)

    def send(self, number: int, data: bytes) -> None:
        assert self._transport is not None
        self.number = number
        self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        if len(buffer) >= 4:
            end = 4 + int.from_bytes(buffer[:4], "big")
            if len(buffer) >= end:
                frame = bytes(buffer[4:end])
                del buffer[:end]
                self._owner.take(self, frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.lost(self, exc)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class OpenLoop:
    """Sends a load by a schedule. Times are ``time.monotonic_ns``.

    Args:
        load: the requests.
        count: how many.
        rate: requests due each second; None: each is due when a connection is free (a warm-up).
        connections: how many.
        client_id: in the frames and in the trace.
        due_s: when each is due, and the end of the schedule; None: by the rate.
    """

    def __init__(  # noqa: PLR0917 - what a load is
        self,
        load: Load,
        count: int,
        rate: float | None,
        connections: int,
        client_id: str,
        due_s: Sequence[float] | None = None,
    ) -> None:
        self._load = load
        self._count = count
        self._gap_ns = 0.0 if rate is None else 1e9 / rate
        self._due_ns = None if due_s is None else array("q", [int(each * 1e9) for each in due_s])
        self._connections = connections
        self._client_id = client_id
        self._idle: list[_Wire] = []
        self._wires: list[_Wire] = []
        self._ready: deque[int] = deque()
        self._parked: dict[int, deque[int]] = {}
        self._open = 0
        self._done: asyncio.Future[None] | None = None
        self.begin_ns = 0
        self.last_ns = 0
        """When the last answer came."""
        self.sent_ns = array("q", bytes(8 * count))
        self.answered_ns = array("q", bytes(8 * count))
        self._errors = array("i", bytes(4 * count))
        self._unread: list[tuple[int, bytes]] = []
        self.late_ns: list[int] = []
        """Of requests that found a free connection: how late this client sent them."""
        self.on_begin: Callable[[], None] = lambda: None
        """Called when the schedule begins: to open many connections takes seconds."""

    async def run(self, port: int, wait_s: float) -> None:
        """Send all, and wait for the answers, ``wait_s`` after the last was due.

        Raises:
            OSError: the controller cannot be reached.
            LostConnectionError: it closed a connection.
        """
        loop = asyncio.get_running_loop()
        self._done = loop.create_future()
        try:
            for _ in range(self._connections):
                _, wire = await loop.create_connection(lambda: _Wire(self), HOST, port)
                self._wires.append(wire)
            self._idle = [*self._wires]
            self.begin_ns = time.monotonic_ns()
            self.on_begin()
            self._open = self._count
            offering = asyncio.ensure_future(self._offer_all())
            end_s = self._after_ns(self._count) / 1e9 + wait_s
            done, _ = await asyncio.wait([self._done], timeout=end_s)
            offering.cancel()
            if done:
                self._done.result()
        finally:
            wires, self._wires = self._wires, []
            for wire in wires:
                wire.close()
        for number in range(self._count):
            if not self.answered_ns[number]:
                self._errors[number] = UNANSWERED

    @property
    def errors(self) -> array[int]:
        """Error code of each request; to be asked for when the load is over.

        Answers to creations are long, and reading them would take time that the servers of the
        machine need; nothing of the load depends on them.

        Raises:
            LostConnectionError: an answer cannot be read.
        """
        unread, self._unread = self._unread, []
        for number, frame in unread:
            self._errors[number] = self._read(number, frame)
        return self._errors

    def intended_ns(self, number: int) -> int:
        """When a request was due."""
        if not self._gap_ns:
            return self.sent_ns[number]
        return self.begin_ns + self._after_ns(number)

    def _after_ns(self, number: int) -> int:
        return int(number * self._gap_ns) if self._due_ns is None else self._due_ns[number]

    def rows(self) -> list[RequestRow]:
        """Rows of the trace, of the requests that were answered."""
        return [
            RequestRow(
                request_id=number + 1,
                api=self._load.api,
                api_version=self._load.version,
                client_id=self._client_id,
                correlation_id=number,
                answered_ns=self.answered_ns[number],
                error_code=self.errors[number],
                intended_ns=self.intended_ns(number),
                sent_ns=self.sent_ns[number] or self.answered_ns[number],
            )
            for number in range(self._count)
            if self.answered_ns[number]
        ]

    async def _offer_all(self) -> None:
        number = 0
        while number < self._count:
            now_ns = time.monotonic_ns()
            due_ns = self.begin_ns + self._after_ns(number)
            if due_ns > now_ns:
                await asyncio.sleep((due_ns - now_ns) / 1e9)
                continue
            self._offer(number, now_ns - due_ns)
            number += 1
            if number % 64 == 0:
                await asyncio.sleep(0)  # answers are read meanwhile

    def _offer(self, number: int, late_ns: int) -> None:
        key = self._load.key(number)
        if key is not None:
            line = self._parked.get(key)
            if line is not None:
                line.append(number)
                return
            self._parked[key] = deque()
        if self._idle and not self._ready and self._gap_ns:
            self.late_ns.append(late_ns)
        self._ready.append(number)
        self._send()

    def _send(self) -> None:
        while self._idle and self._ready:
            number = self._ready.popleft()
            frame = self._load.frame(number)
            if frame is None:
                self._errors[number] = UNANSWERED
                self._over(number)
                continue
            data = bytearray(frame)
            data[_CORRELATION] = number.to_bytes(4, "big")
            self.sent_ns[number] = time.monotonic_ns()
            self._idle.pop().send(number, bytes(data))

    def take(self, wire: _Wire, frame: bytes) -> None:
        """An answer came."""
        number = wire.number
        wire.number = -1
        self._idle.append(wire)
        if number < 0 or int.from_bytes(frame[:4], "big") != number:
            self._end(LostConnectionError(f"an answer to {number} was not one: {frame[:8]!r}"))
            return
        self.answered_ns[number] = self.last_ns = time.monotonic_ns()
        if self._load.key(number) is None:
            self._unread.append((number, frame))
            self._over(number)
        else:
            try:
                self._errors[number] = self._read(number, frame)
            except LostConnectionError as error:
                self._end(error)
                return
            self._over(number)
        self._send()

    def _read(self, number: int, frame: bytes) -> int:
        try:
            return self._load.answered(number, frame)
        except (DecodeError, IndexError) as error:
            raise LostConnectionError(f"an answer cannot be read: {error}") from error

    def lost(self, wire: _Wire, error: Exception | None) -> None:
        """A connection has ended; that is an error unless the load is over."""
        if wire in self._wires:
            self._end(LostConnectionError(f"the controller closed a connection ({error})"))

    def _over(self, number: int) -> None:
        key = self._load.key(number)
        if key is not None:
            line = self._parked[key]
            if line:
                self._ready.append(line.popleft())
            else:
                del self._parked[key]
        self._open -= 1
        if not self._open:
            self._end(None)

    def _end(self, error: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            if error is None:
                self._done.set_result(None)
            else:
                self._done.set_exception(error)
