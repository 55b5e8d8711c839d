"""A broker's connection to its controller: one request at a time, reconnecting for ever.

Source: NodeToControllerRequestThread, Kafka 3.9, which keeps one such channel per purpose.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from emulator.simulation.network import Address, Network, Party
from emulator.simulation.scheduler import MS, Scheduler
from wire.frame import FrameReader, RequestHeader, decode_response, encode_request, framed
from wire.schema import spec

RETRY_US = 50 * MS
TIMEOUT_US = 8_000 * MS
ANSWER_BYTES_MAX = 100 * 1024 * 1024

OnAnswer: TypeAlias = Callable[[object | None], None]
"""Takes the response; None when nobody will ever know what became of the request."""


def api_key(request: object) -> int:
    """API key of a request."""
    key = spec(type(request)).key
    assert key is not None, request
    return key


@dataclass(slots=True)
class _Request:
    message: object
    version: int
    on_answer: OnAnswer


class ControllerChannel:
    """See the module's docstring. The broker hands in the events of ``conn``."""

    def __init__(
        self, owner: Party, address: Address, client_id: str, scheduler: Scheduler, network: Network
    ) -> None:
        self.conn = -1
        self._owner = owner
        self._address = address
        self._client_id = client_id
        self._scheduler = scheduler
        self._network = network
        self._queue: deque[_Request] = deque()
        self._in_flight: _Request | None = None
        self._open = False
        self._over = False
        self._correlation_id = 0
        self._frames = FrameReader(ANSWER_BYTES_MAX)

    def ask(self, message: object, version: int, on_answer: OnAnswer) -> None:
        """Send a request when those before it have been answered."""
        self._queue.append(_Request(message, version, on_answer))
        if self.conn < 0:
            self._connect()
        self._pump()

    def end(self) -> None:
        """The broker dies: what is in flight or waiting is never answered."""
        self._over = True
        lost = [*([self._in_flight] if self._in_flight else []), *self._queue]
        self._in_flight = None
        self._queue.clear()
        for request in lost:
            request.on_answer(None)

    def connected(self) -> None:
        """The connection stands."""
        self._open = True
        self._pump()

    def received(self, data: bytes) -> None:
        """Bytes of the controller."""
        for frame in self._frames.feed(data):
            request, self._in_flight = self._in_flight, None
            assert request is not None, "an answer without a question"
            _, answer = decode_response(api_key(request.message), request.version, frame)
            request.on_answer(answer)
        self._pump()

    def closed(self) -> None:
        """The connection is gone; try again soon."""
        self.conn = -1
        self._open = False
        if self._over:
            return
        self._scheduler.after(RETRY_US, self._connect)
        request, self._in_flight = self._in_flight, None
        if request is not None:
            request.on_answer(None)

    def _connect(self) -> None:
        if self._over or self.conn >= 0:
            return
        self._frames = FrameReader(ANSWER_BYTES_MAX)
        self.conn = self._network.new_conn()
        self._network.connect(self._owner, self.conn, self._address)

    def _pump(self) -> None:
        if not self._open or self._in_flight is not None or not self._queue:
            return
        request = self._in_flight = self._queue.popleft()
        self._correlation_id += 1
        header = RequestHeader(
            api_key=api_key(request.message),
            api_version=request.version,
            correlation_id=self._correlation_id,
            client_id=self._client_id,
        )
        data = framed(encode_request(header, request.message))
        self._network.send(self._owner, self.conn, data)
        self._scheduler.after(TIMEOUT_US, lambda: self._late(request))

    def _late(self, request: _Request) -> None:
        if self._in_flight is request:
            self._network.close(self._owner, self.conn)
            self.closed()
