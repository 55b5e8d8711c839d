"""The few routes: what they answer, and to what."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from concurrent.futures import Future

import pytest
import uvloop

from emulator.io import http
from tests.kit.served import turns

ROUTES = {
    "/status": lambda: http.Page(200, "application/json", b"{}\n"),
    "/readyz": lambda: http.Page(503, "text/plain", b"no session\n"),
}
LOCAL = b"Host: localhost\r\n"


async def seen(host: str, port: int) -> None:
    """Another request is answered after the ends of earlier connections are seen."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET /nothing HTTP/1.1\r\n" + LOCAL + b"\r\n")
    await reader.read()
    writer.close()
    await writer.wait_closed()


def ask(
    request: bytes,
    *,
    bound: str = "127.0.0.1",
    to: str = "127.0.0.1",
    actions: http.Actions | None = None,
    names: tuple[str, ...] = (),
) -> bytes:
    async def work() -> bytes:
        server, port = await http.serve(ROUTES, bound, 0, actions, names=names)
        reader, writer = await asyncio.open_connection(to, port)
        writer.write(request)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        await seen(to, port)
        server.close()
        await server.wait_closed()
        return answer

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("request_bytes", "start", "end"),
    [
        (b"GET /status HTTP/1.1\r\n" + LOCAL + b"\r\n", b"HTTP/1.1 200 OK", b"\r\n\r\n{}\n"),
        (
            b"HEAD /status HTTP/1.1\r\n" + LOCAL + b"\r\n",
            b"HTTP/1.1 200 OK",
            b"Connection: close\r\n\r\n",
        ),
        (b"GET /status?x=1 HTTP/1.1\r\n" + LOCAL + b"\r\n", b"HTTP/1.1 200 OK", b"{}\n"),
        (
            b"GET /readyz HTTP/1.1\r\n" + LOCAL + b"\r\n",
            b"HTTP/1.1 503 Service Unavailable",
            b"no session\n",
        ),
        (b"GET /x HTTP/1.1\r\n" + LOCAL + b"\r\n", b"HTTP/1.1 404 Not Found", b"/readyz /status\n"),
        (b"POST /status HTTP/1.1\r\n" + LOCAL + b"\r\n", b"HTTP/1.1 405", b"only GET\n"),
        (b"x" * 9_000, b"HTTP/1.1 413", b"too large\n"),
    ],
)
def test_answers(request_bytes: bytes, start: bytes, end: bytes) -> None:
    answer = ask(request_bytes)
    assert answer.startswith(start)
    assert answer.endswith(end)


def test_one_more_than_may_be_open_takes_the_place_of_the_oldest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "OPEN_MAX", 3)

    async def work() -> list[bytes]:
        server, port = await http.serve(ROUTES, "127.0.0.1", 0)
        peers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await peers[0][0].read() == b""
        for _, other in [*peers[1:], (reader, writer)]:
            other.write(b"GET /status HTTP/1.1\r\n" + LOCAL + b"\r\n")
        answers = [await one.read() for one, _ in [*peers[1:], (reader, writer)]]
        for _, one in [*peers, (reader, writer)]:
            one.close()
        server.close()
        return answers

    assert all(answer.startswith(b"HTTP/1.1 200 OK") for answer in asyncio.run(work()))


def test_a_connection_that_asks_nothing_or_does_not_read_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "OPEN_S", 0.2)
    large = http.Page(200, "text/plain", b"x" * 50_000_000)
    lost = asyncio.Semaphore(0)
    connection_lost = http.HttpConnection.connection_lost

    def noted(self: http.HttpConnection, exc: Exception | None) -> None:
        connection_lost(self, exc)
        lost.release()

    monkeypatch.setattr(http.HttpConnection, "connection_lost", noted)

    async def work() -> None:
        server, port = await http.serve({"/large": lambda: large}, "127.0.0.1", 0)
        silent, silent_writer = await asyncio.open_connection("127.0.0.1", port)
        deaf, deaf_writer = await asyncio.open_connection("127.0.0.1", port)
        deaf_writer.write(b"GET /large HTTP/1.1\r\n" + LOCAL + b"\r\n")
        assert await asyncio.wait_for(silent.read(), 300) == b""
        for _ in range(2):
            await asyncio.wait_for(lost.acquire(), 300)
        assert len(await asyncio.wait_for(deaf.read(), 300)) < len(large.body)
        silent_writer.close()
        deaf_writer.close()
        server.close()

    asyncio.run(work())


