"""GET /metrics /livez /readyz /status: a minimal HTTP server.

A web framework would add nine dependencies for these routes. The connection is closed after an
answer; a request above 8 KiB is refused. Few connections are open at a time, and none
for long, as they take descriptors that the rest of the process needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

REQUEST_BYTES_MAX = 8 * 1024
OPEN_MAX = 16
"""Connections at a time; one more takes the place of the oldest."""
OPEN_S = 10.0
"""How long one may take, from its begin to the end of its answer."""
_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 413: "Content Too Large"}


class Page(NamedTuple):
    """One answer."""

    status: int
    content_type: str
    body: bytes


Routes = Mapping[str, Callable[[], Page]]


class HttpConnection(asyncio.Protocol):
    """Answers one request and closes.

    Args:
        routes: path -> page.
        others: all that are open, the oldest first.
    """

    def __init__(self, routes: Routes, others: dict[HttpConnection, None]) -> None:
        self._routes = routes
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
        """Collect up to the end of the headers, then answer."""
        self._buffer += data
        if len(self._buffer) > REQUEST_BYTES_MAX:
            self._answer(Page(413, "text/plain", b"request too large\n"), head=False)
        elif b"\r\n\r\n" in self._buffer:
            method, _, rest = self._buffer.partition(b"\r\n")[0].partition(b" ")
            path = rest.partition(b" ")[0].partition(b"?")[0].decode("latin-1")
            self._answer(self._page(method, path), head=method == b"HEAD")

    def _page(self, method: bytes, path: str) -> Page:
        if method not in {b"GET", b"HEAD"}:
            return Page(405, "text/plain", b"only GET\n")
        route = self._routes.get(path)
        if route is None:
            known = " ".join(sorted(self._routes))
            return Page(404, "text/plain", f"there are: {known}\n".encode())
        return route()

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


async def serve(routes: Routes, host: str, port: int) -> tuple[asyncio.Server, int]:
    """Listen; returns the server and the port it got.

    Raises:
        OSError: the address cannot be bound.
    """
    loop = asyncio.get_running_loop()
    others: dict[HttpConnection, None] = {}
    server = await loop.create_server(lambda: HttpConnection(routes, others), host, port)
    return server, int(server.sockets[0].getsockname()[1])
