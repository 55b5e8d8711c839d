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
