"""Whatever a frame holds, the node answers it or closes that connection, and serves all others.

Every API in every version that is advertised, by itself and in an Envelope, with strings and arrays
up to what a frame holds. Afterwards the log says what memory says, and the node still works.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from emulator.config import load as config
from emulator.controller import registry
from emulator.controller.registry import ENTRIES_MAX, advertised
from emulator.metadata.image import Image
from emulator.node import introspection
from emulator.node.machine import Node
from emulator.node.recovery import load_history
from emulator.raft.format import render_bootstrap_checkpoint
from emulator.raft.layout import BOOTSTRAP_CHECKPOINT
from emulator.seam import (
    Accepted,
    Close,
    Closed,
    Effect,
    Event,
    FileWritten,
    Halt,
    Log,
    Received,
    Send,
    Synced,
    SyncFile,
    WriteFile,
)
from emulator.trace import metrics as metric
from tests.laws.wire_values import Maker
from tests.unit.controller.envelopes import enveloped
from tests.unit.controller.world import create, registration
from tests.unit.node.test_machine import IDENTITY, RAW
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode
from wire.frame import RequestHeader, decode_response, encode_request, framed
from wire.record_serde import encode_record
from wire.releases import forwardable
from wire.schema import Field, Layout, layout, lookup

PROPERTIES = {
    "zookeeper.metadata.migration.enable": "false",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "secret",
}
API_VERSIONS, ENVELOPE = 18, 58
TINY = 9
"""Depth from which on values are as small as they can be."""
STRING_MAX = 32_767
"""Bytes, in every version: Kafka's decoders refuse longer ones in the compact form too."""
KEYS = sorted(advertised("3.9"))
VERSIONS = [
    (key, version)
    for key, (low, high) in advertised("3.9").items()
    for version in range(low, high + 1)
]
ODD = (
    *("", "0", "-1", "1", "9" * 5_000, "-" + "9" * 5_000, "1e999", "nan"),
    *("\0", "a\0b", "\x1b[2J\r\n", "\u202e", "\U0001d11e" * 50, "..", "/", "a/b", "%", "*"),
    *("t", "u", "a.b", "User:a", "User:", "metadata.version", "kraft.version", "retention.ms"),
    *("cleanup.policy", "log.cleaner.threads", "user", "client-id", "ip", "127.0.0.1"),
    *("controller_mutation_rate", "producer_byte_rate", "kafka-cluster", "INTERNAL"),
)
NUMBERS = (0, 1, 2, 3, 4, -1, -2, 21, 100)