@pytest.mark.parametrize(
    ("peer", "own", "local"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", True),
        ("10.0.0.5", "10.0.0.5", True),
        ("fe80::1%eth0", "fe80::1%eth0", True),
        ("10.0.0.6", "10.0.0.5", False),
        ("10.0.0.5", "127.0.0.1", False),
    ],
)
def test_a_request_is_local_from_the_address_that_it_was_sent_to(
    peer: str, own: str, local: bool
) -> None:
    hosts = http.KnownHosts()
    connection = http.HttpConnection({}, {}, http.HttpServer(), lambda _path, _error: None, hosts)

    class Ends(asyncio.Transport):
        def get_extra_info(self, name: str, default: object = None) -> object:
            return (peer if name == "peername" else own, 1)

    connection._transport = Ends()
    assert connection._local() is local


def test_a_page_that_cannot_be_made_is_an_answer_and_ends_nothing() -> None:
    def broken() -> http.Page:
        raise ZeroDivisionError("a fault of this program")

    failed: list[tuple[str, str]] = []

    async def work() -> list[bytes]:
        raised: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context))
        routes = {"/metrics": broken, **ROUTES}

        def note(path: str, error: Exception) -> None:
            failed.append((path, str(error)))

        server, port = await http.serve(routes, "127.0.0.1", 0, failed=note)
        answers = []
        for path in (b"/metrics", b"/status"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET " + path + b" HTTP/1.1\r\n" + LOCAL + b"\r\n")
            answers.append(await reader.read())
            writer.close()
            await writer.wait_closed()
        server.close()
        await server.wait_closed()
        assert not raised
        return answers

    broke, whole = asyncio.run(work())
    assert broke.startswith(b"HTTP/1.1 500 ")
    assert whole.startswith(b"HTTP/1.1 200 ")
    assert failed == [("/metrics", "a fault of this program")]


def named(host: str, **more: str | tuple[str, ...]) -> int:
    """The code with which a request with this header Host is answered."""
    request = f"GET /status HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("latin-1")
    return int(ask(request, **more).split(b" ")[1])


KNOWN = ("localhost", "LOCALHOST:9404", "localhost.", "127.0.0.1:1", "127.8.0.1", "[::1]:9404")
UNKNOWN = (
    "evil.example",
    "localhost.evil.example",
    "127.0.0.1.evil.example:9404",
    "10.9.8.7:9404",
    "[2001:db8::1]",
    "0.0.0.0",
    "[::]:9404",
    "",
    "localhost:x",
    "localhost@evil.example",
    "a b",
    "[::1",
    "localhost, evil.example",
)


@pytest.mark.parametrize("bound", ["127.0.0.1", "0.0.0.0", ""])
def test_only_names_and_addresses_of_this_machine_are_answered(bound: str) -> None:
    machine = socket.gethostname()
    known = (*KNOWN, machine, f"{machine.partition('.')[0].upper()}:9404")
    assert {host: named(host, bound=bound) for host in known} == dict.fromkeys(known, 200)
    answered = {host: named(host, bound=bound) for host in UNKNOWN}
    assert answered == dict.fromkeys(UNKNOWN, 403)


def test_the_address_that_the_client_has_connected_to_is_answered() -> None:
    hosts = http.KnownHosts(("", "0.0.0.0"))
    for host, own in (
        ("10.0.0.5:9404", "10.0.0.5"),
        ("10.0.0.5", "::ffff:10.0.0.5"),
        ("[fe80::1]:9404", "fe80::1%eth0"),
        ("[2001:DB8:0::1]", "2001:db8::1"),
    ):
        assert hosts.allows(host, own), host
        assert not hosts.allows(host, "10.0.0.6"), host


def test_names_that_the_operator_has_given_are_answered() -> None:
    names = ("kafka1.example.com", "10.1.2.3", "2001:db8::1")
    for host in ("KAFKA1.example.com:9404", "10.1.2.3:80", "[2001:db8:0::1]:9404"):
        assert (named(host, names=names), named(host)) == (200, 403)
    assert named("localhost", bound="localhost", to="localhost") == 200
    assert http.KnownHosts(("controller-1",)).allows("controller-1:9404", "172.18.0.2")


def test_without_a_name_only_a_probe_is_answered() -> None:
    def act(_asked: http.HttpRequest) -> http.Page:
        raise AssertionError("it writes")

    refused = b"HTTP/1.1 400 Bad Request"
    assert ask(b"GET /status HTTP/1.1\r\n\r\n").startswith(refused)
    assert ask(b"GET /status HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 OK")
    foreign = b"GET /status HTTP/1.0\r\nHost: evil.example\r\n\r\n"
    assert ask(foreign).startswith(b"HTTP/1.1 403 Forbidden")
    writes = b"POST /reconcile HTTP/1.0\r\n\r\n"
    assert ask(writes, actions={"/reconcile": act}).startswith(refused)
    two = b"GET /status HTTP/1.1\r\n" + LOCAL + b"Host: evil.example\r\n\r\n"
    assert ask(two).startswith(refused)


def test_what_writes_is_asked_by_a_known_name_too() -> None:
    def act(_asked: http.HttpRequest) -> http.Page:
        return http.Page(200, "text/plain", b"done\n")

    answers = [
        ask(b"POST /reconcile HTTP/1.1\r\nHost: " + host + b"\r\n\r\n", actions={"/reconcile": act})
        for host in (b"evil.example", b"localhost")
    ]
    assert [one.split(b" ")[1] for one in answers] == [b"403", b"200"]
    assert b"kraftbridge.metrics.hosts" in answers[0]


def test_an_answer_made_elsewhere_is_waited_for_and_keeps_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "OPEN_S", 0.2)
    made: Future[http.Page] = Future()
    begun = asyncio.Event()

    def answer(_asked: http.HttpRequest) -> Future[http.Page]:
        begun.set()
        return made

    async def work() -> tuple[bytes, list[bytes]]:
        server, port = await http.serve({}, "127.0.0.1", 0, {"/long": answer}, open_max=2)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /long HTTP/1.1\r\n" + LOCAL + b"\r\n")
        await begun.wait()
        writer.write(b"more that is no request")
        # Others come and hang; each is given up, and this one is not.
        others = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
        ends = [await other.read() for other, _ in others]
        monkeypatch.undo()
        threading.Thread(target=made.set_result, args=[http.Page(200, "a/b", b"late")]).start()
        answered = await reader.read()
        for one in [writer, *(other for _, other in others)]:
            one.close()
            await one.wait_closed()
        await seen("127.0.0.1", port)
        server.close()
        await server.wait_closed()
        return answered, ends

    answered, ends = asyncio.run(work())
    assert answered.startswith(b"HTTP/1.1 200 OK")
    assert answered.endswith(b"late")
    assert ends == [b""] * 4


