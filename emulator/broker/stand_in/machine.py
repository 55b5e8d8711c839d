"""A stand-in for a migrating ZooKeeper-mode broker, as its controller sees it.

It registers, sends heartbeats, follows the metadata log, validates control requests as a real
broker does, and forwards requests of its clients. It stores no records and serves no partitions.
The owner of the machine keeps its znode in ``/brokers/ids``.

The bench's fleet runs it on asyncio: as load, it costs less than a broker that follows the log.

Source: KafkaServer in migration mode, NodeToControllerRequestThread (one connection per purpose),
Kafka 3.9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from emulator.broker.stand_in.lifecycle import BrokerLifecycle
from emulator.broker.stand_in.notices import (
    BrokerNotice,
    ClientAnswered,
    SentNonsense,
    ToldByController,
)
from emulator.broker.stand_in.observer import FollowedLog, MetadataObserver
from emulator.broker.stand_in.settings import BrokerSettings
from emulator.broker.view import View
from emulator.net.accepted import Connections
from emulator.net.channel import OutboundChannel
from emulator.net.control import ControlRequest
from emulator.net.outcomes import Answered, Turn, Unanswered
from emulator.net.reply import API_VERSIONS, Request, encoded
from emulator.net.versions import declared, listed
from emulator.seam import Accepted, Closed, Connected, Effect, Event, Halt, Received
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import FRAME_BYTES_MAX
from wire.releases import broker_ranges
from wire.schema import lookup, spec

SERVED: Final = tuple(
    declared(kind)[1]
    for kind in (
        m.LeaderAndIsrRequest,
        m.StopReplicaRequest,
        m.UpdateMetadataRequest,
        m.ApiVersionsRequest,
    )
)
FAR_AHEAD: Final = 2**62
"""Offset in heartbeats of a broker that follows no log: a controller only unfences brokers that
have reached their registration."""


class BrokerMachine:
    """One life of a broker; a ``Machine`` of the seam.

    After every call that returns effects, :meth:`take_notices` returns what the broker observed.

    Args:
        settings: identity and pace of the broker.
        new_conn: allocates connection ids.
        log: its position in the metadata log; None: it does not follow the log.
    """

    def __init__(
        self, settings: BrokerSettings, new_conn: Callable[[], int], log: FollowedLog | None
    ) -> None:
        self.view = View(settings.broker_id)
        self.observer = None if log is None else MetadataObserver(settings, log, new_conn)
        self.lifecycle = BrokerLifecycle(settings, self._reached, new_conn)
        self._clients: OutboundChannel[Any] = OutboundChannel(
            settings.controller, settings.channel, new_conn, count(1)
        )
        self._ranges = broker_ranges(settings.release, mode="zk")
        served = {key: self._ranges[key] for key in SERVED}
        self._inbound = Connections(served, FRAME_BYTES_MAX, lambda: 0)
        self._notices: list[BrokerNotice] = []

    @property
    def epoch(self) -> int:
        """The broker epoch of its registration; -1 before it has one."""
        return self.lifecycle.epoch

    @property
    def received(self) -> Counter[str]:
        """Received requests by API name; ``nonsense`` counts peers closed for invalid requests."""
        counted: Counter[str] = Counter()
        for key, number in self._inbound.requests_total.items():
            kind = lookup("request", key)
            assert kind is not None, key
            counted[spec(kind).name.removesuffix("Request")] = number
        if self._inbound.refused_total:
            counted["nonsense"] = self._inbound.refused_total
        return counted

    @property
    def deadline_ms(self) -> int | None:
        """When to call :meth:`step` again even if nothing happens."""
        deadlines = [self.lifecycle.deadline_ms, self.lifecycle.channel.deadline_ms]
        deadlines.append(self._clients.deadline_ms)
        if self.observer is not None:
            deadlines += [self.observer.deadline_ms, self.observer.channel.deadline_ms]
        return min((each for each in deadlines if each is not None), default=None)

    def start(self, now_ms: int) -> list[Effect]:
        """Begin to follow the log and to register."""
        if self.observer is not None:
            self.observer.begin(now_ms)
        self.lifecycle.begin(now_ms)
        return self.step([], now_ms)

    def step(self, events: list[Event], now_ms: int) -> list[Effect]:
        """Take events, answer requests, send the requests that are due."""
        effects: list[Effect] = []
        for event in events:
            effects += self._event(event, now_ms)
        if self.observer is not None:
            channel = self.observer.channel
            self._notices += self.observer.take(channel.tick(now_ms), now_ms)
            self.observer.go_on(now_ms)
            effects += channel.effects(now_ms)
        self._notices += self.lifecycle.take(self.lifecycle.channel.tick(now_ms), now_ms)
        self.lifecycle.go_on(now_ms)
        effects += self.lifecycle.channel.effects(now_ms)
        self._client_turns(self._clients.tick(now_ms))
        return effects + self._clients.effects(now_ms)

    def shutdown(self, now_ms: int) -> list[Effect]:
        """Close all connections; nothing more is sent or answered."""
        self._client_turns([*self._clients.close()])
        self.lifecycle.end()
        effects = self._inbound.close_all() + self.lifecycle.channel.effects(now_ms)
        if self.observer is not None:
            self.observer.end()
            effects += self.observer.channel.effects(now_ms)
        return [*effects, *self._clients.effects(now_ms), Halt(0, "the broker was stopped")]

    def ask(self, request: object, ticket: object, version: int | None = None) -> None:
        """Forward a client's request to the controller; the next step sends it."""
        self._clients.put(request, ticket, version)

    def take_notices(self) -> list[BrokerNotice]:
        """Notices since the last call, in order."""
        notices, self._notices = self._notices, []
        return notices

    # ---------------------------------------------------------------- events
    def _event(self, event: Event, now_ms: int) -> list[Effect]:
        match event:
            case Accepted():
                return self._inbound.accepted(event, now_ms)
            case Received(conn, data) if self._inbound.owns(conn):
                return self._received(conn, data, now_ms)
            case Closed(conn) if self._inbound.owns(conn):
                self._inbound.closed(conn)
            case Connected() | Received() | Closed():
                # An event of a connection that has ended is ignored.
                if self.observer is not None:
                    turns = self.observer.channel.handle(event, now_ms)
                    self._notices += self.observer.take(turns, now_ms)
                told = self.lifecycle.channel.handle(event, now_ms)
                self._notices += self.lifecycle.take(told, now_ms)
                self._client_turns(self._clients.handle(event, now_ms))
            case _:
                raise AssertionError(f"a broker has no files: {event!r}")
        return []

    def _client_turns(self, turns: list[Turn[Any]]) -> None:
        for turn in turns:
            match turn:
                case Answered(ticket=ticket, message=message):
                    self._notices.append(ClientAnswered(ticket, message))
                case Unanswered(ticket=ticket):
                    self._notices.append(ClientAnswered(ticket, None))
                case _:
                    """Only answers are reported to clients."""

    def _reached(self) -> int:
        return FAR_AHEAD if self.observer is None else self.observer.reached

    # ---------------------------------------------------------------- requests
    def _received(self, conn: int, data: bytes, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        refused = self._inbound.refused_total
        requests, closing = self._inbound.received(conn, data, now_ms)
        for request in requests:
            newest = self._ranges[API_VERSIONS][1]
            payload = encoded(request.ticket.header, self._answer(request), newest)
            effects += self._inbound.reply(request.ticket, payload, now_ms)
        if self._inbound.refused_total != refused:
            self._notices.append(SentNonsense(f"connection {conn}: {closing[0]}"))
        return effects + closing

    def _answer(self, request: Request) -> object:
        message = request.message
        if isinstance(message, m.ApiVersionsRequest):
            known = request.ticket.header.api_version <= self._ranges[API_VERSIONS][1]
            error = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_VERSION
            return m.ApiVersionsResponse(error_code=error, api_keys=listed(self._ranges))
        assert isinstance(message, ControlRequest), "no other API is served"
        response = self.view.take(message, self.epoch)
        self._notices.append(ToldByController(message, response))
        return response
