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
from wire.schema import lookup

VALUE_CHARACTERS_MAX = 200
_HEADER = struct.Struct(">ihhi")


class Watched(Machine):
    """Does what ``machine`` does, and logs what passes into it and out of it.

    Args:
        machine: any machine of the shell.
        log: takes a line of level ``trace`` for each event and effect but ``Log`` and ``Row``.
    """

    def __init__(self, machine: Machine, log: Callable[[Log], None]) -> None:
        self._machine = machine
        self._log = log
        self._accepted: set[int] = set()

    @override
    def start(self, now_ms: int) -> list[Effect]:
        return self._out(self._machine.start(now_ms))

    @override
    def step(self, events: list[Event], now_ms: int) -> list[Effect]:
        for event in events:
            if isinstance(event, Accepted):
                self._accepted.add(event.conn)
            elif isinstance(event, Closed):
                self._accepted.discard(event.conn)
            request = ""
            if isinstance(event, Received) and event.conn in self._accepted:
                request = request_of(event.data)
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
                self._accepted.discard(effect.conn)
        return effects

    def _show(self, direction: str, one: Event | Effect, request: str = "") -> None:
        fields = {name: _shown(value) for name, value in msgspec.structs.asdict(one).items()}
        if request:
            fields["request"] = request
        self._log(Log("trace", f"{direction} {type(one).__name__}", fields))


def request_of(data: bytes) -> str:
    """The request with which ``data`` begins: name, version, correlation id; "" if it is none.

    >>> request_of(bytes.fromhex("00000010 0012 0003 00000007") + b"...")
    'ApiVersions v3 #7'
    >>> request_of(b"no request at all")
    ''
    """
    if len(data) < _HEADER.size:
        return ""
    _, key, version, correlation_id = _HEADER.unpack_from(data)
    found = lookup("request", key)
    if found is None:
        return ""
    return f"{found.__name__.removesuffix('Request')} v{version} #{correlation_id}"


def _shown(value: object) -> object:
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, int | str) and len(str(value)) <= VALUE_CHARACTERS_MAX:
        return value
    return f"{value!r:.{VALUE_CHARACTERS_MAX}}"
