"""A client of one broker over raw frames: calls in order, versions negotiated."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, cast

from emulator.net.channel import (
    Answered,
    Broken,
    ChannelConfig,
    EndedBy,
    Opened,
    OutboundChannel,
    Turn,
    Unanswered,
)
from emulator.net.greeting import Greeting, NoCommonVersionError
from emulator.seam import Close, Closed, Connect, Connected, Received, Send
from wire import messages as m

CALL_TIMEOUT_S: Final = 30.0
_GREETING: Final = m.ApiVersionsRequest(
    client_software_name="kraft-bridge-load", client_software_version="1"
)


class Connection(asyncio.Protocol):
    """One TCP connection: the outbound channel on asyncio. Any number of calls at once.

    Args:
        address: host and port.
        client_id: sent in each header.
        correlation_ids: shared by all connections of a client, so that an id names one request.
        limit_s: for a connection, and for each answer.
    """

    def __init__(
        self,
        address: tuple[str, int],
        client_id: str,
        correlation_ids: Iterator[int],
        limit_s: float = CALL_TIMEOUT_S,
    ) -> None:
        limit_ms = int(limit_s * 1_000)
        config = ChannelConfig(
            client_id=client_id,
            connect_ms=limit_ms,
            reply_ms=limit_ms,
            retry_ms=None,
            in_flight_max=None,
            greeting=Greeting(_GREETING),
        )
        self.address = address
        self._name = text_of(address)
        self._loop = asyncio.get_running_loop()
        self._channel: OutboundChannel[asyncio.Future[Any]] = OutboundChannel(
            address, config, itertools.count(1).__next__, correlation_ids
        )
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._dialling: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    async def open(
        cls,
        address: tuple[str, int],
        client_id: str,
        correlation_ids: Iterator[int],
        limit_s: float = CALL_TIMEOUT_S,
    ) -> Connection:
        """Connect and get the broker's API versions.

        Raises:
            OSError: it cannot be reached (``TimeoutError`` after ``limit_s``).
        """
        made = cls(address, client_id, correlation_ids, limit_s)
        made._channel.dial(made._now_ms())
        made._perform()
        try:
            await made._opened
        except BaseException:
            made.close()
            raise
        return made

    @property
    def closed(self) -> bool:
        """Nothing can be sent any more."""
        return self._transport is None or self._transport.is_closing()

    def version_of(self, request: type) -> int:
        """The newest version that both sides speak.

        Raises:
            ConnectionError: there is none.
        """
        try:
            return self._channel.version_of(request)
        except NoCommonVersionError as error:
            raise ConnectionError(f"{self._name} speaks no common version: {error}") from error

    def offers(self, request: type) -> bool:
        """Whether the peer lists this request at all, in whatever version."""
        try:
            self._channel.version_of(request)
        except NoCommonVersionError as error:
            return error.offered_max >= 0
        return True

    async def call(self, request: Any, version: int | None = None) -> tuple[Any, int]:
        """Send a request and wait for its answer.

        Returns:
            The answer, and the correlation id that the request carried.

        Raises:
            ConnectionError: the connection ended first; whether the broker acted is not known.
            TimeoutError: no answer in time; the connection is closed.
        """
        if self.closed:
            raise ConnectionResetError(f"{self._name} is closed")
        if version is None:
            version = self.version_of(type(request))
        answered: asyncio.Future[Any] = self._loop.create_future()
        self._channel.put(request, answered, version)
        self._perform()
        turn = await answered
        return turn.message, turn.correlation_id

    def close(self) -> None:
        """End the connection; calls that wait fail."""
        lost = self._channel.close()
        self._perform()
        self._take([*lost, Broken(EndedBy.OWNER, "closed here")])

    # ---------------------------------------------------------------- asyncio's protocol
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio: keep the transport."""
        # A cast: uvloop's transports are of no class of asyncio.
        self._transport = cast("asyncio.Transport", transport)
        self._event(Connected)

    def data_received(self, data: bytes) -> None:
        """Hand each answer to the call that waits for it."""
        self._event(Received, data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio: fail every call without an answer."""
        self._event(Closed, f"closed the connection: {exc}" if exc else "closed the connection")

    # ---------------------------------------------------------------- around the channel
    def _now_ms(self) -> int:
        return int(self._loop.time() * 1_000)

    def _event(self, kind: Any, *of_it: Any) -> None:
        if self._channel.conn is not None:
            self._take(self._channel.handle(kind(self._channel.conn, *of_it), self._now_ms()))
            self._perform()

    def _tick(self) -> None:
        self._take(self._channel.tick(self._now_ms()))
        self._perform()

    def _take(self, turns: list[Turn[asyncio.Future[Any]]]) -> None:
        for number, turn in enumerate(turns):
            match turn:
                case Opened() if not self._opened.done():
                    self._opened.set_result(None)
                case Answered(ticket=answered) if not answered.done():
                    answered.set_result(turn)
                case Unanswered(ticket=answered) if not answered.done():
                    (end,) = (each for each in turns[number:] if isinstance(each, Broken))
                    _fail(answered, self._error(end))
                case Broken() if not self._opened.done():
                    _fail(self._opened, self._error(turn))

    def _error(self, end: Broken) -> OSError:
        if end.by is EndedBy.TIME:
            return TimeoutError(f"{self._name}: {end.why}")
        if end.by is EndedBy.PEER:
            return ConnectionResetError(f"{self._name} {end.why}")
        return ConnectionError(f"{self._name}: {end.why}")

    def _perform(self) -> None:
        for effect in self._channel.effects(self._now_ms()):
            match effect:
                case Connect(_, host, port):
                    self._dialling = self._loop.create_task(self._dial(host, port))
                case Send(_, data):
                    assert self._transport is not None
                    self._transport.write(data)
                case Close():
                    if self._transport is not None:
                        self._transport.abort()
                    elif self._dialling is not None:
                        self._dialling.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self._channel.deadline_ms
        if deadline_ms is not None:
            self._timer = self._loop.call_later(
                max(1, deadline_ms - self._now_ms()) / 1_000, self._tick
            )

    async def _dial(self, host: str, port: int) -> None:
        try:
            await self._loop.create_connection(lambda: self, host, port)
        except (OSError, UnicodeError, OverflowError) as error:
            # The last one: a port beyond 65535, which a broker may name.
            self._event(Closed, f"cannot be reached: {_reason(error)}")


def _fail(waited_for: asyncio.Future[Any], error: OSError) -> None:
    """Fail a future, and read its error: asyncio prints errors of futures that no caller reads."""
    waited_for.set_exception(error)
    waited_for.exception()


class Pool:
    """Idle connections to the brokers that take administrative requests now.

    A new connection goes to the broker that Metadata names as the controller. In ZooKeeper mode
    that is the controller; with a KRaft controller any broker that is alive, so that connections
    spread over all that forward. Each of them forwards one request at a time.

    Args:
        bootstrap: ``host:port,...`` of brokers.
        client_id: sent in each header.
        correlation_ids: shared by all connections.
        one_broker: ask once, and use that broker as long as it answers.
    """

    def __init__(
        self,
        bootstrap: str,
        client_id: str,
        correlation_ids: Iterator[int],
        *,
        one_broker: bool = False,
    ) -> None:
        self._bootstrap = [address_of(each) for each in bootstrap.split(",")]
        self._client_id = client_id
        self._correlation_ids = correlation_ids
        self._idle: deque[Connection] = deque()
        self._open: set[Connection] = set()
        self._one_broker = one_broker
        self._only: tuple[str, int] | None = None
        self._finding = asyncio.Lock()
        self._next = 0

    async def take(self) -> Connection:
        """The connection that is idle for the longest time, or a new one.

        Raises:
            OSError: no broker can be reached this time.
        """
        while self._idle:
            connection = self._idle.popleft()
            if not connection.closed:
                return connection
            self._open.discard(connection)
        address = await (self._find_one() if self._one_broker else self._find())
        try:
            connection = await self._connect(address)
        except BaseException:
            # Also when the caller's time is over: it may hang, and another one lead meanwhile.
            self._only = None
            raise
        return connection

    def put(self, connection: Connection, *, usable: bool = True) -> None:
        """Give a connection back; after an error that names another controller, not usable."""
        if usable and not connection.closed:
            self._idle.append(connection)
            return
        connection.close()
        self._open.discard(connection)
        self._only = None

    def close(self) -> None:
        """Close every connection."""
        for connection in self._open:
            connection.close()

    async def _connect(self, address: tuple[str, int]) -> Connection:
        connection = await Connection.open(address, self._client_id, self._correlation_ids)
        self._open.add(connection)
        return connection

    async def _find_one(self) -> tuple[str, int]:
        """The broker that all connections go to; one caller asks, and the others wait for it."""
        async with self._finding:
            if self._only is None:
                self._only = await self._find()
            return self._only

    async def _find(self) -> tuple[str, int]:
        """Ask one bootstrap broker, the next one each time, which broker takes changes."""
        address = self._bootstrap[self._next % len(self._bootstrap)]
        self._next += 1
        connection = await self._connect(address)
        try:
            if not connection.offers(m.MetadataRequest):
                raise ConnectionError(
                    f"{text_of(address)} is no broker: it does not offer Metadata; a controller's "
                    "port does not either"
                )
            answer, _ = await connection.call(m.MetadataRequest(topics=[]))
        finally:
            connection.close()
            self._open.discard(connection)
        for broker in answer.brokers:
            if broker.node_id == answer.controller_id:
                return broker.host, broker.port
        raise ConnectionError(f"{text_of(address)} knows no controller yet")


def _reason(error: OSError | UnicodeError | OverflowError) -> str:
    """Why a connection could not be opened; asyncio's text would repeat the address as a pair."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    # Errors of name resolution have negative numbers, and texts of their own.
    return os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)


def text_of(address: tuple[str, int]) -> str:
    """A pair as ``host:port``.

    >>> text_of(("::1", 9092))
    '[::1]:9092'
    """
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def address_of(text: str) -> tuple[str, int]:
    """``host:port`` as a pair; IPv6 hosts in brackets.

    >>> address_of("[::1]:9092")
    ('::1', 9092)
    """
    host, _, port = text.strip().rpartition(":")
    return host.strip("[]"), int(port)
