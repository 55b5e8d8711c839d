"""A connection of the judge: plain text or TLS, bytes in and out, frames by their length."""

from __future__ import annotations

import contextlib
import itertools
import socket
import time
from datetime import UTC, datetime
from typing import Any, Final

from bench.conformance.case import Answer, Ask, End, Violation
from emulator.config.tls import TlsSettings
from emulator.io.tls import context, explain
from emulator.net.login import Login
from wire import codec, frame
from wire.errors import DecodeError, EncodeError
from wire.schema import api_name, lookup, spec

CONNECT_S: Final = 10.0
ANSWER_S: Final = 30.0
"""How long any answer may take: above the timeouts that requests name."""
FRAME_MAX: Final = 256 << 20
"""No answer that is asked for is as large: what says so does not speak Kafka's protocol."""
_OTHERS: Final = {
    b"HTTP": "an HTTP server",
    b"\x15\x03": "a TLS listener",
    b"SSH-": "an SSH server",
}
"""How answers of other protocols begin."""
_RECEIVE_BYTES: Final = 1 << 16
_HEADER_VERSION_TAGS: Final = 2


class Line:
    """One TCP connection; what was read and does not belong to a frame yet is kept.

    Raises:
        OSError: the server cannot be reached, or TLS fails.
    """

    def __init__(self, host: str, port: int, tls: TlsSettings | None) -> None:
        self._socket = socket.create_connection((host, port), CONNECT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            try:
                secured = context(tls, datetime.now(UTC))
                self._socket = secured.wrap_socket(self._socket, server_hostname=host)
            except (OSError, ValueError) as error:
                self._socket.close()
                raise ConnectionError(explain(error)) from error
        self._held = b""
        self._ended = False
        self._numbers = itertools.count(1)
        self.last = (b"", b"")
        """Of the last :meth:`ask`: its bytes, and those of its answer, which may be none."""

    def close(self) -> None:
        """End it."""
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send; what the server does not want any more is lost."""
        self._socket.settimeout(ANSWER_S)
        try:
            self._socket.sendall(data)
        except OSError:
            self._ended = True

    def half_close(self) -> None:
        """Send no more."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def frame(self, within_s: float) -> bytes | End:
        """The next frame, without its length."""
        end = time.monotonic() + within_s
        while True:
            size = int.from_bytes(self._held[:4], "big", signed=True)
            if len(self._held) >= 4 and not 0 <= size <= FRAME_MAX:
                raise Violation("the length of a frame", f"0 to {FRAME_MAX}", self._length(size))
            if len(self._held) >= 4 and len(self._held) >= 4 + size:
                found, self._held = self._held[4 : 4 + size], self._held[4 + size :]
                return found
            left = end - time.monotonic()
            if self._ended:
                return End.CLOSED
            if left <= 0:
                return End.SILENT
            self._socket.settimeout(left)
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except TimeoutError:
                return End.SILENT
            except OSError:
                data = b""
            self._ended = not data
            self._held += data

    def _length(self, size: int) -> str:
        own = next((one for key, one in _OTHERS.items() if self._held.startswith(key)), None)
        return f"{size}: {own} answers" if own else str(size)

    def ask(self, asked: Ask, version: int, within_s: float = ANSWER_S) -> tuple[bytes, Answer]:
        """Send a request and read its answer; returns the request's bytes too.

        Raises:
            Violation: no answer came, or it is not one to this request.
        """
        number = next(self._numbers)
        data = request_bytes(asked, version, number)
        self.last = (data, b"")
        self.send(frame.framed(data))
        got = self.frame(within_s)
        self.last = (data, _bytes(got))
        key = spec(type(asked.request)).key or 0
        return data, Answer(decoded(key, version, number, got), version, _bytes(got))

    def log_in(self, login: Login) -> None:
        """Log in by SASL.

        Raises:
            LoginError: the server refuses it.
            Violation: it does not answer.
        """
        conversation = login.conversation()
        request = next(conversation)
        while True:
            _, answer = self.ask(Ask(request), 1)
            try:
                request = conversation.send(answer.message)
            except StopIteration:
                return


def _bytes(got: bytes | End) -> bytes:
    return got if isinstance(got, bytes) else b""


def request_bytes(asked: Ask, version: int, number: int) -> bytes:
    """Header and body of a request.

    Raises:
        EncodeError: the version cannot carry it: a mistake of the case.
    """
    key = spec(type(asked.request)).key or 0
    header = frame.RequestHeader(
        api_key=key, api_version=version, correlation_id=number, client_id=asked.client_id
    )
    if asked.header_tags and frame.request_header_version(key, version) == _HEADER_VERSION_TAGS:
        header.unknown_tags = asked.header_tags  # type: ignore[attr-defined]  # every message has it
    return frame.encode_request(header, asked.request)


def decoded(key: int, version: int, number: int, got: bytes | End) -> Any:
    """The message of an answer, read to its last byte.

    Raises:
        Violation: it is none, or has another correlation id.
    """
    name = f"{api_name(key)} v{version}"
    if not isinstance(got, bytes):
        raise Violation(f"the answer to {name}", "a frame", got.value)
    if len(got) < 4:
        raise Violation(f"the answer to {name}", "a header", f"{len(got)} bytes")
    echoed = int.from_bytes(got[:4], "big", signed=True)
    if echoed != number:
        raise Violation(f"the correlation id of the answer to {name}", number, echoed)
    try:
        _, body = frame.split_response(key, version, got)
        message: Any = codec.decode(_response(key), version, body)
    except DecodeError as error:
        raise Violation(f"the answer to {name}", "bytes of that version", error) from error
    return message


def canonical(key: int, version: int, number: int, got: bytes, message: Any) -> None:
    """Whether the answer has the bytes that Kafka writes for its values.

    Raises:
        Violation: it has not.
    """
    name = f"{api_name(key)} v{version}"
    try:
        again = frame.encode_response(key, version, number, message)
    except EncodeError as error:
        raise Violation(f"the answer to {name}", "values that it can have", error) from error
    if again != got:
        pairs = enumerate(zip(got, again, strict=False))
        at = next((i for i, (a, b) in pairs if a != b), min(len(got), len(again)))
        raise Violation(
            f"the bytes of the answer to {name}", f"{len(again)} bytes", f"{len(got)}, from {at} on"
        )


def _response(key: int) -> type:
    found = lookup("response", key)
    assert found is not None, key
    return found
