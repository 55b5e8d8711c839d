"""Our broker as a child process on a Kafka broker's own properties, and one question to both."""

from __future__ import annotations

import json
import socket
import sys
from typing import Any, Self

import msgspec

from emulator.servers.bridge import COMMAND, BridgeBroker
from emulator.servers.kafka import KafkaBroker
from emulator.servers.ports import HOST
from emulator.servers.process import ProcessError
from emulator.servers.waiting import wait_for
from wire.frame import FrameReader, RequestHeader, decode_response, encode_request, framed
from wire.schema import spec


class FormattedBroker(KafkaBroker):
    """A Kafka broker in KRaft mode whose folder ``kraft-bridge format`` has prepared."""

    def format(self, cluster_id: str) -> Self:
        path = self._write_properties()
        verb = ["format", "-c", path, "-t", cluster_id]
        code = self.launch([sys.executable, "-c", COMMAND, *verb]).wait()
        if code != 0:
            raise ProcessError(f"kraft-bridge format ended with {code}:\n{self.tail()}")
        return self


class FormattedBridgeBroker(FormattedBroker, BridgeBroker):
    """Our broker, on the file that a Kafka broker of this id would be started with."""


class Caller:
    """A connection on which requests are sent one by one, in any version."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), 300)
        self._socket.settimeout(300)
        self._reader = FrameReader()
        self._number = 0

    def ask(self, request: Any, version: int) -> Any:
        """The answer, decoded.

        Raises:
            ConnectionError: the broker closed the connection.
        """
        self._number += 1
        key = spec(type(request)).key
        assert key is not None
        header = RequestHeader(
            api_key=key, api_version=version, correlation_id=self._number, client_id="beside"
        )
        self._socket.sendall(framed(encode_request(header, request)))
        while True:
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionError(f"closed at {type(request).__name__} v{version}")
            frames = self._reader.feed(data)
            if frames:
                number, answer = decode_response(key, version, frames[0])
                assert number == self._number
                return answer

    def eventually(self, what: str, request: Any, version: int, done: Any) -> Any:
        """Ask until the answer is as wanted, and return it."""

        def asked() -> Any:
            answer = self.ask(request, version)
            return answer if done(answer) else None

        return wait_for(what, asked)

    def close(self) -> None:
        self._socket.close()


def plain(answer: Any) -> Any:
    """An answer as values that can be compared: lists in one order, texts as whether they are."""
    return _ordered(msgspec.to_builtins(answer))


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _ordered(one) for key, one in value.items() if key != "throttle_time_ms"}
        if "error_message" in kept:
            kept["error_message"] = bool(kept["error_message"])
        return kept
    if isinstance(value, list | tuple):
        return sorted(map(_ordered, value), key=lambda one: json.dumps(one, sort_keys=True))
    return value


def unlike(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two such values differ."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [text for key in one for text in unlike(one[key], other[key], f"{path}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            text
            for index, (each, its) in enumerate(zip(one, other, strict=True))
            for text in unlike(each, its, f"{path}[{index}]")
        ]
    return [] if one == other else [f"{path}: {one!r} is {other!r} here"]
