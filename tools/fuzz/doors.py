"""A client that sends frames as they are, and requests of its own in between."""

from __future__ import annotations

import itertools
import select
import socket
import time
from collections.abc import Callable
from typing import Any, Final

from emulator.servers.kafka import USERS
from emulator.servers.ports import HOST
from emulator.servers.waiting import PATIENCE_S
from tools.fuzz.frames import Frame
from wire import messages as m
from wire.frame import RequestHeader, decode_response, encode_request, framed
from wire.schema import spec

SPOILT_S: Final = 0.2
"""So long a spoilt frame is waited for: it may ask for an answer that comes in weeks."""
_LOOK_S: Final = 0.01


class Door:
    """A connection to one listener; it is opened when it is needed.

    Args:
        port: of the listener.
        user: name of the user that logs in; empty: no login.
    """

    def __init__(self, port: int, user: str = "") -> None:
        self._port, self._user = port, user
        self._socket: socket.socket | None = None
        self._held = b""
        self._ids = itertools.count(1)

    def close(self) -> None:
        """End it; the next frame goes on a new one."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._held = None, b""

    def send(
        self, frame: Frame, expected: int, rests: Callable[[], bool] | None = None
    ) -> tuple[list[bytes], bool]:
        """Send a frame; returns the answers, and whether the connection was closed.

        Args:
            frame: what is sent.
            expected: so many answers are waited for.
            rests: whether the server has nothing more to do: then a spoilt frame is not waited for
                any longer. None: that is not known.

        Raises:
            OSError: there is no connection, or no login.
        """
        found = self._opened()
        answers: list[bytes] = []
        closed = False
        try:
            size = -(-len(frame.data) // frame.pieces)
            for at in range(0, len(frame.data), size):
                found.sendall(frame.data[at : at + size])
            found.settimeout(SPOILT_S if frame.spoilt else PATIENCE_S)
            while len(answers) < expected and not closed:
                if frame.spoilt and rests is not None:
                    _wait(found, rests)
                answer = self._receive(found)
                closed = answer is None
                answers += [] if answer is None else [answer]
        except TimeoutError:
            self.close()
        except OSError:
            closed = True
        if closed or frame.spoilt or frame.closes or frame.door == "before":
            self.close()
        return answers, closed

    def ask(self, message: Any, version: int) -> Any:
        """Send a request and decode its answer.

        Raises:
            OSError: it has none.
        """
        return self._ask(self._opened(), message, version)

    def _ask(self, found: socket.socket, message: Any, version: int) -> Any:
        key = spec(type(message)).key
        assert key is not None, "a request has an API key"
        header = RequestHeader(
            api_key=key, api_version=version, correlation_id=next(self._ids), client_id="sweep"
        )
        found.settimeout(PATIENCE_S)
        found.sendall(framed(encode_request(header, message)))
        data = self._receive(found)
        if data is None:
            self.close()
            raise ConnectionResetError(f"no answer to {type(message).__name__}")
        return decode_response(key, version, data)[1]

    def _opened(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self._socket.settimeout(PATIENCE_S)
            self._socket.connect((HOST, self._port))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._user:
                self._ask(self._socket, m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
                text = f"\0{self._user}\0{USERS[self._user]}".encode()
                answer = self._ask(self._socket, m.SaslAuthenticateRequest(auth_bytes=text), 2)
                if answer.error_code:
                    raise ConnectionRefusedError(f"{self._user}: {answer.error_message}")
        return self._socket

    def _receive(self, found: socket.socket) -> bytes | None:
        """The next frame; None: the connection was closed."""
        while len(self._held) < 4 or len(self._held) < 4 + int.from_bytes(self._held[:4], "big"):
            data = found.recv(1 << 16)
            if not data:
                return None
            self._held += data
        end = 4 + int.from_bytes(self._held[:4], "big")
        answer, self._held = self._held[4:end], self._held[end:]
        return answer


def _wait(found: socket.socket, rests: Callable[[], bool]) -> None:
    """Wait for bytes.

    Raises:
        TimeoutError: the server rests, or the time is over.
    """
    end_s = time.monotonic() + SPOILT_S
    while not select.select([found], [], [], _LOOK_S)[0]:
        if rests() or time.monotonic() > end_s:
            raise TimeoutError
