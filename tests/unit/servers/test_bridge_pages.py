"""Who asks a controller for a page gets it, or nothing: whatever ends it, or answers instead."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseRequestHandler, TCPServer

import pytest

from emulator.servers.bridge import Bridge

WHOLE = b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"active": 1}'


@contextmanager
def answering(bridge: Bridge, answer: bytes) -> Iterator[Bridge]:
    """Something that sends this where the controller has its pages, and closes."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            self.request.sendall(answer)

    with TCPServer(("127.0.0.1", bridge.metrics_port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield bridge
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        WHOLE[:-4],  # killed in the middle of its answer
        WHOLE[:20],
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\xff",
    ],
)
def test_what_is_no_status_is_none(tmp_path: Path, answer: bytes) -> None:
    with answering(Bridge(tmp_path, None), answer) as bridge:
        assert bridge.status() is None


def test_a_status_is_what_it_says(tmp_path: Path) -> None:
    with answering(Bridge(tmp_path, None), WHOLE) as bridge:
        assert bridge.status() == {"active": 1}
