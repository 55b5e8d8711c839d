"""The client side of one simulated connection: a client of a broker, or a broker's peer."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final, TypeAlias

from emulator.net.channel import Answered, ChannelConfig, OutboundChannel, Turn, Unanswered
from emulator.seam import Close, Closed, Connect, Connected, Effect, Event, Received, Send
from emulator.simulation.models.network import Address, Network
from emulator.simulation.models.scheduler import Scheduler

CONNECT_MS: Final = 10_000
RETRY_MS: Final = 50

OnAnswer: TypeAlias = Callable[[object | None], None]
"""Takes the response; None when the outcome of the request stays unknown."""


class Caller:
    """One connection at a time to one address, from its first request until :meth:`end`.

    Args:
        name: of the party.
        address: whom it asks.
        reply_ms: how long it waits for an answer.
        scheduler: the clock.
        network: between both.
    """

    def __init__(
        self, name: str, address: Address, reply_ms: int, scheduler: Scheduler, network: Network
    ) -> None:
        self.name = name
        self._scheduler = scheduler
        self._network = network
        self._turn_ms: int | None = None
        self._over = False
        config = ChannelConfig(name, CONNECT_MS, reply_ms, RETRY_MS)
        self._channel: OutboundChannel[OnAnswer] = OutboundChannel(
            address, config, network.new_conn, count(1)
        )

    @property
    def conn(self) -> int | None:
        """The connection on which it asks."""
        return self._channel.conn

    def ask(self, message: Any, version: int, on_answer: OnAnswer) -> None:
        """Send a request after those that were asked before."""
        if self._over:
            on_answer(None)
            return
        self._channel.put(message, on_answer, version)
        self._after([])

    def end(self) -> None:
        """Its process is dead: it waits for no answer any more."""
        if self._over:
            return
        self._over = True
        self._network.abandon(self)
        for lost in self._channel.close():
            lost.ticket(None)

    # ---------------------------------------------------------------- a network party
    def accepted(self, conn: int) -> None:
        """Never happens: it listens nowhere."""
        raise AssertionError(conn)

    def connected(self, conn: int) -> None:
        """The other side accepted."""
        self._take(Connected(conn))

    def received(self, conn: int, data: bytes) -> None:
        """An answer."""
        self._take(Received(conn, data))

    def closed(self, conn: int, why: str) -> None:
        """The connection is gone."""
        self._take(Closed(conn, why))

    def _take(self, event: Event) -> None:
        if not self._over:
            self._after(self._channel.handle(event, self._scheduler.now_ms))

    # ---------------------------------------------------------------- the shell
    def _after(self, turns: list[Turn[OnAnswer]]) -> None:
        for effect in self._channel.effects(self._scheduler.now_ms):
            self._perform(effect)
        deadline_ms = self._channel.deadline_ms
        if deadline_ms is not None and (self._turn_ms is None or deadline_ms < self._turn_ms):
            self._turn_ms = deadline_ms
            self._scheduler.at_ms(deadline_ms, lambda: self._turn(deadline_ms))
        for turn in turns:
            match turn:
                case Answered(ticket=on_answer, message=message):
                    on_answer(message)
                case Unanswered(ticket=on_answer):
                    on_answer(None)
                case _:
                    """A client acts on answers alone."""

    def _turn(self, at_ms: int) -> None:
        if self._turn_ms == at_ms:
            self._turn_ms = None
            if not self._over:
                self._after(self._channel.tick(self._scheduler.now_ms))

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send(conn, data):
                self._network.send(self, conn, data)
            case Connect(conn, host, port):
                self._network.connect(self, conn, (host, port))
            case Close(conn):
                self._network.close(self, conn)
            case _:
                raise TypeError(f"a caller does not {effect!r}")
