"""GET / /metrics /status and more, /faults, what operators and tests ask: a small HTTP server.

A web framework would add nine dependencies for these routes. The connection is closed after an
answer; a request whose head is above 8 KiB, or its body above 64 KiB, is refused. Few
connections are open at a time, and none for long, as they take descriptors that the rest of the
process needs. A page that cannot be made is an answer too: what only shows a node never ends it.
An answer that is made elsewhere, as it takes long, is waited for without a limit.

A page in a browser may let the name that it came from resolve to this machine, and then read what
is answered ("DNS rebinding"). So the header Host must name this node: :class:`KnownHosts`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Final, NamedTuple, cast

from emulator.config.listeners import ANY_ADDRESS

REQUEST_BYTES_MAX = 8 * 1024
BODY_BYTES_MAX = 64 * 1024
OPEN_MAX = 16
"""Connections at a time; one more takes the place of the oldest."""
OPEN_S = 10.0
"""How long one may take, from its begin to the end of its request, and for its answer."""
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    411: "Length Required",
    413: "Content Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
_UNREAD = frozenset({411, 413})
"""Answers before the end of the request."""
NOT_A_HOST: Final = (
    "the header Host names neither an address of this machine nor a name that is known here: use "
    "an IP address, localhost, the machine's name, or list the name in kraftbridge.metrics.hosts"
)


class Page(NamedTuple):
    """One answer."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    """More headers: name, value."""


class HttpRequest(NamedTuple):
    """One request, whole. Names of headers are in lower case; ``local``: within this machine."""

    method: str
    headers: Mapping[str, str]
    body: bytes
    local: bool


class ByQuery(NamedTuple):
    """A page that depends on its query, the text behind the question mark."""

    answer: Callable[[str], Page]


Routes = Mapping[str, Callable[[], Page] | ByQuery]
"""Path -> its page, for GET and HEAD."""
Action = Callable[[HttpRequest], Page | Future[Page]]
Actions = Mapping[str, Action]
"""Path -> the answer to any method. An exception of one is none of a page: it may have changed the
node half."""
Problem = Callable[[int, str], Page]
"""The answer for a status that is an error, and a text."""
Failed = Callable[[str, Exception], None]
"""Takes the path of a page that could not be made, and why."""


def plain_problem(status: int, text: str) -> Page:
    """An error as a line of text."""
    return Page(status, "text/plain", f"{text}\n".encode())


class KnownHosts:
    """Judges the header Host: whether it can be meant for this node.

    Names that only an operator can have chosen: those given, ``localhost``, the name of this
    machine, with and without its domain. Addresses: the one that the client has connected to, so
    each of this machine where all are bound, and those of loopback, as they are sent through a
    tunnel. A browser sends the name of the page's origin, which none of these can be.

    Args:
        names: names and addresses by which a node may be asked.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        machine = socket.gethostname()
        names = (*names, "localhost", machine, machine.partition(".")[0])
        self._names = {_plain_host(name) for name in names} - {*ANY_ADDRESS}

    def allows(self, header: str, own: str) -> bool:
        """Whether to answer.

        Args:
            header: text of the header Host.
            own: the address that the client has connected to.

        >>> [KnownHosts(["kafka1"]).allows(text, "10.0.0.5") for text in
        ...  ("KAFKA1:9404", "10.0.0.5", "[::1]:9404", "localhost:1", "10.0.0.6", "evil.example")]
        [True, True, True, True, False, False]
        """
        found = re.fullmatch(r"(\[[^\[\]]+\]|[^\[\]:]+)(:\d*)?", header)
        if found is None:
            return False
        host = _plain_host(found[1].strip("[]"))
        return host in self._names or host == _plain_host(own) or _is_loopback(host)


