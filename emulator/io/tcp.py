"""Connections as ``asyncio.Protocol``s: received bytes become events, each step writes once."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, cast

from emulator.config.tls import TlsSettings
from emulator.io.tls import CUT, context, explain
from emulator.net.distinguished_name import subject_of
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


# Accepted connections with TLS: handshakes bounded in number and time, then bytes.
#
# TLS is done here on bytes in memory, as uvloop begins to read before ``start_tls`` can take over.
# A connection becomes one of the machine's when its handshake is complete; with more than
# ``HANDSHAKES_MAX`` under way the oldest is given up.

HANDSHAKES_MAX: Final = 256
"""They are not counted as connections; so many descriptors are in the reserve of a process."""
HANDSHAKE_S: Final = 10.0
_READ_BYTES: Final = 256 * 1024
CLOSED: Final = "TLS: the listener is closed"

Refused = Callable[[str, asyncio.BaseTransport], None]
"""Called with the reason why a handshake failed, and its transport."""


class SecuredTransport(asyncio.Transport):
    """Writes to a transport by TLS; everything else is the transport's own."""

    def __init__(
        self, plain: asyncio.Transport, session: ssl.SSLObject, outgoing: ssl.MemoryBIO
    ) -> None:
        super().__init__()
        self._plain = plain
        self._session = session
        self._outgoing = outgoing

    def flush(self) -> None:
        """Send what TLS has to send."""
        data = self._outgoing.read()
        if data and not self._plain.is_closing():
            self._plain.write(data)

    def write(self, data: Any) -> None:
        """Encrypt and send."""
        if data and not self._plain.is_closing():
            self._session.write(data)
            self.flush()

    def close(self) -> None:
        """Send close_notify and what is unsent, and close, without the peer's close_notify."""
        with contextlib.suppress(ssl.SSLError):
            self._session.unwrap()
        self.flush()
        self._plain.close()

    def abort(self) -> None:
        """Close at once."""
        self._plain.abort()

    def is_closing(self) -> bool:
        """Whether it is closed, or will be."""
        return self._plain.is_closing()

    def get_write_buffer_size(self) -> int:
        """Encrypted bytes that are not sent yet."""
        return self._plain.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Read nothing."""
        self._plain.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        self._plain.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See asyncio.Transport: answered by the TCP connection below."""
        return self._plain.get_extra_info(name, default)


class TlsConnection(TcpConnection):
    """One accepted connection; ``transport`` is None until the handshake is complete."""

    def __init__(
        self,
        conn: int,
        emit: Callable[[Event], None],
        opened: Callable[[TcpConnection], None],
        gone: Callable[[int], None],
        listener: TlsListener,
    ) -> None:
        super().__init__(conn, emit, opened, gone, serves=True)
        self._listener = listener
        self._incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = listener.context.wrap_bio(self._incoming, outgoing, server_side=True)
        self._outgoing = outgoing
        self._secured: SecuredTransport | None = None
        self._why = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the handshake."""
        # uvloop's transports do not derive from asyncio.Transport, they only act like one.
        plain = cast("asyncio.Transport", transport)
        no_delay(plain)
        self._secured = SecuredTransport(plain, self._session, self._outgoing)
        self._listener.begin(self)

    def data_received(self, data: bytes) -> None:
        """Decrypt, and pass the bytes on."""
        secured = self._secured
        if secured is None or secured.is_closing():
            return
        self._incoming.write(data)
        try:
            if self.transport is None:
                self._shake(secured)
            if self.transport is not None:
                self._read(secured)
        except Exception as error:  # noqa: BLE001 - nothing a peer sends ends the node
            secured.flush()
            self.give_up(explain(error, "client") or type(error).__name__)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end to the machines, if they know the connection."""
        self._listener.ended(self)
        if self.transport is not None:
            super().connection_lost(ConnectionError(self._why) if self._why else exc)
        elif not self._why and self._secured is not None:
            self._listener.refused("TLS: the client hung up in the handshake", self._secured)

    def give_up(self, why: str) -> None:
        """Close for a reason."""
        self._why = why
        self._listener.ended(self)
        if self._secured is None:
            return
        if self.transport is None:
            self._listener.refused(why, self._secured)
        self._secured.abort()

    def _shake(self, secured: SecuredTransport) -> None:
        try:
            self._session.do_handshake()
        except ssl.SSLWantReadError:
            secured.flush()
            return
        shown = self._session.getpeercert(binary_form=True)
        self.principal = f"User:{subject_of(shown)}" if shown else ""
        secured.flush()
        self._listener.ended(self)
        self.transport = secured
        self._opened(self)

    def _read(self, secured: SecuredTransport) -> None:
        parts: list[bytes] = []
        ended = False
        try:
            while part := self._session.read(_READ_BYTES):
                parts.append(part)
            ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            ended = True
        secured.flush()
        if parts:
            super().data_received(b"".join(parts))
        if ended:
            secured.close()


class TlsListener:
    """The handshakes under way on one listener.

    Args:
        context: of the listener.
        refused: see there.
    """

    def __init__(self, context: ssl.SSLContext, refused: Refused) -> None:
        self.context = context
        self.refused = refused
        self._under_way: dict[TlsConnection, asyncio.TimerHandle] = {}
        self._closed = False

    def begin(self, peer: TlsConnection) -> None:
        """A connection was accepted; give up the oldest handshake if there are too many."""
        if self._closed:  # it came in the turn in which the listener was closed
            peer.give_up(CLOSED)
            return
        if len(self._under_way) >= HANDSHAKES_MAX:
            oldest = next(iter(self._under_way))
            oldest.give_up("TLS: too many handshakes are under way")
        loop = asyncio.get_running_loop()
        text = "TLS: no handshake in time"
        self._under_way[peer] = loop.call_later(HANDSHAKE_S, peer.give_up, text)

    def ended(self, peer: TlsConnection) -> None:
        """A handshake is complete, or given up."""
        timer = self._under_way.pop(peer, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """Give up all handshakes."""
        self._closed = True
        for peer in [*self._under_way]:
            peer.give_up(CLOSED)
