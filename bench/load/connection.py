"""A client of one broker over raw frames: calls in order, versions negotiated."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from wire import messages as m
from wire.errors import DecodeError
from wire.frame import FrameReader, RequestHeader, decode_response, encode_request, framed
from wire.schema import spec

_API_VERSIONS_VERSION: Final = 3
CALL_TIMEOUT_S: Final = 30.0


class Connection(asyncio.Protocol):
    """One TCP connection. Replies come in the order of the calls, as Kafka answers.

    Args:
        client_id: sent in each header.
        correlation_ids: shared by all connections of a client, so that an id names one request.
    """

    def __init__(self, client_id: str, correlation_ids: Iterator[int]) -> None:
        self._client_id = client_id
        self._correlation_ids = correlation_ids
        self._frames = FrameReader()
        self._waiting: deque[tuple[int, int, int, asyncio.Future[Any]]] = deque()
        self._transport: asyncio.Transport | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self.address = ("", 0)

    @classmethod
    async def open(
        cls, address: tuple[str, int], client_id: str, correlation_ids: Iterator[int]
    ) -> Connection:
        """Connect and learn which versions the broker speaks.

        Raises:
            OSError: it cannot be reached (``TimeoutError`` after half a minute).
        """
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CALL_TIMEOUT_S):
            _, made = await loop.create_connection(
                lambda: cls(client_id, correlation_ids), *address
            )
        made.address = address
        await made.negotiate()
        return made

    async def negotiate(self) -> None:
        """Learn which versions the broker speaks."""
        request = m.ApiVersionsRequest(
            client_software_name="kraft-bridge-load", client_software_version="1"
        )
        answer, _ = await self.call(request, _API_VERSIONS_VERSION)
        self._versions = {
            api.api_key: (api.min_version, api.max_version) for api in answer.api_keys
        }

    @property
    def closed(self) -> bool:
        """Nothing can be sent any more."""
        return self._transport is None or self._transport.is_closing()

    def version_of(self, request: type) -> int:
        """The newest version that both sides speak.

        Raises:
            ConnectionError: there is none.
        """
        declared = spec(request)
        assert declared.key is not None, request
        lowest, highest = self._versions.get(declared.key, (0, -1))
        version = min(highest, declared.max_version)
        if version < max(lowest, declared.min_version):
            raise ConnectionError(f"{self.address} speaks no common version of {declared.name}")
        return version

    async def call(self, request: Any, version: int | None = None) -> tuple[Any, int]:
        """Send a request and wait for its answer.

        Returns:
            The answer, and the correlation id that the request carried.

        Raises:
            ConnectionError: the connection ended first; whether the broker acted is not known.
            TimeoutError: no answer in half a minute; the connection is closed.
        """
        if self.closed:
            raise ConnectionResetError(f"{self.address} is closed")
        assert self._transport is not None
        key = spec(type(request)).key
        assert key is not None, request
        if version is None:
            version = self.version_of(type(request))
        correlation_id = next(self._correlation_ids)
        header = RequestHeader(
            api_key=key,
            api_version=version,
            correlation_id=correlation_id,
            client_id=self._client_id,
        )
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, version, correlation_id, answered))
        self._transport.write(framed(encode_request(header, request)))
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return await answered, correlation_id
        except TimeoutError:
            self._transport.abort()
            raise

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Hand each answer to the call that waits for it."""
        try:
            for frame in self._frames.feed(data):
                key, version, correlation_id, answered = self._waiting.popleft()
                found, message = decode_response(key, version, frame)
                assert found == correlation_id, f"answer {found} to request {correlation_id}"
                if not answered.done():
                    answered.set_result(message)
        except DecodeError as nonsense:
            self._fail(ConnectionError(f"{self.address} sent nonsense: {nonsense}"))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what was not answered."""
        self._fail(ConnectionResetError(f"{self.address} closed the connection: {exc}"))

    def _fail(self, error: Exception) -> None:
        while self._waiting:
            answered = self._waiting.popleft()[-1]
            if not answered.done():
                answered.set_exception(error)


class Pool:
    """Idle connections to whichever broker takes administrative requests now."""

    def __init__(self, bootstrap: str, client_id: str, correlation_ids: Iterator[int]) -> None:
        self._bootstrap = [address_of(each) for each in bootstrap.split(",")]
        self._client_id = client_id
        self._correlation_ids = correlation_ids
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._controller: tuple[str, int] | None = None
        self._next = 0

    async def take(self) -> Connection:
        """An idle connection, or a new one.

        Raises:
            OSError: no broker can be reached this time.
        """
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                return connection
            self._open.discard(connection)
        address = self._controller or await self._find()
        try:
            connection = await self._connect(address)
        except OSError:
            self._controller = None
            raise
        return connection

    def put(self, connection: Connection, *, usable: bool = True) -> None:
        """Give a connection back; after an error that names another controller, not usable."""
        if usable and not connection.closed:
            self._idle.append(connection)
            return
        connection.close()
        self._open.discard(connection)
        self._controller = None

    def close(self) -> None:
        """Close every connection."""
        for connection in self._open:
            connection.close()

    async def _connect(self, address: tuple[str, int]) -> Connection:
        connection = await Connection.open(address, self._client_id, self._correlation_ids)
        self._open.add(connection)
        return connection

    async def _find(self) -> tuple[str, int]:
        """Ask one bootstrap broker, the next one each time, where the controller is.

        In ZooKeeper mode that is the controller; with a KRaft controller, a broker that forwards.
        """
        address = self._bootstrap[self._next % len(self._bootstrap)]
        self._next += 1
        connection = await self._connect(address)
        try:
            answer, _ = await connection.call(m.MetadataRequest(topics=[]))
        finally:
            connection.close()
            self._open.discard(connection)
        for broker in answer.brokers:
            if broker.node_id == answer.controller_id:
                self._controller = (broker.host, broker.port)
                return self._controller
        raise ConnectionError(f"{address} knows no controller yet")


def address_of(text: str) -> tuple[str, int]:
    """``host:port`` as a pair; IPv6 hosts in brackets.

    >>> address_of("[::1]:9092")
    ('::1', 9092)
    """
    host, _, port = text.strip().rpartition(":")
    return host.strip("[]"), int(port)