class Hostile(Maker):
    """Values as long as their field lets them be, and others that mean something."""

    def __init__(
        self, rng: random.Random, image: Image, *, wide: str | None = None, count: int = 0
    ) -> None:
        super().__init__(rng, small=True, unknown=0.1)
        self.image = image
        self.wide = wide
        self.count = count

    def message(self, form: Layout, depth: int = 0) -> Any:
        made = super().message(form, depth)
        if depth == 0 and self.rng.random() < 0.7:
            self.mend(made)
        return made

    def mend(self, request: Any) -> None:
        """Let it come from a broker that is there, or most requests would end at once."""
        if isinstance(request, m.BrokerRegistrationRequest):
            good = registration(7, cluster_id=IDENTITY.cluster_id)
            request.cluster_id, request.features = good.cluster_id, good.features
        elif hasattr(request, "broker_epoch"):
            request.broker_id, request.broker_epoch = 1, self.image.brokers[1].epoch

    def field(self, entry: Field, depth: int) -> Any:
        if entry.array and entry.name == self.wide:
            self.wide = None
            many = [self.single(entry, TINY)] * self.count
            return many if entry.group is not None else tuple(many)
        if entry.array and depth >= TINY:
            return [] if entry.group is not None else ()
        return super().field(entry, depth)

    def single(self, entry: Field, depth: int) -> Any:
        if entry.group is not None:
            return super().single(entry, depth)
        if entry.kind == "string":
            return self.string() if depth < TINY else "t"
        if entry.kind in {"int8", "int16", "int32", "int64"} and self.rng.random() < 0.6:
            return self.rng.choice(NUMBERS)
        if entry.kind == "uuid":
            return self.rng.choice((bytes(16), *self.image.topics, self.rng.randbytes(16)))
        return super().single(entry, depth)

    def string(self) -> str:
        if self.wide is not None or self.rng.random() < 0.5:
            return self.rng.choice(ODD)
        letter = self.rng.choice(("x", "9", "\0", "a/", ".", "\u00e9", "\U0001d11e"))
        return letter * (STRING_MAX // len(letter.encode()))


class Peers:
    """A node with two brokers and two topics, and what callers on connections of their own get."""

    def __init__(self, *, topics: bool = True) -> None:
        self.logs: list[Log] = []
        self.now_ms = 1_000_000
        self.conn = 0
        self.sent: dict[int, list[Send | Close]] = {}
        level = r.FeatureLevelRecord(name="metadata.version", feature_level=21)
        checkpoint = render_bootstrap_checkpoint([encode_record(level, 0)], 0)
        self.node = Node(
            config.load(RAW | PROPERTIES)[0],
            IDENTITY,
            {BOOTSTRAP_CHECKPOINT: checkpoint},
            rng=random.Random(1),
            stamp=lambda: self.now_ms * 1_000_000,
            new_conn=lambda: -1,
            now_ms=self.now_ms,
        )
        self.perform(self.node.start(self.now_ms))
        for broker in (0, 1):
            made = self.ask(registration(broker, cluster_id=IDENTITY.cluster_id), 62, 4)
            beat = m.BrokerHeartbeatRequest(
                broker_id=broker,
                broker_epoch=made.broker_epoch,
                current_metadata_offset=made.broker_epoch,
            )
            assert self.ask(beat, 63, 1).is_fenced is False
        for name in ("t", "a.b") if topics else ():
            assert self.ask(create(name, 3, 2), 19, 7).topics[0].error_code == 0

    def perform(self, effects: list[Effect]) -> None:
        while effects:
            events = self.events_of(effects)
            effects = self.node.step(events, self.now_ms) if events else []

    def events_of(self, effects: list[Effect]) -> list[Event]:
        """What the disk answers; what is sent and logged is kept."""
        events: list[Event] = []
        for effect in effects:
            assert not isinstance(effect, Halt), effect
            if isinstance(effect, Log):
                self.logs.append(effect)
            elif isinstance(effect, SyncFile):
                events.append(Synced(effect.token))
            elif isinstance(effect, WriteFile):
                events.append(FileWritten(effect.path))
            elif isinstance(effect, Send | Close):
                self.sent.setdefault(effect.conn, []).append(effect)
        return events

    def advance(self, milliseconds: int) -> None:
        end_ms = self.now_ms + milliseconds
        while (due := self.node.deadline_ms) is not None and due <= end_ms:
            self.now_ms = max(self.now_ms, due)
            self.perform(self.node.step([], self.now_ms))
        self.now_ms = end_ms

    @property
    def image(self) -> Image:
        return self.node.controller.tip

    def frame(self, data: bytes) -> bytes | None:
        """The answer to a frame on a new connection; None when it was closed instead."""
        self.conn += 1
        self.sent.clear()
        opened = Accepted(self.conn, "CONTROLLER", b"\x7f\0\0\1")
        events: list[Event] = [opened, Received(self.conn, framed(data))]
        self.perform(self.node.step(events, self.now_ms))
        for milliseconds in (0, 1_000):
            if self.conn not in self.sent:
                self.advance(milliseconds)
        (mine,) = self.sent[self.conn]
        if isinstance(mine, Close):
            return None
        self.perform(self.node.step([Closed(self.conn, "done")], self.now_ms))
        return mine.data[4:]

    def ask(self, message: object, key: int, version: int) -> Any:
        data = self.frame(encode_request(header(key, version), message))
        assert data is not None
        return decode_response(key, version, data)[1]

    def still_sound(self) -> None:
        """Others are served, memory and log agree, and changes are still possible."""
        assert not self.node.controller.answers.failures.total, "no handler raises"
        self.advance(600)
        answer = self.ask(m.ApiVersionsRequest(), 18, 0)
        assert answer.error_code == ErrorCode.NONE
        assert load_history(self.node.raft).tip == self.image
        name = f"afterwards-{self.conn}"
        assert self.ask(create(name, 1, 1), 19, 7).topics[0].error_code == ErrorCode.NONE


def header(key: int, version: int) -> RequestHeader:
    return RequestHeader(api_key=key, api_version=version, correlation_id=7, client_id="me")


def request_of(key: int) -> type:
    found = lookup("request", key)
    assert found is not None
    return found


def sent_anyhow(
    peers: Peers, key: int, version: int, message: object, wide: int = 0
) -> list[bytes | None]:
    """The answers to a request, by itself and in an Envelope if it may be forwarded.

    ``wide``: so many entries are in one of its arrays.
    """
    data = encode_request(header(key, version), message)
    answers = [peers.frame(data)]
    if key in forwardable("3.9"):
        outer = encode_request(header(ENVELOPE, 0), enveloped(data))
        answer = peers.frame(outer)
        assert answer is not None
        envelope = decode_response(ENVELOPE, 0, answer)[1]
        # More entries than a request may have end a connection, and not that of a broker.
        closed = answers == [None] and wide > ENTRIES_MAX
        assert envelope.error_code == (ErrorCode.INVALID_REQUEST if closed else ErrorCode.NONE)
        answers.append(envelope.response_data)
    for one in answers:
        if one is not None:
            correlation_id, _ = decode_response(key, version, one)
            assert correlation_id == 7
    return answers


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=str)
def test_long_and_odd_values(key: int, version: int) -> None:
    peers = Peers()
    rng = random.Random(f"{key} {version}")
    form = layout(request_of(key), version)
    for _ in range(12):
        message = Hostile(rng, peers.image).message(form)
        sent_anyhow(peers, key, version, message)
    peers.still_sound()


