"""Accepted connections with TLS: handshakes bounded in number and time, then bytes.

TLS is done here on bytes in memory, as uvloop begins to read before ``start_tls`` can take over. A
connection becomes one of the machine's when its handshake is complete; with more than
``HANDSHAKES_MAX`` under way the oldest is given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

from emulator.io.tcp import TcpConnection, no_delay
from emulator.io.tls import explain
from emulator.net.distinguished_name import subject_of
from emulator.seam import Event

HANDSHAKES_MAX: Final = 256
"""They are not counted as connections; so many descriptors are in the reserve of a process."""
HANDSHAKE_S: Final = 10.0
_READ_BYTES: Final = 256 * 1024

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

    def begin(self, peer: TlsConnection) -> None:
        """A connection was accepted; give up the oldest handshake if there are too many."""
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
        for peer in [*self._under_way]:
            peer.give_up("TLS: the listener is closed")
