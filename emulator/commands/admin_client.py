"""A blocking client for one command: find the controller, send it one request, read the answer.

Brokers name in Metadata to whom administrative requests go: the controller in ZooKeeper mode, else
any broker, which forwards them (KIP-590). Source: KafkaAdminClient, Kafka 3.9.
"""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Final

from emulator.net.login import Login
from wire import messages as m
from wire.errors import DecodeError
from wire.frame import RequestHeader, decode_response, encode_request, framed
from wire.schema import spec

CLIENT_ID: Final = "kraft-bridge-admin"
PAUSE_S: Final = 0.1
GREETING_S: Final = 5.0
"""A broker that does not say within this what it can is not waited for: there may be others."""
_FRAME_BYTES_MAX: Final = 100 * 1024 * 1024


class UnreachableError(Exception):
    """No broker answered in time; the text says which were asked and what became of it."""


class TooOldError(Exception):
    """The broker speaks no version in which the request can be said."""


class Connection:
    """One TCP connection to one broker.

    Raises:
        OSError: it cannot be reached.
        LoginError: it refuses the login.
    """

    def __init__(self, host: str, port: int, timeout_s: float, login: Login | None = None) -> None:
        self._socket = socket.create_connection((host, port), min(timeout_s, GREETING_S))
        self._correlation_ids = itertools.count(1)
        try:
            answer = self._call(m.ApiVersionsRequest(), 0)
            self._versions = {
                one.api_key: (one.min_version, one.max_version) for one in answer.api_keys
            }
            if login is not None:
                login.perform(lambda request: self.call(request, lowest=1))
            self._socket.settimeout(timeout_s)
        except BaseException:
            self._socket.close()
            raise

    def close(self) -> None:
        """End it."""
        self._socket.close()

    def call(self, request: Any, *, lowest: int = 0) -> Any:
        """Send one request in the newest version both sides speak, and wait for the answer.

        Raises:
            OSError: the connection ended or timed out; whether the broker acted is not known.
            TooOldError: the newest common version is below ``lowest``, or there is none.
        """
        declared = spec(type(request))
        assert declared.key is not None, request
        first, last = self._versions.get(declared.key, (0, -1))
        version = min(last, declared.max_version)
        if version < max(first, declared.min_version, lowest):
            name = declared.name.removesuffix("Request")
            if last < 0:
                raise TooOldError(f"no broker is there: {name} is not answered")
            raise TooOldError(f"the broker answers {name} up to version {last} only")
        return self._call(request, version)

    def _call(self, request: Any, version: int) -> Any:
        key = spec(type(request)).key
        assert key is not None, request
        header = RequestHeader(
            api_key=key,
            api_version=version,
            correlation_id=next(self._correlation_ids),
            client_id=CLIENT_ID,
        )
        self._socket.sendall(framed(encode_request(header, request)))
        size = int.from_bytes(self._exactly(4), "big", signed=True)
        if not 0 <= size <= _FRAME_BYTES_MAX:
            raise ConnectionError(f"a frame of {size} bytes: no Kafka broker listens there")
        try:
            correlation_id, answer = decode_response(key, version, self._exactly(size))
        except DecodeError as error:
            raise ConnectionError(f"no Kafka broker listens there: {error}") from error
        if correlation_id != header.correlation_id:
            raise ConnectionError("an answer to another request")
        return answer

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(min(size - len(data), 1 << 16))
            if not part:
                raise ConnectionResetError("the broker closed the connection")
            data += part
        return bytes(data)


def ask_controller(
    bootstrap: Sequence[tuple[str, int]],
    request: Any,
    *,
    lowest: int,
    not_controller: Callable[[Any], bool],
    timeout_s: float,
    login: Login | None = None,
) -> Any:
    """Send a request to whoever the brokers say is the controller, again while he says he is not.

    Args:
        bootstrap: (host, port) of some brokers.
        request: what to send.
        lowest: version below which it cannot be said.
        not_controller: whether an answer says NOT_CONTROLLER.
        timeout_s: for everything.
        login: to every broker.

    Raises:
        UnreachableError: no answer in that time.
        TooOldError, LoginError: see there.
    """
    deadline_s = time.monotonic() + timeout_s
    why = "nobody was asked"
    for host, port in itertools.cycle(bootstrap):
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise UnreachableError(why)
        try:
            address = _controller(host, port, left_s, login)
            if address is None:
                why = f"{host}:{port} knows of no controller"
            else:
                with closing(Connection(*address, left_s, login)) as connection:
                    answer = connection.call(request, lowest=lowest)
                if not not_controller(answer):
                    return answer
                why = f"{address[0]}:{address[1]} is not the controller any more"
        except OSError as error:
            why = f"{host}:{port}: {error}"
        time.sleep(PAUSE_S)
    raise UnreachableError("no broker to ask")


def _controller(
    host: str, port: int, timeout_s: float, login: Login | None
) -> tuple[str, int] | None:
    request = m.MetadataRequest(topics=[], allow_auto_topic_creation=False)
    with closing(Connection(host, port, timeout_s, login)) as connection:
        answer = connection.call(request, lowest=1)
    for broker in answer.brokers:
        if broker.node_id == answer.controller_id:
            return broker.host, broker.port
    return None
