"""One stand-in broker: the broker's machine on asyncio, with a listener and a port of its own."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Final

from bench.fleet.znodes import LISTENER
from bench.rig.ports import HOST
from emulator.broker.stand_in.machine import BrokerMachine
from emulator.broker.stand_in.notices import ControllerLost, LifecycleRefused, RegisteredAs
from emulator.broker.stand_in.settings import BrokerListener, BrokerPace, BrokerSettings
from emulator.io.tcp import TcpConnection, connect, peer_address
from emulator.net.greeting import Greeting
from emulator.seam import Accepted, Close, Connect, Connected, Effect, Event, Send
from wire import messages as m
from wire.errors import ErrorCode

METADATA_VERSION: Final = 21
PACE: Final = BrokerPace(
    heartbeat_ms=1_000,
    hasty_ms=200,
    register_ms=200,
    retry_ms=200,
    connect_ms=10_000,
    reply_ms=30_000,
)
_GREETING: Final = Greeting(
    m.ApiVersionsRequest(client_software_name="kraft-bridge-fleet", client_software_version="1")
)


class StandIn:
    """One broker.

    Args:
        broker_id: its id.
        port: of its only listener, INTERNAL.
        release: the release whose ApiVersions it answers, such as ``3.9``.
        controller: where the controller listens, or will.
        cluster_id: base64url.
        say: takes log lines.
    """

    def __init__(
        self,
        broker_id: int,
        port: int,
        release: str,
        *,
        controller: tuple[str, int],
        cluster_id: str,
        say: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self.broker_id = broker_id
        self.port = port
        self._say = say
        self._conns = itertools.count(1)
        settings = BrokerSettings(
            broker_id=broker_id,
            cluster_id=cluster_id,
            incarnation_id=uuid.uuid4().bytes,
            directory=uuid.uuid4().bytes,
            client_id=f"stand-in-{broker_id}",
            controller=controller,
            listener=BrokerListener(LISTENER, HOST, port),
            metadata_versions=(METADATA_VERSION, METADATA_VERSION),
            pace=PACE,
            release=release,
            greeting=_GREETING,
        )
        # The log is not followed: hundreds of observers would dominate the measured load.
        self._machine = BrokerMachine(settings, self._conns.__next__, None)
        self._server: asyncio.Server | None = None
        self._peers: dict[int, TcpConnection] = {}
        self._dialling: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def received(self) -> Counter[str]:
        """Kind of request -> how many came; peers that were cut off as ``nonsense``."""
        return self._machine.received

    async def listen(self) -> asyncio.Server:
        """Open the listener; it is open until ``close``, or until the server returned is closed.

        Raises:
            OSError: its port is taken.
        """

        def build() -> TcpConnection:
            return TcpConnection(
                next(self._conns), self._emit, self._accepted, self._gone, serves=True
            )

        self._server = await asyncio.get_running_loop().create_server(build, HOST, self.port)
        return self._server

    async def close(self) -> None:
        """Close the listener and what is connected to it."""
        self._perform(self._machine.shutdown(_now_ms()))
        for peer in [*self._peers.values()]:
            peer.close()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._dialling:
            task.cancel()
        await asyncio.gather(*self._dialling, return_exceptions=True)
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def attend(self) -> None:
        """Stay registered with the controller until cancelled, across its restarts."""
        self._after(self._machine.start(_now_ms()))
        await asyncio.Event().wait()

    # ---------------------------------------------------------------- around the machine
    def _accepted(self, peer: TcpConnection) -> None:
        assert peer.transport is not None, "connection_made sets it"
        self._peers[peer.conn] = peer
        self._emit(Accepted(peer.conn, LISTENER, peer_address(peer.transport)))

    def _connected(self, peer: TcpConnection) -> None:
        self._emit(Connected(peer.conn))

    def _gone(self, conn: int) -> None:
        self._peers.pop(conn, None)

    def _emit(self, event: Event) -> None:
        self._after(self._machine.step([event], _now_ms()))

    def _tick(self) -> None:
        self._after(self._machine.step([], _now_ms()))

    def _after(self, effects: list[Effect]) -> None:
        self._perform(effects)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self._machine.deadline_ms
        if deadline_ms is not None:
            delay_s = max(0, deadline_ms - _now_ms()) / 1_000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)
        for notice in self._machine.take_notices():
            match notice:
                case RegisteredAs(epoch):
                    self._say(f"broker {self.broker_id}: registered, epoch {epoch}")
                case LifecycleRefused(what, code):
                    error = ErrorCode(code).name
                    self._say(f"broker {self.broker_id}: {what} refused, {error}")
                case ControllerLost(why):
                    self._say(f"broker {self.broker_id}: {why}")
                case _:
                    """What it is told is counted."""

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(conn, data):
                    peer = self._peers.get(conn)
                    if peer is not None and peer.transport is not None:
                        peer.transport.write(data)
                case Close(conn):
                    peer = self._peers.pop(conn, None)
                    if peer is not None:
                        peer.close()
                case Connect():
                    self._connect(effect)
                case _:
                    """A log line or the end: the notices say it."""

    def _connect(self, to: Connect) -> None:
        peer = TcpConnection(
            to.conn, self._emit, lambda made: self._emit(Connected(made.conn)), self._gone
        )
        self._peers[to.conn] = peer
        task = asyncio.get_running_loop().create_task(connect(peer, to.host, to.port, self._emit))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1_000)