@pytest.mark.parametrize("wide", [500, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("key", KEYS)
def test_very_wide_arrays(key: int, wide: int) -> None:
    """So many elements in each array in turn, at the newest version."""
    peers = Peers()
    version = advertised("3.9")[key][1]
    form = layout(request_of(key), version)
    for name in sorted(arrays(form)):
        rng = random.Random(f"{key} {name}")
        message = Hostile(rng, peers.image, wide=name, count=wide).message(form)
        sent_anyhow(peers, key, version, message, wide)
    peers.still_sound()


def arrays(form: Layout) -> set[str]:
    """Names of the arrays in a message, at any depth."""
    found = {entry.name for entry in form.fields if entry.array}
    return found.union(*(arrays(one.group) for one in form.fields if one.group is not None))


@pytest.mark.parametrize(
    ("key", "version"), [(k, v) for k, v in VERSIONS if layout(request_of(k), v).flexible], ids=str
)
def test_a_compact_string_of_a_megabyte_closes_the_connection(key: int, version: int) -> None:
    class Marked(Maker):
        def single(self, entry: Field, depth: int) -> Any:
            return "MARK" if entry.kind == "string" else super().single(entry, depth)

    form = layout(request_of(key), version)
    message = Marked(random.Random(key), small=True, unknown=0.0).message(form)
    data = encode_request(header(key, version), message)
    long = data.replace(b"\x05MARK", b"\xc1\x84\x3d" + b"x" * 1_000_000)
    peers = Peers()
    assert (peers.frame(long) is None) == (long != data) or key == API_VERSIONS
    peers.still_sound()


@pytest.mark.parametrize("key", KEYS)
def test_versions_that_are_not_offered(key: int) -> None:
    """Only ApiVersions has an answer then, in version 0."""
    peers = Peers()
    low, high = advertised("3.9")[key]
    for version in (-(2**15), -1, low - 1, high + 1, 2**15 - 1):
        if low <= version <= high:
            continue
        head = key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + b"\0\0\0\x07"
        for rest in (b"\xff\xff", b"\0\2me\0", b"", b"\0" * 50):
            answer = peers.frame(head + rest)
            assert answer is None or key == API_VERSIONS
            if answer is not None:
                assert decode_response(key, 0, answer)[1].error_code == 35
    peers.still_sound()


def test_a_handler_that_raises_is_told_in_the_log_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handler = registry.handlers()[19]
    broken = replace(handler, function=lambda *_: {}[1])
    monkeypatch.setitem(registry._HANDLERS, 19, broken)
    peers = Peers(topics=False)
    assert peers.ask(create("t"), 19, 7).topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert peers.ask(create("u"), 19, 7).topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    lines = [one for one in peers.logs if "internal error" in one.event]
    assert [(one.level, one.fields["api"], one.fields["error"]) for one in lines] == [
        ("error", "CreateTopics", "KeyError"),
        ("debug", "CreateTopics", "KeyError"),
    ]
    found = introspection.metrics(peers.node, peers.now_ms)[metric.REQUEST_FAILURES]
    ((api, kind, place), count), *_ = found.items()
    assert (api, kind, count) == ("CreateTopics", "KeyError", 2)
    assert place.startswith("emulator.controller.queue.writes.")
    monkeypatch.setitem(registry._HANDLERS, 19, handler)
    peers.node.controller.answers.failures.total.clear()
    peers.still_sound()


def test_what_raises_while_a_frame_is_read_closes_that_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peers = Peers()
    monkeypatch.setattr(peers.node.connections.bodies, "decoder", lambda *_, **__: {}[1])
    assert peers.frame(encode_request(header(19, 7), create("t"))) is None
    monkeypatch.undo()
    peers.still_sound()


def test_callers_who_hang_up_at_once_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look goes over all that wait; thousands may hang up in one turn of the loop."""
    peers = Peers()
    looks: list[int] = []
    monkeypatch.setattr(peers.node.controller, "left", lambda *_: looks.append(1))
    conns = range(1_000, 1_500)
    opened: list[Event] = [Accepted(conn, "CONTROLLER", b"\x7f\0\0\1") for conn in conns]
    peers.perform(peers.node.step(opened, peers.now_ms))
    peers.perform(peers.node.step([Closed(conn, "gone") for conn in conns], peers.now_ms))
    assert len(looks) == 1
