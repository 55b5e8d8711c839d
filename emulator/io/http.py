"""GET /metrics /livez /readyz /status, /faults and what operators ask: a minimal HTTP server.

A web framework would add nine dependencies for these routes. The connection is closed after an
answer; a request whose head is above 8 KiB, or its body above 64 KiB, is refused. Few
connections are open at a time, and none for long, as they take descriptors that the rest of the
process needs. A page that cannot be made is an answer too: what only shows a node never ends it.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

REQUEST_BYTES_MAX = 8 * 1024
BODY_BYTES_MAX = 64 * 1024
OPEN_MAX = 16
"""Connections at a time; one more takes the place of the oldest."""
OPEN_S = 10.0
"""How long one may take, from its begin to the end of its answer."""
_REASONS = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    411: "Length Required",
    413: "Content Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Page(NamedTuple):
    """One answer."""

    status: int
    content_type: str
    body: bytes


class HttpRequest(NamedTuple):
    """One request, whole. Names of headers are in lower case; ``local``: within this machine."""

    method: str
    headers: Mapping[str, str]
    body: bytes
    local: bool


Routes = Mapping[str, Callable[[], Page]]
"""Path -> its page, for GET and HEAD."""
Actions = Mapping[str, Callable[[HttpRequest], Page]]
"""Path -> the answer to any method. An exception of one is none of a page: it may have changed the
node half."""
Failed = Callable[[str, Exception], None]
"""Takes the path of a page that could not be made, and why."""


class HttpConnection(asyncio.Protocol):
    """Answers one request and closes.

    Args:
        routes: path -> page.
        actions: path -> what answers every method.
        others: all that are open, the oldest first.
        failed: see there.
    """

    def __init__(
        self, routes: Routes, actions: Actions, others: dict[HttpConnection, None], failed: Failed
    ) -> None:
        self._failed = failed
        self._routes = routes
        self._actions = actions
        self._others = others
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; the oldest of too many is given up."""
        self._transport = cast("asyncio.Transport", transport)
        self._others[self] = None
        asyncio.get_running_loop().call_later(OPEN_S, self.give_up)
        if len(self._others) > OPEN_MAX:
            next(iter(self._others)).give_up()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Make place."""
        self._others.pop(self, None)

    def give_up(self) -> None:
        """End the connection, whatever is unsent."""
        self._others.pop(self, None)
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Collect up to the end of the request, then answer."""
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        if len(head) > REQUEST_BYTES_MAX:
            self._answer(Page(413, "text/plain", b"request too large\n"), head=False)
        elif end:
            page = self._page(head.decode("latin-1"), body)
            if page is not None:
                self._answer(page, head=head.startswith(b"HEAD "))

    def _page(self, head: str, body: bytes) -> Page | None:
        """The answer; None if more of the body is to come."""
        first, *lines = head.split("\r\n")
        method, _, rest = first.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        action, route = self._actions.get(path), self._routes.get(path)
        if action is not None:
            return self._act(action, method, lines, body)
        if route is None:
            known = " ".join(sorted({*self._routes, *self._actions}))
            return Page(404, "text/plain", f"there are: {known}\n".encode())
        if method not in {"GET", "HEAD"}:
            return Page(405, "text/plain", b"only GET\n")
        try:
            return route()
        except Exception as error:  # noqa: BLE001 - whatever it is, only this answer fails
            self._failed(path, error)
            return Page(500, "text/plain", b"this page cannot be made; the log says why\n")

    def _act(
        self, action: Callable[[HttpRequest], Page], method: str, lines: list[str], body: bytes
    ) -> Page | None:
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers:
            return Page(411, "text/plain", b"only with Content-Length\n")
        if not (length.isascii() and length.isdigit()):
            return Page(400, "text/plain", b"no number in Content-Length\n")
        if len(length) > 9 or int(length) > BODY_BYTES_MAX or len(body) > BODY_BYTES_MAX:
            return Page(413, "text/plain", b"request too large\n")
        if len(body) < int(length):
            return None
        return action(HttpRequest(method, headers, body[: int(length)], self._local()))

    def _local(self) -> bool:
        """Whether both ends are loopback addresses, or have one address.

        A client that connects to an address of its own machine has that address itself. To a forged
        one from elsewhere no answer would arrive.
        """
        assert self._transport is not None, "data came over it"
        ends = [self._transport.get_extra_info(name) for name in ("peername", "sockname")]
        if not all(ends):
            return False
        peer, own = (end[0] for end in ends)
        return bool(peer == own or (_is_loopback(peer) and _is_loopback(own)))

    def _answer(self, page: Page, *, head: bool) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        reason = _REASONS.get(page.status, "Service Unavailable")
        header = (
            f"HTTP/1.1 {page.status} {reason}\r\nContent-Type: {page.content_type}\r\n"
            f"Content-Length: {len(page.body)}\r\nConnection: close\r\n\r\n"
        )
        self._transport.write(header.encode() + (b"" if head else page.body))
        self._transport.close()


def _is_loopback(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(ip, "ipv4_mapped", None)
    return bool((mapped or ip).is_loopback)


async def serve(
    routes: Routes,
    host: str,
    port: int,
    actions: Actions | None = None,
    failed: Failed = lambda _path, _error: None,
) -> tuple[asyncio.Server, int]:
    """Listen; returns the server and the port it got.

    Raises:
        OSError: the address cannot be bound.
    """
    loop = asyncio.get_running_loop()
    others: dict[HttpConnection, None] = {}
    server = await loop.create_server(
        lambda: HttpConnection(routes, actions or {}, others, failed), host, port
    )
    return server, int(server.sockets[0].getsockname()[1])
