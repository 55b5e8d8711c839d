"""Connections as ``asyncio.Protocol``s: received bytes become events, each step writes once."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

from emulator.config.tls import TlsSettings
from emulator.io.tls import CUT, context, explain
from emulator.seam import Closed, Event, Received


class TcpConnection(asyncio.Protocol):
    """One TCP connection, accepted or opened by us; knows its id and where events go.

    ``serves``: we answer the peer's requests, and do not read from it while it does not read.
    """

    def __init__(
        self,
        conn: int,
        emit: Callable[[Event], None],
        opened: Callable[[TcpConnection], None],
        gone: Callable[[int], None],
        *,
        serves: bool = False,
    ) -> None:
        self.conn = conn
        self._serves = serves
        self._emit = emit
        self._opened = opened
        self._gone = gone
        self.transport: asyncio.Transport | None = None
        self.principal = ""
        """The principal of the certificate that the peer showed; empty: it showed none."""
        self.closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register with the shell; the shell decides which event announces us."""
        # uvloop's transports do not derive from asyncio.Transport, they only act like one.
        self.transport = cast("asyncio.Transport", transport)
        no_delay(transport)
        if self.closing:
            transport.close()
        else:
            self._opened(self)

    def data_received(self, data: bytes) -> None:
        """Pass the bytes on, split at any position."""
        if not self.closing:
            self._emit(Received(self.conn, data))

    def pause_writing(self) -> None:
        """Stop reading requests while the peer does not read the answers to earlier ones."""
        if self._serves and self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        """Continue reading."""
        if self._serves and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end to the machines, unless they closed it themselves."""
        self._gone(self.conn)
        if not self.closing:
            self._emit(Closed(self.conn, explain(exc) if exc else "closed by peer"))

    def close(self) -> None:
        """Flush and close; no ``Closed`` event follows."""
        self.closing = True
        if self.transport is not None:
            self.transport.close()


def no_delay(transport: asyncio.BaseTransport) -> None:
    """Send what is written at once."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family in {socket.AF_INET, socket.AF_INET6}:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def peer_address(transport: asyncio.BaseTransport) -> bytes:
    """The peer's address as 4 or 16 raw bytes (KIP-590's ClientHostAddress form)."""
    name = transport.get_extra_info("peername")
    host = name[0] if name else "0.0.0.0"  # noqa: S104 - a stand-in for "unknown", nothing is bound
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.inet_pton(family, host.partition("%")[0])


async def connect(
    peer: TcpConnection,
    host: str,
    port: int,
    emit: Callable[[Event], None],
    tls: TlsSettings | None = None,
) -> None:
    """Open a connection; ``connection_made`` announces it, any failure becomes ``Closed``.

    All exceptions count: a host such as ``a..b`` raises UnicodeError, and brokers register their
    hosts.

    With ``tls`` it is announced after the handshake.
    """
    loop = asyncio.get_running_loop()
    try:
        if tls is None:
            await loop.create_connection(lambda: peer, host, port)
        else:
            # Reading stores and decrypting a key takes time.
            made = await loop.run_in_executor(None, context, tls, datetime.now(UTC))
            await loop.create_connection(
                lambda: peer, host, port, ssl=made, server_hostname=host, ssl_handshake_timeout=10
            )
    except Exception as error:  # noqa: BLE001 - an address is of another's making, as is what it raises
        if not peer.closing:
            reset = tls is not None and isinstance(error, ConnectionResetError)
            emit(Closed(peer.conn, CUT if reset else explain(error) or type(error).__name__))
