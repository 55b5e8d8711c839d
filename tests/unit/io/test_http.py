"""The few routes: what they answer, and to what."""

from __future__ import annotations

import asyncio

import pytest

from emulator.io import http

ROUTES = {
    "/status": lambda: http.Page(200, "application/json", b"{}\n"),
    "/readyz": lambda: http.Page(503, "text/plain", b"no session\n"),
}


def ask(request: bytes) -> bytes:
    async def work() -> bytes:
        server, port = await http.serve(ROUTES, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return answer

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("request_bytes", "start", "end"),
    [
        (b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200 OK", b"\r\n\r\n{}\n"),
        (b"HEAD /status HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK", b"Connection: close\r\n\r\n"),
        (b"GET /status?x=1 HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK", b"{}\n"),
        (b"GET /readyz HTTP/1.1\r\n\r\n", b"HTTP/1.1 503 Service Unavailable", b"no session\n"),
        (b"GET /x HTTP/1.1\r\n\r\n", b"HTTP/1.1 404 Not Found", b"/readyz /status\n"),
        (b"POST /status HTTP/1.1\r\n\r\n", b"HTTP/1.1 405", b"only GET\n"),
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
            other.write(b"GET /status HTTP/1.1\r\n\r\n")
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
        deaf_writer.write(b"GET /large HTTP/1.1\r\n\r\n")
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
    connection = http.HttpConnection({}, {}, {}, lambda _path, _error: None)

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
            writer.write(b"GET " + path + b" HTTP/1.1\r\n\r\n")
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
