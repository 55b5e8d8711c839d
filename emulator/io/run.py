"""The shell: passes events to a machine and performs its effects.

All events of one turn of the event loop are one step; all bytes that a step sends to one connection
are one write. File effects are performed in order; syncs run in a thread, and large files are
written in another.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from ipaddress import ip_address

from emulator.config.listeners import tls_profile
from emulator.config.tls import TlsSettings
from emulator.io.clock import Clock
from emulator.io.disk import Disk, failure
from emulator.io.tcp import TcpConnection, TlsConnection, TlsListener, connect, peer_address
from emulator.io.tls import server_context
from emulator.seam import (
    Accepted,
    AppendFile,
    Close,
    Connect,
    Connected,
    DeleteFile,
    DiskFailed,
    Effect,
    Event,
    FileNotWritten,
    FileWritten,
    Halt,
    Log,
    Machine,
    ReplaceFile,
    Row,
    Send,
    Synced,
    SyncFile,
    TruncateFile,
    WriteFile,
)

UNSENT_BYTES_MAX = 64 * 1024 * 1024
"""Above the largest single message: full metadata of 200,000 partitions is about 30 MB."""
JOINED_BYTES_MAX = 64 * 1024
"""More for one connection is not put together before it is sent."""
LINGERING_MAX = 16
"""Connections that were closed with something unsent; over it the oldest is given up. Below the
smallest reserve of descriptors, as no limit on connections counts them any more."""
LINGER_S = 5.0
"""How long such a peer may take to read the rest."""


class Shell:
    """Runs one machine on sockets and files until it halts; ``disk`` None: it has no files."""

    def __init__(
        self,
        machine: Machine,
        disk: Disk | None,
        clock: Clock,
        *,
        log: Callable[[Log], None],
        row: Callable[[object], None],
        tls: Mapping[str, TlsSettings] | None = None,
    ) -> None:
        """``tls``: settings by the names that ``Connect`` has; a listener's by ``tls_profile``."""
        self._machine = machine
        self._disk = disk
        self._clock = clock
        self._log = log
        self._row = row
        self._tls = tls or {}
        self._events: list[Event] = []
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        """When the timer calls, if there is one."""
        self._peers: dict[int, TcpConnection] = {}
        self._lingering: dict[int, TcpConnection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._stopped = False
        self._secured: list[TlsListener] = []
        self._next_conn = 0
        self._halt: asyncio.Future[Halt] | None = None

    def new_conn(self) -> int:
        """A connection id never used before in this process."""
        self._next_conn += 1
        return self._next_conn

    async def listen(
        self, name: str, host: str, port: int, bound: socket.socket | None = None
    ) -> int:
        """Bind a listener and return its port (useful when 0 was asked for).

        Args:
            name: of the listener.
            host: to bind; "" binds every address.
            port: to bind; 0 for any free one.
            bound: a socket that is bound already, used instead of host and port.

        Raises:
            OSError: the address cannot be bound.
        """
        loop = asyncio.get_running_loop()

        def accept(peer: TcpConnection) -> None:
            assert peer.transport is not None, "connection_made sets it"
            if self._stopped:  # it came in the turn in which the listener was closed
                peer.transport.abort()
                return
            self._peers[peer.conn] = peer
            address = peer_address(peer.transport)
            self.emit(Accepted(peer.conn, name, address, peer.principal))

        tls, secured = self._tls.get(tls_profile(name)), None
        if tls is not None:
            secured = TlsListener(server_context(tls), partial(self._no_tls, name))
            self._secured.append(secured)

        def build() -> TcpConnection:
            if secured is not None:
                return TlsConnection(self.new_conn(), self.emit, accept, self._gone, secured)
            return TcpConnection(self.new_conn(), self.emit, accept, self._gone, serves=True)

        if bound is None:
            server = await loop.create_server(build, host or None, port)
        else:
            server = await loop.create_server(build, sock=bound)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def run(self, ready: Callable[[], None] | None = None) -> Halt:
        """Start the machine and serve until it halts.

        Raises:
            Exception: an exception of the machine or of a callback of the event loop.
        """
        loop = asyncio.get_running_loop()
        self._halt = loop.create_future()
        loop.set_exception_handler(self._unhandled)
        try:
            self._perform(self._machine.start(self._clock.now_ms()))
            self._arm()
            if ready is not None:
                ready()
            return await self._halt
        finally:
            await self.stop()

    def request_shutdown(self) -> None:
        """Ask for an orderly stop; a second call stops at once."""
        if self._halt is None or self._halt.done():
            return
        if self._disk is not None:
            self._disk.show_end()
        try:
            self._perform(self._machine.shutdown(self._clock.now_ms()))
            self._arm()
        except Exception as error:  # noqa: BLE001 - as in a turn
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """End :meth:`run` with this error: an invariant is broken, nothing more may be written."""
        if self._halt is not None and not self._halt.done():
            self._halt.set_exception(error)

    def _unhandled(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """A callback raised: a socket error (no descriptor left) is logged, all else is a bug."""
        error = context.get("exception")
        if isinstance(error, OSError) or not isinstance(error, Exception):
            # Not by the loop's own handler: it waits for whoever reads standard error.
            fields: dict[str, object] = {"what": context.get("message"), "why": str(error)}
            self._log(Log("warning", "the event loop reports", fields))
        else:
            self.fail(error)

    def emit(self, event: Event) -> None:
        """Queue an event for the next step of this turn."""
        self._events.append(event)
        self._schedule()

    def wake(self) -> None:
        """Have a step in this turn: the machine was changed otherwise than by an event."""
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        if self._halt is None or self._halt.done():
            return
        events, self._events = self._events, []
        try:
            self._perform(self._machine.step(events, self._clock.now_ms()))
            self._arm()
        except Exception as error:  # noqa: BLE001 - an invariant is broken: stop before anything else is written
            self.fail(error)

    def _arm(self) -> None:
        """Have a timer that calls at the machine's deadline, or earlier: then it is set anew.

        Most deadlines only move on, with each request.
        """
        deadline_ms = self._machine.deadline_ms
        if deadline_ms is None:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay = max(0, deadline_ms - self._clock.now_ms()) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay, self._ring)

    def _ring(self) -> None:
        """The timer called: a step if the deadline has come."""
        self._timer = None
        deadline_ms = self._machine.deadline_ms
        if deadline_ms is not None and deadline_ms <= self._clock.now_ms():
            self._schedule()
        else:
            self._arm()

    def _perform(self, effects: Iterable[Effect]) -> None:
        """Perform effects in order; after a failed file effect nothing more is done or sent."""
        outgoing: dict[int, list[bytes]] = {}
        closing: list[int] = []
        for effect in effects:
            match effect:
                case Send(conn, data):
                    outgoing.setdefault(conn, []).append(data)
                case Row(row):
                    self._row(row)
                case Close(conn):
                    closing.append(conn)
                case Connect():
                    self._connect(effect)
                case Log():
                    self._log(effect)
                case Halt():
                    if self._halt is not None and not self._halt.done():
                        self._halt.set_result(effect)
                case _:
                    try:
                        self._file(effect)
                    except OSError as error:
                        self.emit(DiskFailed(failure(error)))
                        return
        for conn, parts in outgoing.items():
            peer = self._peers.get(conn)
            if peer is not None:
                self._write(peer, parts)
        for conn in closing:
            peer = self._peers.pop(conn, None)
            if peer is not None:
                self._close(peer)

    def _close(self, peer: TcpConnection) -> None:
        """Close; one that has something unsent is kept for a while, and not many are."""
        peer.close()
        if peer.transport is None or not peer.transport.get_write_buffer_size():
            return
        self._lingering[peer.conn] = peer
        asyncio.get_running_loop().call_later(LINGER_S, self._give_up, peer.conn)
        if len(self._lingering) > LINGERING_MAX:
            self._give_up(next(iter(self._lingering)))

    def _give_up(self, conn: int) -> None:
        peer = self._lingering.pop(conn, None)
        if peer is not None and peer.transport is not None:
            peer.transport.abort()

    def _write(self, peer: TcpConnection, parts: list[bytes]) -> None:
        """Send; a peer that does not read its answers is closed, to bound memory."""
        if peer.transport is None:
            return
        if len(parts) == 1:
            peer.transport.write(parts[0])
        elif sum(map(len, parts)) <= JOINED_BYTES_MAX:
            peer.transport.write(b"".join(parts))
        else:
            peer.transport.writelines(parts)
        unsent = peer.transport.get_write_buffer_size()
        if unsent > UNSENT_BYTES_MAX:
            fields: dict[str, object] = {"conn": peer.conn, "unsent_bytes": unsent}
            self._log(Log("warning", "closing a connection whose peer does not read", fields))
            peer.transport.abort()

    def _file(self, effect: Effect) -> None:
        disk = self._disk
        assert disk is not None, f"a machine without files: {effect!r}"
        match effect:
            case AppendFile():
                disk.append(effect)
            case SyncFile():
                disk.sync(effect, self._synced)
            case ReplaceFile():
                disk.replace(effect)
            case WriteFile():
                disk.write(effect, self._written)
            case TruncateFile():
                disk.truncate(effect)
            case DeleteFile():
                disk.delete(effect)
            case _:
                raise TypeError(f"unknown effect {effect!r}")

    def _synced(self, token: int, error: OSError | None) -> None:
        self.emit(Synced(token) if error is None else DiskFailed(failure(error)))

    def _written(self, path: str, error: OSError | None) -> None:
        self.emit(FileWritten(path) if error is None else FileNotWritten(path, str(error)))

    def _connect(self, to: Connect) -> None:
        peer = TcpConnection(
            to.conn, self.emit, lambda peer: self.emit(Connected(peer.conn)), self._gone
        )
        self._peers[to.conn] = peer
        tls = self._tls[to.tls] if to.tls else None
        opening = connect(peer, to.host, to.port, self.emit, tls)
        task = asyncio.get_running_loop().create_task(opening)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _no_tls(self, listener: str, why: str, transport: asyncio.BaseTransport) -> None:
        """A client's handshake failed."""
        address = str(ip_address(peer_address(transport)))
        fields: dict[str, object] = {"listener": listener, "address": address, "why": why}
        self._log(Log("warning", "a TLS handshake failed", fields))

    def _gone(self, conn: int) -> None:
        self._peers.pop(conn, None)
        self._lingering.pop(conn, None)

    async def stop(self) -> None:
        """Close listeners, connections and files; :meth:`run` does it at its end.

        A peer gets what its socket takes at once, as at the end of a process.
        """
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for server in self._servers:
            server.close()
        peers = [*self._peers.values(), *self._lingering.values()]
        for peer in peers:
            peer.close()
        for task in list(self._tasks):
            task.cancel()
        for secured in self._secured:
            secured.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)
        for peer in peers:
            if peer.transport is not None:
                peer.transport.abort()
        if self._disk is not None:
            self._disk.close()
