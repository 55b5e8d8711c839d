"""A machine whose events and effects are log lines: ``--log-level trace``.

``>>`` is an event that a step takes, ``<<`` an effect that it returns. Of bytes only the number is
shown, as they may hold secrets; where a request begins, also its name, version and correlation id.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import msgspec
from typing_extensions import override

from emulator.seam import Accepted, Close, Closed, Effect, Event, Log, Machine, Received, Row
from wire.schema import lookup, spec

VALUE_CHARACTERS_MAX = 200
SIZE_MAX = 100 * 1024 * 1024
"""Kafka's default of ``socket.request.max.bytes``."""
_HEADER = struct.Struct(">ihhi")
_SIZE_BYTES = 4


class Watched(Machine):
    """Does what ``machine`` does, and logs what passes into it and out of it.

    Args:
        machine: any machine of the shell.
        log: takes a line of level ``trace`` for each event and effect but ``Log`` and ``Row``.
    """

    def __init__(self, machine: Machine, log: Callable[[Log], None]) -> None:
        self._machine = machine
        self._log = log
        self._accepted: dict[int, Requests] = {}

    @override
    def start(self, now_ms: int) -> list[Effect]:
        return self._out(self._machine.start(now_ms))

    @override
    def step(self, events: list[Event], now_ms: int) -> list[Effect]:
        for event in events:
            if isinstance(event, Accepted):
                self._accepted[event.conn] = Requests()
            elif isinstance(event, Closed):
                self._accepted.pop(event.conn, None)
            request = ""
            if isinstance(event, Received) and event.conn in self._accepted:
                request = self._accepted[event.conn].feed(event.data)
            self._show(">>", event, request)
        return self._out(self._machine.step(events, now_ms))

    @override
    def shutdown(self, now_ms: int) -> list[Effect]:
        return self._out(self._machine.shutdown(now_ms))

    @property
    @override
    def deadline_ms(self) -> int | None:
        return self._machine.deadline_ms

    def _out(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if not isinstance(effect, Log | Row):
                self._show("<<", effect)
            if isinstance(effect, Close):
                self._accepted.pop(effect.conn, None)
        return effects

    def _show(self, direction: str, one: Event | Effect, request: str = "") -> None:
        fields = {name: _shown(value) for name, value in msgspec.structs.asdict(one).items()}
        if request:
            fields["request"] = request
        self._log(Log("trace", f"{direction} {type(one).__name__}", fields))


class Requests:
    """Where the requests of one connection begin, and their names.

    Nothing is named after the first frame that is no request of ours, and after a SaslHandshake of
    version 0: then the tokens of a login have no header, and their bytes are never shown. Source:
    SaslServerAuthenticator, Kafka 3.9.
    """

    def __init__(self) -> None:
        self._left = 0
        """Bytes of the current request that have not come."""
        self._header = b""
        """What has come of the next one's header."""
        self._ended = False

    def feed(self, data: bytes) -> str:
        """The first request that begins in the next bytes: name, version, correlation id; or "".

        >>> versions = bytes.fromhex("0000000b 0012 0003 00000007 0001 61")
        >>> requests = Requests()
        >>> requests.feed(versions[:9]), requests.feed(versions[9:] + versions)
        ('', 'ApiVersions v3 #7')
        >>> requests.feed(b"no request at all"), requests.feed(versions)
        ('', '')
        """
        names = []
        at = 0
        while at < len(data) and not self._ended:
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
            else:
                step = min(_HEADER.size - len(self._header), len(data) - at)
                self._header += data[at : at + step]
                if len(self._header) == _HEADER.size and (name := self._begun()):
                    names.append(name)
            at += step
        return names[0] if names else ""

    def _begun(self) -> str:
        """The name of the request whose header is complete."""
        size, key, version, correlation_id = _HEADER.unpack(self._header)
        self._header = b""
        self._left = size + _SIZE_BYTES - _HEADER.size
        found = lookup("request", key)
        if found is None or not 0 <= self._left <= SIZE_MAX:
            self._ended = True
            return ""
        if version not in spec(found).versions:
            return ""
        name = found.__name__.removesuffix("Request")
        self._ended = name == "SaslHandshake" and version == 0
        return f"{name} v{version} #{correlation_id}"


def _shown(value: object) -> object:
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, int | str) and len(str(value)) <= VALUE_CHARACTERS_MAX:
        return value
    return f"{value!r:.{VALUE_CHARACTERS_MAX}}"