def test_the_end_of_a_server_is_that_of_its_connections() -> None:
    """One that was left open kept the event loop from its end: EBUSY."""
    large = http.Page(200, "text/plain", b"x" * 50_000_000)
    left: list[http.HttpConnection] = []

    async def work(late: socket.socket) -> None:
        server, port = await http.serve({"/large": lambda: large}, "127.0.0.1", 0)
        peers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        peers[1][1].write(b"GET /large HTTP/1.1\r\n" + LOCAL + b"\r\n")
        await peers[1][0].readexactly(1)
        late.connect(("127.0.0.1", port))
        # Before its protocol has seen it.
        asyncio.get_running_loop().call_soon(server.close)
        await turns()
        left.extend(server.open)
        for one in left:
            one.give_up()
        for _, writer in peers:
            writer.transport.abort()

    with socket.socket() as late, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work(late))
    assert left == []


def test_who_sends_too_much_gets_the_answer_and_no_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = asyncio.Event()
    monkeypatch.setattr(http.HttpConnection, "connection_lost", lambda *_: lost.set())
    body = b"x" * 8_000_000
    head = f"Content-Length: {len(body)}\r\n\r\n".encode()

    def problem(status: int, text: str) -> http.Page:
        return http.Page(status, "application/json", json.dumps(text).encode())

    async def work() -> bytes:
        page = http.Page(200, "text/plain", b"done")
        serving = http.serve({}, "127.0.0.1", 0, {"/act": lambda _: page}, problem=problem)
        server, port = await serving
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /act HTTP/1.1\r\n" + LOCAL + head + body)
        await writer.drain()
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        await lost.wait()
        server.close()
        await server.wait_closed()
        return answer

    answer = asyncio.run(work())
    assert answer.startswith(b"HTTP/1.1 413 Content Too Large\r\nContent-Type: application/json")
    assert answer.endswith(b'"request too large"')