def _plain_host(host: str) -> str:
    """A name or an address in the form in which it is compared."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host.lower().removesuffix(".")
    return str(getattr(address, "ipv4_mapped", None) or address)


class HttpServer:
    """Listens; its end is that of every connection too.

    ``open`` has all connections, ``hurried`` those that may not take long, the oldest first.
    """

    def __init__(self) -> None:
        self.closed = False
        self.open: set[HttpConnection] = set()
        self.hurried: dict[HttpConnection, None] = {}
        self._listening: asyncio.Server | None = None

    async def listen(self, build: Callable[[], HttpConnection], host: str, port: int) -> int:
        """Bind an address; returns its port. Raises OSError if that cannot be."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(build, host, port)
        # Free ports of IPv4 and IPv6 differ: of what is bound everywhere the IPv4 address is named.
        sockets = self._listening.sockets
        bound = sorted(sockets, key=lambda one: one.family is not socket.AF_INET)
        return int(bound[0].getsockname()[1])

    def close(self) -> None:
        """Close the listener; of an answer a peer gets what its socket takes at once."""
        self.closed = True
        if self._listening is not None:
            self._listening.close()
        for one in self.open:
            asyncio.get_running_loop().call_soon(one.give_up)

    async def wait_closed(self) -> None:
        """Wait until nothing is open."""
        if self._listening is not None:
            await self._listening.wait_closed()


class HttpConnection(asyncio.Protocol):
    """Answers one request and closes.

    Args:
        routes: path -> page.
        actions: path -> what answers every method.
        server: it was accepted by.
        failed: see there.
        hosts: by which names it may be asked.
        problem: what requests are answered that reach no page.
        open_max: how many are open at a time, those aside that wait for an answer made elsewhere.
    """

    def __init__(
        self,
        routes: Routes,
        actions: Actions,
        server: HttpServer,
        failed: Failed,
        hosts: KnownHosts,
        *,
        problem: Problem = plain_problem,
        open_max: int | None = None,
    ) -> None:
        self._open_max = OPEN_MAX if open_max is None else open_max
        self._problem = problem
        self._hosts = hosts
        self._failed = failed
        self._routes = routes
        self._actions = actions
        self._server = server
        self._others = server.hurried
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._limit: asyncio.TimerHandle | None = None
        self._asked = False
        """Whether the request is whole; what comes behind it is ignored."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; the oldest of too many is given up."""
        self._transport = cast("asyncio.Transport", transport)
        self._server.open.add(self)
        self._hurry()
        if self._server.closed:  # it came in the turn in which the server was closed
            self.give_up()

    def _hurry(self) -> None:
        """From now on it is one of few, and not for long."""
        self._others[self] = None
        self._limit = asyncio.get_running_loop().call_later(OPEN_S, self.give_up)
        if len(self._others) > self._open_max:
            next(iter(self._others)).give_up()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Make place."""
        self._server.open.discard(self)
        self._no_hurry()

    def _no_hurry(self) -> None:
        self._others.pop(self, None)
        if self._limit is not None:
            self._limit.cancel()

    def give_up(self) -> None:
        """End the connection, whatever is unsent."""
        self._others.pop(self, None)
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Collect up to the end of the request, then answer."""
        if self._asked:
            return
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        if len(head) > REQUEST_BYTES_MAX:
            self._answer(self._problem(413, "request too large"), head=False)
        elif end:
            page = self._page(head.decode("latin-1"), body)
            if isinstance(page, Future):
                self._asked = True
                self._no_hurry()
                loop = asyncio.get_running_loop()
                page.add_done_callback(lambda done: _soon(loop, self._made, done))
            elif page is not None:
                self._answer(page, head=head.startswith(b"HEAD "))

    def _made(self, page: Future[Page]) -> None:
        """The answer was made elsewhere."""
        if page.cancelled():
            self.give_up()
        elif self._transport is not None and not self._transport.is_closing():
            self._hurry()
            self._answer(page.result(), head=False)

    def _page(self, head: str, body: bytes) -> Page | Future[Page] | None:
        """The answer; None if more of the body is to come."""
        first, *lines = head.split("\r\n")
        method, _, rest = first.partition(" ")
        target, _, version = rest.partition(" ")
        path, _, query = target.partition("?")
        action, route = self._actions.get(path), self._routes.get(path)
        pairs = [line.partition(":") for line in lines]
        fields = [(name.strip().lower(), value.strip()) for name, _, value in pairs]
        # No browser sends HTTP/1.0, or leaves Host out; probes of load balancers do.
        nameless = version == "HTTP/1.0" and action is None
        refusal = self._not_known([value for name, value in fields if name == "host"], nameless)
        if refusal is not None:
            return refusal
        if action is not None:
            return self._act(action, method, dict(fields), body)
        if route is None:
            known = " ".join(sorted({*self._routes, *self._actions}))
            return self._problem(404, f"there are: {known}")
        if method not in {"GET", "HEAD"}:
            return self._problem(405, "only GET")
        try:
            return route.answer(query) if isinstance(route, ByQuery) else route()
        except Exception as error:  # noqa: BLE001 - whatever it is, only this answer fails
            self._failed(path, error)
            return self._problem(500, "this page cannot be made; the log says why")

    def _not_known(self, hosts: list[str], nameless: bool) -> Page | None:
        """The refusal of a request with these headers Host; None if it is answered."""
        if len(hosts) != 1:
            known = nameless and not hosts
            return None if known else self._problem(400, "needs one header Host")
        assert self._transport is not None, "data came over it"
        own = self._transport.get_extra_info("sockname")
        known = self._hosts.allows(hosts[0], own[0] if own else "")
        return None if known else self._problem(403, NOT_A_HOST)

    def _act(
        self, action: Action, method: str, headers: Mapping[str, str], body: bytes
    ) -> Page | Future[Page] | None:
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers:
            return self._problem(411, "only with Content-Length")
        if not (length.isascii() and length.isdigit()):
            return self._problem(400, "no number in Content-Length")
        if len(length) > 9 or int(length) > BODY_BYTES_MAX or len(body) > BODY_BYTES_MAX:
            return self._problem(413, "request too large")
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
        more = "".join(f"{name}: {value}\r\n" for name, value in page.headers)
        header = (
            f"HTTP/1.1 {page.status} {reason}\r\nContent-Type: {page.content_type}\r\n{more}"
            f"Content-Length: {len(page.body)}\r\nConnection: close\r\n\r\n"
        )
        self._transport.write(header.encode() + (b"" if head else page.body))
        if page.status in _UNREAD:
            # The peer goes on to send: closed at once, it would get a reset before the answer.
            self._asked = True
            self._buffer = b""
            self._transport.write_eof()
        else:
            self._transport.close()


