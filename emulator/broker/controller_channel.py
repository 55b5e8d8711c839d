"""A broker's channel to whoever is the controller, for one purpose.

Pure. Requests are sent one at a time, in the order they were put. A connection that ends, and an
answer with NOT_CONTROLLER anywhere in it, mean that the controller may have moved: it is
looked up again, and the request is sent again before the others. Requests on these channels may be
repeated: the controller compares epochs, or the caller accepts it. Each channel is a connection of
its own, made when there is a first request.

Source: NodeToControllerChannelManager, NodeToControllerRequestThread, Kafka 3.9.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final, Generic, TypeAlias, TypeVar

from emulator.net.channel import (
    Answered,
    Broken,
    ChannelConfig,
    ChannelState,
    EndedBy,
    OutboundChannel,
    Turn,
    Unanswered,
)
from emulator.net.greeting import NoCommonVersionError, common, declared
from emulator.net.login import LoginError
from emulator.net.reply import says
from emulator.seam import Effect, Event, earliest
from wire.errors import EncodeError, ErrorCode
from wire.releases import Ranges

LOOK_AGAIN_MS: Final = 100
"""Pause while no controller is known."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ControllerNode:
    """The controller, as a broker knows it now.

    ``config``: of the connection; its ``retry_ms`` is the pause before the next one. ``kraft``:
    whether it is a KRaft controller; a channel drops its connection when this changes.
    """

    host: str
    port: int
    config: ChannelConfig
    kraft: bool = True


@dataclass(slots=True, eq=False)
class _Queued(Generic[T]):
    request: Any
    ticket: T
    put_ms: int
    version: int | None
    version_max: int | None


Outcome: TypeAlias = Answered[T] | Unanswered[T]


