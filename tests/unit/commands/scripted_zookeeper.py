"""A server that speaks as much ZooKeeper as a script says, and is wrong where the script is."""

from __future__ import annotations

import contextlib
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

CHILDREN, DATA, SYNC, CLOSE = 8, 4, 9, -11
Script = Callable[[int, str], bytes | None]
"""Opcode and path -> what comes after the header of the answer; None: the default answer."""


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def children(*names: bytes) -> bytes:
    return struct.pack(">i", len(names)) + b"".join(map(framed, names))


def data_of(value: bytes) -> bytes:
    return framed(value) + bytes(68)  # a Stat of zeros


def session_of(timeout_ms: int = 10_000) -> bytes:
    return struct.pack(">iiqi17x", 0, timeout_ms, 7, 16)


class Raw(bytes):
    """Bytes in place of a whole frame."""


@contextmanager
def scripted(script: Script, session: bytes = session_of()) -> Iterator[str]:
    """Serve; ``session``: what a connection request is answered with."""

    class Handler(socketserver.StreamRequestHandler):
        def read(self) -> bytes:
            size = self.rfile.read(4)
            return self.rfile.read(int.from_bytes(size, "big")) if size else b""

        def handle(self) -> None:
            with contextlib.suppress(OSError):
                if not self.read():
                    return  # only looks whether somebody listens
                self.wfile.write(session if isinstance(session, Raw) else framed(session))
                while request := self.read():
                    xid, kind = struct.unpack_from(">ii", request)
                    path = "" if kind == CLOSE else request[12:-1].decode()
                    body = b"" if kind == CLOSE else script(kind, path)
                    if isinstance(body, Raw):
                        self.wfile.write(body)
                    elif body is None:
                        self.wfile.write(framed(struct.pack(">iqi", xid, 1, -101)))
                    else:
                        self.wfile.write(framed(struct.pack(">iqi", xid, 1, 0) + body))

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        options: dict[str, Any] = {"poll_interval": 0.01}
        thread = threading.Thread(target=server.serve_forever, kwargs=options, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