def _soon(
    loop: asyncio.AbstractEventLoop, take: Callable[[Future[Page]], None], page: Future[Page]
) -> None:
    # A loop that has ended has closed the connection too.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(take, page)


def _is_loopback(address: str) -> bool:
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(ip, "ipv4_mapped", None)
    return bool((mapped or ip).is_loopback)


async def serve(
    routes: Routes,
    host: str,
    port: int,
    actions: Actions | None = None,
    failed: Failed = lambda _path, _error: None,
    *,
    names: Iterable[str] = (),
    problem: Problem = plain_problem,
    open_max: int | None = None,
) -> tuple[HttpServer, int]:
    """Listen; returns the server and the port it got.

    Args:
        routes: path -> page.
        host: where to bind; if it is a name, it is one of those by which it may be asked.
        port: 0: any free one.
        actions: path -> what answers every method.
        failed: see there.
        names: more names and addresses by which it may be asked (:class:`KnownHosts`).
        problem: what requests are answered that reach no page.
        open_max: how many connections are open at a time; None: ``OPEN_MAX``.

    Raises:
        OSError: the address cannot be bound.
    """
    server, hosts = HttpServer(), KnownHosts((host, *names))

    def build() -> HttpConnection:
        return HttpConnection(
            routes, actions or {}, server, failed, hosts, problem=problem, open_max=open_max
        )

    return server, await server.listen(build, host, port)
