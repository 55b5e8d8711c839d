"""What a broker of a fleet asked its controller, read from the frames that it sends and receives.

Nothing inside the broker is asked. The next heartbeat is due an interval after the last answer, as
in Kafka; one that is sent earlier is due when it is sent.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from typing_extensions import override

from emulator.io.clock import Clock
from emulator.net.reply import first_error
from emulator.seam import Close, Closed, Connect, Effect, Event, Halt, Log, Machine, Received, Send
from wire.errors import DecodeError
from wire.frame import FrameReader, decode_response

FETCH: Final = 1
ALTER_PARTITION: Final = 56
REGISTRATION: Final = 62
HEARTBEAT: Final = 63
_TIMED: Final = frozenset({ALTER_PARTITION, REGISTRATION, HEARTBEAT})
_HEAD: Final = struct.Struct(">ihhi")
"""Length of the frame, API key, API version, correlation id."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer. Times are monotonic nanoseconds."""

    api_key: int
    version: int
    correlation_id: int
    intended_ns: int
    sent_ns: int
    answered_ns: int
    error_code: int
    request_bytes: int


class LifeScript(Protocol):
    """What the fleet has a broker do."""

    @property
    def deadline_ms(self) -> int | None:
        """When :meth:`tick` is due."""

    def tick(self, now_ms: int) -> None:
        """Do what is due; called before each step."""

    def answered(self, seen: Exchange) -> None:
        """A controller has answered a request."""

    def stepped(self, now_ms: int) -> None:
        """Look at what became of it; called after each step."""


@dataclass(slots=True)
class _Conversation:
    """One connection to a controller."""

    reader: FrameReader
    asked: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)
    """Correlation id -> key, version, when it was sent, bytes."""


class Tapped(Machine):
    """A ``Machine`` around the machine of a broker.

    Args:
        inner: the broker.
        is_zookeeper: whether a host and a port are those of a ZooKeeper server.
        heartbeat_ns: the interval of heartbeats.
        clock: monotonic nanoseconds.
        script: what the broker is made to do; called with each exchange.
    """

    def __init__(
        self,
        inner: Machine,
        is_zookeeper: Callable[[str, int], bool],
        heartbeat_ns: int,
        clock: Clock,
        script: LifeScript,
    ) -> None:
        self.halted: Halt | None = None
        self.sent: dict[int, int] = {}
        """API key -> number of requests."""
        self.refusals: dict[str, int] = {}
        """Text of a warning of the broker -> how often."""
        self._inner = inner
        self._is_zookeeper = is_zookeeper
        self._heartbeat_ns = heartbeat_ns
        self._now_ns = clock.now_ns
        self._script = script
        self._conversations: dict[int, _Conversation] = {}
        self._beat_ns: int | None = None
        """When the last heartbeat was answered."""

    @property
    @override
    def deadline_ms(self) -> int | None:
        times = (self._inner.deadline_ms, self._script.deadline_ms)
        return min((one for one in times if one is not None), default=None)

    @override
    def start(self, now_ms: int) -> list[Effect]:
        return self._watched(self._inner.start(now_ms), now_ms)

    @override
    def step(self, events: list[Event], now_ms: int) -> list[Effect]:
        self._script.tick(now_ms)
        for event in events:
            match event:
                case Received(conn, data) if conn in self._conversations:
                    try:
                        self._received(self._conversations[conn], data)
                    except DecodeError:
                        # The broker reads the same bytes and does what it does with them.
                        del self._conversations[conn]
                case Closed(conn):
                    self._conversations.pop(conn, None)
                case _:
                    """Not a conversation with the controller."""
        return self._watched(self._inner.step(events, now_ms), now_ms)

    @override
    def shutdown(self, now_ms: int) -> list[Effect]:
        return self._watched(self._inner.shutdown(now_ms), now_ms)

    def _watched(self, effects: list[Effect], now_ms: int) -> list[Effect]:
        for effect in effects:
            match effect:
                case Connect() if not self._is_zookeeper(effect.host, effect.port):
                    self._conversations[effect.conn] = _Conversation(FrameReader())
                case Send(conn, data) if conn in self._conversations:
                    self._asked(self._conversations[conn], data)
                case Close(conn):
                    self._conversations.pop(conn, None)
                case Log(level, text) if level != "info":
                    why = f"{text}: {effect.fields.get('why', '')}".removesuffix(": ")
                    self.refusals[why] = self.refusals.get(why, 0) + 1
                case Halt():
                    self.halted = effect
                case _:
                    """Nothing to count."""
        self._script.stepped(now_ms)
        return effects

    def _asked(self, conversation: _Conversation, data: bytes) -> None:
        at, now_ns = 0, self._now_ns()
        while at < len(data):
            length, key, version, correlation_id = _HEAD.unpack_from(data, at)
            self.sent[key] = self.sent.get(key, 0) + 1
            if key in _TIMED:
                conversation.asked[correlation_id] = (key, version, now_ns, length)
            at += 4 + length

    def _received(self, conversation: _Conversation, data: bytes) -> None:
        now_ns = self._now_ns()
        for frame in conversation.reader.feed(data):
            correlation_id = int.from_bytes(frame[:4], "big", signed=True)
            asked = conversation.asked.pop(correlation_id, None)
            if asked is None:
                continue
            key, version, sent_ns, length = asked
            intended_ns = sent_ns
            if key == HEARTBEAT:
                if self._beat_ns is not None:
                    intended_ns = min(sent_ns, self._beat_ns + self._heartbeat_ns)
                self._beat_ns = now_ns
            error = first_error(decode_response(key, version, frame)[1])
            self._script.answered(
                Exchange(key, version, correlation_id, intended_ns, sent_ns, now_ns, error, length)
            )