class ControllerChannel(Generic[T]):
    """See the module's docstring.

    Args:
        find: the controller as known now, or None.
        spoken: API key -> lowest and highest version that this broker's release can send.
        new_conn: allocates connection ids.
        give_up_ms: how long a request may wait to be sent again; None: for ever.
    """

    def __init__(
        self,
        find: Callable[[], ControllerNode | None],
        spoken: Ranges,
        new_conn: Callable[[], int],
        give_up_ms: int | None = None,
    ) -> None:
        self.versions: Ranges | None = None
        """What the controller offered on the last connection; None before the first."""
        self._find = find
        self._spoken = spoken
        self._new_conn = new_conn
        self._give_up_ms = give_up_ms
        self._correlation_ids = count(1)
        self._queue: deque[_Queued[T]] = deque()
        self._sent: _Queued[T] | None = None
        self._unspoken: _Queued[T] | None = None
        """A request that the common version could not carry; reported at the next tick."""
        self._node: ControllerNode | None = None
        self._channel: OutboundChannel[None] | None = None
        self._closing: list[Effect] = []
        self._not_before_ms = 0
        """When the next connection may be made, or the controller be looked up."""
        self._over = False

    @property
    def conn(self) -> int | None:
        """The connection whose events belong to this channel."""
        return None if self._channel is None else self._channel.conn

    @property
    def outstanding(self) -> int:
        """Number of requests without an outcome."""
        sent = (self._sent is not None) + (self._unspoken is not None)
        return len(self._queue) + sent

    @property
    def deadline_ms(self) -> int | None:
        """When :meth:`tick` wants to be called."""
        if self._unspoken is not None:
            return 0
        deadlines: list[int | None] = [self._expires_ms]
        if self._channel is not None:
            deadlines.append(self._channel.deadline_ms)
        elif self._queue:
            deadlines.append(self._not_before_ms)
        return earliest(deadlines)

    @property
    def _expires_ms(self) -> int | None:
        # What is sent again is older than all that follows it.
        if self._give_up_ms is None or not self._queue:
            return None
        return self._queue[0].put_ms + self._give_up_ms

    def put(
        self,
        request: Any,
        ticket: T,
        now_ms: int,
        version: int | None = None,
        version_max: int | None = None,
    ) -> None:
        """Queue a request; its outcome is reported with the ticket.

        Args:
            request: a request message; must not be changed until its outcome is reported.
            ticket: any object of the owner.
            now_ms: the time to give up counts from here.
            version: to send it in; None: the newest that both sides speak.
            version_max: newest version that can carry this request; None: any.
        """
        assert not self._over, "a closed channel is asked"
        self._queue.append(_Queued(request, ticket, now_ms, version, version_max))

    def handle(self, event: Event, now_ms: int) -> list[Outcome[T]]:
        """Take an event; events of other connections than :attr:`conn` are ignored."""
        if self._channel is None:
            return []
        return self._turns(self._channel.handle(event, now_ms), now_ms)

    def tick(self, now_ms: int) -> list[Outcome[T]]:
        """Give up requests that wait for too long, connect, and send the next request."""
        outcomes = self._given_up(now_ms)
        if self._unspoken is not None:
            outcomes.append(Unanswered(self._unspoken.ticket, None, EndedBy.VERSIONS))
            self._unspoken = None
        if self._channel is not None:
            outcomes += self._turns(self._channel.tick(now_ms), now_ms)
            self._leave_if_replaced(now_ms)
        if self._queue and self._channel is None and self._not_before_ms <= now_ms:
            self._connect(now_ms)
        return outcomes + self._send_next()

    def effects(self, now_ms: int) -> list[Effect]:
        """All effects since the last call."""
        effects, self._closing = self._closing, []
        if self._channel is not None:
            try:
                effects += self._channel.effects(now_ms)
            except EncodeError:
                # The common version cannot carry the request: the next tick reports this.
                self._unspoken, self._sent = self._sent, None
                effects += self._channel.effects(now_ms)
        return effects

    def close(self) -> list[Outcome[T]]:
        """Close the channel; returns the requests that get no answer."""
        self._over = True
        self._drop()
        if self._unspoken is not None:
            self._queue.appendleft(self._unspoken)
            self._unspoken = None
        lost = [Unanswered(each.ticket, None, EndedBy.OWNER) for each in self._queue]
        self._queue.clear()
        return [*lost]

    # ---------------------------------------------------------------- one request at a time
    def _send_next(self) -> list[Outcome[T]]:
        outcomes: list[Outcome[T]] = []
        channel = self._channel
        while (
            channel is not None
            and channel.state is ChannelState.READY
            and self._queue
            and self._sent is None
        ):
            self.versions = channel.offered
            queued = self._queue.popleft()
            try:
                version = queued.version
                if version is None:
                    version = common(self._usable(queued), type(queued.request))
            except NoCommonVersionError:
                outcomes.append(Unanswered(queued.ticket, None, EndedBy.VERSIONS))
                continue
            self._sent = queued
            channel.put(queued.request, None, version)
        return outcomes

    def _usable(self, queued: _Queued[T]) -> Ranges:
        _, key = declared(type(queued.request))
        low, high = self._spoken.get(key, (0, -1))
        if self.versions is not None:
            offered_low, offered_high = self.versions.get(key, (0, -1))
            low, high = max(low, offered_low), min(high, offered_high)
        if queued.version_max is not None:
            high = min(high, queued.version_max)
        return {key: (low, high)}

    def _turns(self, turns: list[Turn[None]], now_ms: int) -> list[Outcome[T]]:
        outcomes: list[Outcome[T]] = []
        for turn in turns:
            match turn:
                case Answered(message=message) if says(message, ErrorCode.NOT_CONTROLLER):
                    self._ended(now_ms)
                case Answered(correlation_id=correlation_id, message=message):
                    assert self._sent is not None
                    outcomes.append(Answered(self._sent.ticket, correlation_id, message))
                    self._sent = None
                case Broken(error=LoginError()):
                    self._ended(now_ms)
                    if self._queue:
                        refused = self._queue.popleft()
                        outcomes.append(Unanswered(refused.ticket, None, EndedBy.REFUSAL))
                case Broken():
                    self._ended(now_ms)
                case _:
                    """The connection is open, or its end is reported next."""
        return outcomes

    def _given_up(self, now_ms: int) -> list[Outcome[T]]:
        late: list[Outcome[T]] = []
        while (expires_ms := self._expires_ms) is not None and expires_ms <= now_ms:
            late.append(Unanswered(self._queue.popleft().ticket, None, EndedBy.TIME))
        return late

    # ---------------------------------------------------------------- the controller
    def _connect(self, now_ms: int) -> None:
        node = self._find()
        if node is None:
            self._not_before_ms = now_ms + LOOK_AGAIN_MS
            return
        self._node = node
        once = replace(node.config, retry_ms=None, in_flight_max=1)
        address = (node.host, node.port)
        self._channel = OutboundChannel(address, once, self._new_conn, self._correlation_ids)
        self._channel.dial(now_ms)

    def _leave_if_replaced(self, now_ms: int) -> None:
        node = self._find()
        if self._node is not None and node is not None and node.kraft != self._node.kraft:
            self._ended(now_ms)
            self._not_before_ms = now_ms

    def _ended(self, now_ms: int) -> None:
        pause_ms = None if self._node is None else self._node.config.retry_ms
        self._not_before_ms = now_ms + (LOOK_AGAIN_MS if pause_ms is None else pause_ms)
        self._drop()

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._closing += self._channel.effects(None)
        self._channel, self._node = None, None
        if self._sent is not None:
            self._queue.appendleft(self._sent)
            self._sent = None
