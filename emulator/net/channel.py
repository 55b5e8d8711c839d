"""An outbound channel: requests to one peer, with reconnects.

Pure. The owner puts requests, passes in the connection's events and the time, takes the outcomes,
and performs the effects::

    channel.put(request, ticket)
    for outcome in channel.handle(event, now_ms): ...
    perform(channel.effects(now_ms))        # after every put, handle and tick

Requests are sent in the order they were put, at most ``in_flight_max`` at once. A request whose
connection ends before its answer is reported as :class:`Unanswered` and not sent again: it is
unknown whether the peer acted on it, and only the owner knows whether it may be repeated. Requests
that are not sent yet wait for the next connection, if there is one.

Source: NetworkClient, InterBrokerSendThread, ClusterConnectionStates, Kafka 3.9.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeVar

from emulator.net.greeting import (
    Exchange,
    Greeting,
    GreetingError,
    NoCommonVersionError,
    common,
    declared,
)
from emulator.net.login import LoginError
from emulator.seam import (
    Close,
    Closed,
    Connect,
    Connected,
    Effect,
    Event,
    Received,
    Send,
    Slices,
    state_after,
)
from wire.errors import DecodeError
from wire.frame import (
    SLICED_BYTES,
    FrameReader,
    RequestHeader,
    decode_response,
    decoding_response,
    framed_request,
    split_response,
)
from wire.releases import Ranges

# Outcomes of outbound connections and of their requests.

T = TypeVar("T")


class EndedBy(Enum):
    """Why a connection, or the wait for an answer, ended."""

    PEER = "peer"
    """The peer closed the connection, or did not accept it."""
    TIME = "time"
    """A deadline passed."""
    NONSENSE = "invalid"
    """The peer sent an invalid answer."""
    REFUSAL = "refusal"
    """The peer refused ApiVersions or the login."""
    VERSIONS = "versions"
    """The peer offers no version that can carry the request; the connection stays."""
    OWNER = "owner"


@dataclass(frozen=True, slots=True)
class Opened:
    """The greeting is complete; requests are sent from now on."""


@dataclass(frozen=True, slots=True)
class Answered(Generic[T]):
    """``message`` answers the request that was put with ``ticket``."""

    ticket: T
    correlation_id: int
    message: Any


@dataclass(frozen=True, slots=True)
class Unanswered(Generic[T]):
    """No answer will come. ``correlation_id`` is None when the request was never sent."""

    ticket: T
    correlation_id: int | None
    by: EndedBy


@dataclass(frozen=True, slots=True)
class Broken:
    """The connection ended or failed; reported after every Unanswered of it.

    ``error`` is the LoginError, GreetingError or DecodeError behind it, if it was one.
    """

    by: EndedBy
    why: str
    error: Exception | None = None
    connected: bool = False
    """Whether there was a connection; else none could be made."""


Turn: TypeAlias = Opened | Answered[T] | Unanswered[T] | Broken


ANSWER_BYTES_MAX: Final = 100 * 1024 * 1024


class ChannelState(Enum):
    """State of a channel."""

    IDLE = "idle"
    """There was no request to the peer yet."""
    DIALLING = "dialling"
    GREETING = "greeting"
    """Connected; ApiVersions or the login is in progress."""
    READY = "ready"
    WAITING = "waiting"
    """The connection was lost; the next one is made after a pause."""
    OVER = "over"
    """Closed by its owner, or lost without reconnecting."""


class ChannelEvent(Enum):
    """Why a channel changes its state."""

    DIALLED = "dialled"
    """The owner or its first request asked for a connection, or the pause is over."""
    CONNECTED = "connected"
    """The peer accepted the connection; ApiVersions or the login comes first."""
    GREETED = "greeted"
    """ApiVersions and the login are complete, or the connection begins without them."""
    DISCONNECTED = "disconnected"
    """The connection was lost, or not made; there will be another."""
    LAST_DISCONNECTED = "last disconnected"
    """The connection was lost, or not made, and the channel makes only one."""
    CLOSED = "closed"
    """The owner closed the channel."""


_S, _E = ChannelState, ChannelEvent
NEXT: Final[Mapping[tuple[ChannelState, ChannelEvent], ChannelState]] = MappingProxyType(
    {
        (_S.IDLE, _E.DIALLED): _S.DIALLING,
        (_S.IDLE, _E.CLOSED): _S.OVER,
        (_S.DIALLING, _E.CONNECTED): _S.GREETING,
        (_S.DIALLING, _E.GREETED): _S.READY,
        (_S.DIALLING, _E.DISCONNECTED): _S.WAITING,
        (_S.DIALLING, _E.LAST_DISCONNECTED): _S.OVER,
        (_S.DIALLING, _E.CLOSED): _S.OVER,
        (_S.GREETING, _E.GREETED): _S.READY,
        (_S.GREETING, _E.DISCONNECTED): _S.WAITING,
        (_S.GREETING, _E.LAST_DISCONNECTED): _S.OVER,
        (_S.GREETING, _E.CLOSED): _S.OVER,
        (_S.READY, _E.DISCONNECTED): _S.WAITING,
        (_S.READY, _E.LAST_DISCONNECTED): _S.OVER,
        (_S.READY, _E.CLOSED): _S.OVER,
        (_S.WAITING, _E.DIALLED): _S.DIALLING,
        (_S.WAITING, _E.CLOSED): _S.OVER,
    }
)
"""State and event -> the state after it. An event in any other state is a bug."""


@dataclass(frozen=True, slots=True)
class ChannelConfig:
    """Configuration of a channel. Times are in milliseconds; ``tls`` is as of ``Connect``."""

    client_id: str
    connect_ms: int
    """Timeout of connecting, and then of each exchange before the first request."""
    reply_ms: int
    retry_ms: int | None
    """Pause between two connections; None: there is only one."""
    in_flight_max: int | None = 1
    greeting: Greeting | None = None
    """None: requests are sent at once, in versions that the owner chooses."""
    tls: str = ""
    sliced: bool = False
    """Whether a long answer is read in slices, one in each :meth:`OutboundChannel.tick`; then no
    second request is in flight."""


@dataclass(slots=True)
class _Asked(Generic[T]):
    request: Any
    ticket: T
    version: int | None
    correlation_id: int | None = None
    deadline_ms: int = 0


class OutboundChannel(Generic[T]):
    """See the module's docstring.

    Args:
        address: host and port of the peer.
        config: see there.
        new_conn: allocates an id that no connection of the process has had.
        correlation_ids: of the requests; may be shared by several channels.
    """

    def __init__(
        self,
        address: tuple[str, int],
        config: ChannelConfig,
        new_conn: Callable[[], int],
        correlation_ids: Iterator[int],
    ) -> None:
        self.address = address
        self.conn: int | None = None
        """The connection whose events belong to this channel."""
        self.state = ChannelState.IDLE
        self._config = config
        self._new_conn = new_conn
        self._correlation_ids = correlation_ids
        self._frames = FrameReader(ANSWER_BYTES_MAX)
        self._queue: deque[_Asked[T]] = deque()
        self._in_flight: deque[_Asked[T]] = deque()
        self._unspoken: deque[_Asked[T]] = deque()
        """Requests without a common version; reported at the next tick, which is due at once."""
        self._story: Exchange | None = None
        """The greeting: a generator of requests that takes the answers."""
        self._greeted = (-1, -1, -1)
        """API key, version and correlation id of the greeting's request."""
        self._until_ms: int | None = None
        """Deadline of connecting, of an exchange of the greeting, or the end of a pause."""
        self._versions: Ranges | None = None
        self._reading: Slices[Any] | None = None
        """Of a long answer to the request in flight."""
        self._effects: list[Effect] = []
        self.sent = 0
        """Requests sent so far, without those of the greeting."""

    @property
    def outstanding(self) -> int:
        """Number of requests without an outcome."""
        return len(self._queue) + len(self._in_flight) + len(self._unspoken)

    @property
    def waiting(self) -> list[T]:
        """The tickets of the requests that were put and not sent."""
        return [asked.ticket for asked in self._queue]

    @property
    def next(self) -> T | None:
        """The ticket of the request that is sent at once; None: none waits, or it has to wait."""
        free = self.state is ChannelState.READY and not self._in_flight
        return self._queue[0].ticket if free and self._queue else None

    @property
    def waiting_for_answer(self) -> bool:
        """Whether the peer may still act on a request that was sent."""
        return bool(self._in_flight)

    @property
    def offered(self) -> Ranges | None:
        """API key -> versions, as the peer offered them on this connection; None if not asked."""
        return self._versions

    @property
    def deadline_ms(self) -> int | None:
        """When :meth:`tick` wants to be called."""
        if self._unspoken or self._reading is not None:
            return 0
        if self.state is ChannelState.READY:
            pause_ms = self._until_ms if self._queue else None
            return self._in_flight[0].deadline_ms if self._in_flight else pause_ms
        return self._until_ms

    def version_of(self, request: type, lowest: int = 0) -> int:
        """The newest version of a request that both sides support, from the peer's ApiVersions.

        Raises:
            NoCommonVersionError: there is none from ``lowest`` on.
        """
        return common(self._versions, request, lowest)

    def put(
        self, request: Any, ticket: T, version: int | None = None, *, first: bool = False
    ) -> None:
        """Queue a request; its outcome is reported with the ticket.

        Args:
            request: a request message; must not be changed until its outcome is reported.
            ticket: any object of the owner.
            version: to send it in; None: the newest that both speak.
            first: put it before all requests that are not sent yet.
        """
        assert self.state is not ChannelState.OVER, "a closed channel is asked"
        add = self._queue.appendleft if first else self._queue.append
        add(_Asked(request, ticket, version))

    def pause(self, until_ms: int) -> None:
        """Send nothing more on this connection before a time; nothing happens if it is lost."""
        if self.state is ChannelState.READY:
            self._until_ms = until_ms

    def withdraw(self) -> list[T]:
        """Drop the requests that were put and not sent; returns their tickets."""
        dropped = [*(asked.ticket for asked in self._unspoken), *self.waiting]
        self._unspoken.clear()
        self._queue.clear()
        return dropped

    def dial(self, now_ms: int | None = None) -> None:
        """Connect before there is a request; without a time, the timeout starts at the next call.

        Otherwise the first request does.
        """
        self._enter(ChannelEvent.DIALLED)
        self.conn = self._new_conn()
        self._frames = FrameReader(ANSWER_BYTES_MAX)
        self._until_ms = None if now_ms is None else now_ms + self._config.connect_ms
        self._effects.append(Connect(self.conn, *self.address, self._config.tls))

    def close(self) -> list[Unanswered[T]]:
        """Close the channel; returns the requests that get no answer."""
        if self.state is ChannelState.OVER:
            return []
        every = (self._in_flight, self._unspoken, self._queue)
        lost = [one for each in every for one in self._unanswered(each, EndedBy.OWNER)]
        self._disconnect(close=True)
        self._enter(ChannelEvent.CLOSED)
        self._until_ms = None
        return lost

    def handle(self, event: Event, now_ms: int) -> list[Turn[T]]:
        """Take an event; events of other connections than :attr:`conn` are ignored."""
        match event:
            case Connected(conn) if conn == self.conn:
                return self._connected(now_ms)
            case Received(conn, data) if conn == self.conn:
                return self._received(data, now_ms)
            case Closed(conn, why) if conn == self.conn:
                return self._broken(EndedBy.PEER, why, now_ms, close=False)
            case _:
                return []

    def tick(self, now_ms: int) -> list[Turn[T]]:
        """Connect again after the pause; give up on connections and answers that are too late."""
        if self.state is ChannelState.DIALLING and self._until_ms is None:
            self._until_ms = now_ms + self._config.connect_ms
        if self._unspoken:
            return [*self._unanswered(self._unspoken, EndedBy.VERSIONS)]
        if self._reading is not None:
            return self._read_on(now_ms)
        deadline_ms = self.deadline_ms
        if deadline_ms is None or deadline_ms > now_ms:
            return []
        if self.state is ChannelState.WAITING:
            self.dial(now_ms)
            return []
        if self.state is ChannelState.READY and not self._in_flight:
            self._until_ms = None  # a pause is over
            return []
        what = "connection" if self.state is ChannelState.DIALLING else "reply"
        return self._broken(EndedBy.TIME, f"no {what} in time", now_ms)

    def effects(self, now_ms: int | None) -> list[Effect]:
        """Send the requests that may be sent now, and return all effects since the last call.

        Args:
            now_ms: None: nothing is sent, and no limit begins.

        Raises:
            EncodeError: a request cannot be written in its version; it is dropped.
        """
        if now_ms is not None:
            if self.state is ChannelState.IDLE and self._queue:
                self.dial(now_ms)
            if self.state is ChannelState.DIALLING and self._until_ms is None:
                self._until_ms = now_ms + self._config.connect_ms
            while self.state is ChannelState.READY and self._queue and self._may_send(now_ms):
                self._send(self._queue.popleft(), now_ms)
        effects, self._effects = self._effects, []
        return effects

    def _may_send(self, now_ms: int) -> bool:
        if now_ms < (self._until_ms or 0):
            return False
        self._until_ms = None
        most = self._config.in_flight_max
        return most is None or len(self._in_flight) < most

    def _send(self, asked: _Asked[T], now_ms: int) -> None:
        if asked.version is None:
            try:
                asked.version = self.version_of(type(asked.request))
            except NoCommonVersionError:
                self._unspoken.append(asked)
                return
        asked.correlation_id = self._transmit(asked.request, asked.version)
        self.sent += 1
        asked.deadline_ms = now_ms + self._config.reply_ms
        self._in_flight.append(asked)

    def _transmit(self, request: Any, version: int) -> int:
        assert self.conn is not None
        _, key = declared(type(request))
        header = RequestHeader(
            api_key=key,
            api_version=version,
            correlation_id=next(self._correlation_ids),
            client_id=self._config.client_id,
        )
        self._effects += [Send(self.conn, one) for one in framed_request(header, request)]
        return header.correlation_id

    def _connected(self, now_ms: int) -> list[Turn[T]]:
        if self._config.greeting is None:
            return self._ready()
        self._enter(ChannelEvent.CONNECTED)
        self._story = self._config.greeting.exchange()
        return self._go_on(None, now_ms)

    def _ready(self) -> list[Turn[T]]:
        self._enter(ChannelEvent.GREETED)
        self._story = self._until_ms = None
        return [Opened()]

    def _received(self, data: bytes, now_ms: int) -> list[Turn[T]]:
        turns: list[Turn[T]] = []
        try:
            for frame in self._frames.feed(data):
                turns += self._frame(frame, now_ms)
                if self.conn is None:
                    return turns
        except DecodeError as error:
            turns += self._broken(EndedBy.NONSENSE, str(error), now_ms, error=error)
        return turns

    def _frame(self, frame: bytes, now_ms: int) -> list[Turn[T]]:
        if self.state is ChannelState.GREETING:
            return self._go_on(_answer(*self._greeted, frame), now_ms)
        if not self._in_flight or self._reading is not None:
            raise DecodeError("reply", -1, "", 0, "a reply without a request")
        asked = self._in_flight[0]
        _, key = declared(type(asked.request))
        version, correlation_id = asked.version, asked.correlation_id
        assert version is not None, "chosen when it was sent"
        assert correlation_id is not None, "given when it was sent"
        if self._config.sliced and len(frame) >= SLICED_BYTES:
            self._reading = _long_answer(key, version, correlation_id, frame)
            return self._read_on(now_ms)
        return self._answered(_answer(key, version, correlation_id, frame))

    def _read_on(self, now_ms: int) -> list[Turn[T]]:
        """Read the next slice of a long answer; until its end the request is unanswered."""
        assert self._reading is not None
        try:
            next(self._reading)
        except StopIteration as end:
            self._reading = None
            return self._answered(end.value)
        except DecodeError as error:
            return self._broken(EndedBy.NONSENSE, str(error), now_ms, error=error)
        return []

    def _answered(self, message: Any) -> list[Turn[T]]:
        asked = self._in_flight.popleft()
        assert asked.correlation_id is not None, "given when it was sent"
        return [Answered(asked.ticket, asked.correlation_id, message)]

    def _go_on(self, answer: Any, now_ms: int) -> list[Turn[T]]:
        assert self._story is not None
        try:
            request, version = self._story.send(answer)
        except StopIteration as end:
            self._versions = end.value
            return self._ready()
        except (GreetingError, LoginError, NoCommonVersionError) as error:
            return self._broken(EndedBy.REFUSAL, str(error), now_ms, error=error)
        _, key = declared(type(request))
        self._greeted = (key, version, self._transmit(request, version))
        self._until_ms = now_ms + self._config.connect_ms
        return []

    def _broken(
        self,
        by: EndedBy,
        why: str,
        now_ms: int,
        *,
        close: bool = True,
        error: Exception | None = None,
    ) -> list[Turn[T]]:
        turns: list[Turn[T]] = [*self._unanswered(self._in_flight, by)]
        connected = self.state is not ChannelState.DIALLING
        self._disconnect(close=close)
        if self._config.retry_ms is None:
            self._enter(ChannelEvent.LAST_DISCONNECTED)
            self._until_ms = None
            turns += self._unanswered(self._queue, by)
        else:
            self._enter(ChannelEvent.DISCONNECTED)
            self._until_ms = now_ms + self._config.retry_ms
        turns.append(Broken(by, why, error, connected))
        return turns

    def _disconnect(self, *, close: bool) -> None:
        if self.conn is not None and close:
            self._effects.append(Close(self.conn))
        self.conn = None
        self._story = self._versions = self._reading = None

    def _unanswered(self, asked: deque[_Asked[T]], by: EndedBy) -> list[Unanswered[T]]:
        lost = [Unanswered(each.ticket, each.correlation_id, by) for each in asked]
        asked.clear()
        return lost

    def _enter(self, event: ChannelEvent) -> None:
        self.state = state_after(NEXT, self.state, event, self.address)


def _answer(key: int, version: int, correlation_id: int, frame: bytes) -> Any:
    """The message of a frame that answers one request.

    Raises:
        DecodeError: it is no such answer.
    """
    found, message = decode_response(key, version, frame)
    _check(version, found, correlation_id)
    return message


def _long_answer(key: int, version: int, correlation_id: int, frame: bytes) -> Slices[Any]:
    """The same, in slices."""
    head, _ = split_response(key, version, frame)
    _check(version, head.correlation_id, correlation_id)
    return (yield from decoding_response(key, version, frame))


def _check(version: int, found: int, correlation_id: int) -> None:
    if found != correlation_id:
        why = f"an answer to request {found} instead of {correlation_id}"
        raise DecodeError("response", version, "correlation_id", 0, why)
