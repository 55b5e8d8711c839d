"""A proxy that breaks one thing of the server behind it: as a server with that fault."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from wire import frame
from wire.errors import DecodeError

Message = Callable[[Any, int], Any]
"""Changes a message of a version in place; returns None, or another message."""
Bytes = Callable[[bytes, int, int], bytes | None]
"""Changes a frame without its length; key and version; None: the connection is closed."""


@dataclass(frozen=True)
class Plant:
    """One fault. ``key`` None: of every API."""

    key: int | None = None
    request: Message | None = None
    response: Message | None = None
    request_bytes: Bytes | None = None
    response_bytes: Bytes | None = None
    swaps: bool = False
    """Whether a later answer passes an earlier one."""
    whole_only: bool = False
    """Whether a frame that is cut closes the connection."""
    stays: bool = False
    """Whether it stays open after the client's end, and after lengths that cannot be."""

    def of(self, key: int) -> bool:
        return self.key in {None, key}


class Proxy:
    """Listens on a free port, for one server."""

    def __init__(self, server: str, plant: Plant) -> None:
        host, _, port = server.rpartition(":")
        self._server = (host, int(port))
        self._plant = plant
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._hangs = False
        self._start(self._accept)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self, within_s: float = 10) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._open:
            _end(one)
        for thread in self._threads:
            if within_s:
                thread.join(within_s)

    def hang(self) -> None:
        """Answer nothing more, and take connections all the same."""
        self._hangs = True

    def _start(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open += [client, server]
            asked: deque[tuple[int, int]] = deque()
            self._start(self._requests, client, server, asked)
            self._start(self._responses, client, server, asked)

    def _requests(self, client: socket.socket, server: socket.socket, asked: Any) -> None:
        held = b""
        with suppress(OSError):
            while data := client.recv(1 << 16):
                if self._hangs:
                    continue
                held += data
                size = int.from_bytes(held[:4], "big", signed=True)
                cut = len(held) < 4 or len(held) != 4 + size
                if self._plant.whole_only and cut and size < 1_000:
                    break
                held = self._forward(held, server, asked)
            if self._plant.stays:
                return
        _end(server)
        _end(client)

    def _forward(self, held: bytes, server: socket.socket, asked: Any) -> bytes:
        while len(held) >= 4:
            size = int.from_bytes(held[:4], "big", signed=True)
            if size < 0 or size > 200_000_000:
                if not self._plant.stays:
                    raise OSError
                return b""
            if len(held) < 4 + size:
                return held
            whole, held = held[4 : 4 + size], held[4 + size :]
            key = int.from_bytes(whole[:2], "big", signed=True)
            version = int.from_bytes(whole[2:4], "big", signed=True)
            changed = self._request(whole, key, version)
            if changed is None:
                raise OSError
            if self._hangs:
                return b""
            asked.append((key, version))
            server.sendall(frame.framed(changed))
        return held

    def _request(self, whole: bytes, key: int, version: int) -> bytes | None:
        plant = self._plant
        if not plant.of(key):
            return whole
        if plant.request_bytes is not None:
            return plant.request_bytes(whole, key, version)
        if plant.request is None:
            return whole
        try:
            header, message = frame.decode_request(whole)
        except DecodeError:
            return whole
        message = plant.request(message, version) or message
        return frame.encode_request(header, message)

    def _responses(self, client: socket.socket, server: socket.socket, asked: Any) -> None:
        reader = frame.FrameReader()
        held: bytes | None = None
        with suppress(OSError):
            while data := server.recv(1 << 16):
                for whole in reader.feed(data):
                    key, version = asked.popleft()
                    changed = self._response(whole, key, version)
                    if changed is None:
                        raise OSError
                    if self._plant.swaps and held is None and asked:
                        held = changed
                        continue
                    client.sendall(frame.framed(changed))
                    if held is not None:
                        client.sendall(frame.framed(held))
                        held = None
        if not self._plant.stays:
            _end(client)

    def _response(self, whole: bytes, key: int, version: int) -> bytes | None:
        plant = self._plant
        if not plant.of(key):
            return whole
        if plant.response_bytes is not None:
            return plant.response_bytes(whole, key, version)
        if plant.response is None:
            return whole
        try:
            number, message = frame.decode_response(key, version, whole)
        except DecodeError:
            return whole
        message = plant.response(message, version) or message
        return frame.encode_response(key, version, number, message)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
