"""Draws frames: half of them valid with values that mean something, half of them spoilt.

A frame follows from the seed, its cell (server, API, version), its number in that cell, and from
what is known of the cluster then: ids and epochs that nobody can guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from tests.laws.wire_values import Maker
from wire import messages as m
from wire.errors import EncodeError
from wire.frame import RequestHeader, decode_request, encode_request, framed
from wire.releases import controller_ranges, forwardable
from wire.schema import Field, Layout, layout, lookup

RELEASE: Final = "3.9"
ENVELOPE: Final = 58
PRODUCE: Final = 0
_LOGIN: Final = frozenset({17, 36})
"""SaslHandshake and SaslAuthenticate: one more begins another login."""
OWN_ID: Final = 7
"""A broker that is only registered, so that its epoch is known."""
USERS: Final = ("admin", "reader")
"""Users that log in: a super user, and a user without any permission."""
LogIn: TypeAlias = Literal["plain", "before", "login"]
"""Where a frame goes: to a listener without SASL; to one with SASL before, or after a login."""


class Cell(NamedTuple):
    """One API and version of one server."""

    server: str
    key: int
    version: int

    def __str__(self) -> str:
        return f"{self.server} {self.key} {self.version}"


@dataclass(slots=True)
class Known:
    """What a stranger cannot guess; frames hold it now and then."""

    cluster_id: str = ""
    topic_ids: tuple[bytes, ...] = ()
    epochs: tuple[int, ...] = ()
    """Of :data:`OWN_ID`, and of brokers that run."""
    controller_epoch: int = 0
    hmacs: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """What is sent on one connection.

    ``spoilt``: how; empty: it is valid. ``cut``: bytes are missing at its end, so that nobody
    answers. ``pieces``: in how many it is written. ``closes``: its connection may be closed though
    it is valid: a producer that wants no answer, or a login.
    """

    cell: Cell
    number: int
    door: LogIn
    user: str
    data: bytes
    spoilt: str = ""
    cut: bool = False
    pieces: int = 1
    closes: bool = False


_NAMES: Final = (
    *("t", "u", "a.b", "a_b", "__cluster_metadata", "__consumer_offsets", "", "..", "a/b"),
    *("x" * 249, "x" * 250, "x" * 2_000, "\0", "a\0b", "\x1b[2J\r\n", "\u202e", "\U0001d11e" * 40),
    *("é", "*", "%", "User:a", "0", "1", "7", "-1", "9" * 300, "alice", "admin", "<default>"),
)
_CONFIGS: Final = (
    *("retention.ms", "cleanup.policy", "compression.type", "min.insync.replicas", "interval.ms"),
    *("message.format.version", "log.cleaner.threads", "unclean.leader.election.enable", "metrics"),
    *("match", "leader.replication.throttled.replicas", "ssl.keystore.password", "no.such.config"),
)
_VALUES: Final = (
    *("0", "1", "-1", "86400000", "86400000\u00a0", " 5 ", "true", "TRUE", "compact,delete", ""),
    *("1e999", "nan", "9" * 400, "gzip", "client_id=(a|b)*", "client_id=.*", "[*]", "0:1,1:2"),
)
_STRINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "entity_type": ("user", "client-id", "ip", "x"),
    "entity_name": ("a", "alice", "127.0.0.1", "::1", "", "<default>", "\0"),
    "match": ("a", "alice", "127.0.0.1", ""),
    "key": tuple("producer_byte_rate request_percentage controller_mutation_rate t x".split()),
    "feature": ("metadata.version", "kraft.version", "group.version", "transaction.version", "x"),
    "mechanism": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "x", ""),
    "value": _VALUES,
    "configuration_keys": _CONFIGS,
    "client_software_name": ("librdkafka", "", "a b", "x" * 300),
    "host": ("*", "127.0.0.1", "::1", "", "a" * 300, "no such host"),
    "host_filter": ("*", "127.0.0.1"),
}
_PRINCIPALS: Final = ("User:alice", "User:reader", "User:*", "User:", "alice", "Group:x", "User:é")
_NUMBERS: Final = (0, 1, 2, 3, 4, -1, -2, 21, 100)
_WAITS: Final = (0, 1, 20, 50)
"""Milliseconds: a frame that waits for longer only makes the run longer."""
_IDS: Final = (OWN_ID, OWN_ID, 8, 9, 0, 1, -1, 3000)
_METADATA_TOPIC: Final = bytes(15) + b"\1"


class Values(Maker):
    """Draws messages whose values mean something, and which leave a bounded state behind."""

    def __init__(self, rng: Random, known: Known) -> None:
        super().__init__(rng, small=True, unknown=0.05)
        self.known = known

    def message(self, form: Layout, depth: int = 0) -> Any:
        """As of every Maker; a whole request comes from a broker that is there, mostly."""
        made = super().message(form, depth)
        if depth == 0:
            self._mend(made)
        return made

    def _mend(self, request: Any) -> None:
        rng, known = self.rng, self.known
        if isinstance(request, m.BrokerRegistrationRequest | m.UnregisterBrokerRequest):
            request.broker_id = rng.choice((OWN_ID, 8, 9))
        if isinstance(request, m.BrokerRegistrationRequest):
            # A controller connects to brokers in ZooKeeper mode: name a port of no other program.
            for listener in request.listeners:
                listener.host, listener.port = "localhost", 1
        if rng.random() < 0.1:
            return
        if isinstance(request, m.BrokerRegistrationRequest):
            kinds = m.BrokerRegistrationRequest
            request.cluster_id = known.cluster_id
            request.listeners = [kinds.Listener(name="INTERNAL", host="localhost", port=1)]
            level = {"min_supported_version": 1, "max_supported_version": rng.choice((21, 25))}
            request.features = [kinds.Feature(name="metadata.version", **level)]
        elif hasattr(request, "cluster_id"):
            request.cluster_id = known.cluster_id
        if hasattr(request, "controller_epoch"):
            # A later one deposes the controller for that broker, as it does Kafka's.
            request.controller_id, request.controller_epoch = 3000, known.controller_epoch

    def field(self, entry: Field, depth: int) -> Any:
        """As of every Maker; seldom an array is long."""
        if entry.array and depth < 2 and self.rng.random() < 0.01:
            items = [self.single(entry, depth + 1)] * 300
            return items if entry.group is not None else tuple(items)
        return super().field(entry, depth)

    def single(self, entry: Field, depth: int) -> Any:
        """A value by the name of its field, or else by its kind."""
        rng, name = self.rng, entry.name
        if entry.kind == "string":
            return self._string(name)
        if name.endswith(("timeout_ms", "wait_ms")):
            return rng.choice(_WAITS)
        if rng.random() < 0.8:
            if name in {"broker_id", "replica_id", "voter_id", "leader_id", "leader"}:
                return rng.choice(_IDS)
            if name in {"broker_epoch", "previous_broker_epoch", "replica_epoch"}:
                return rng.choice((*self.known.epochs, -1))
            if name == "iterations":
                return rng.choice((4_096, 8_192, 16_384, 16_385))
            if entry.kind == "uuid":
                return rng.choice((bytes(16), _METADATA_TOPIC, *self.known.topic_ids))
            if name == "hmac" and self.known.hmacs:
                return rng.choice(self.known.hmacs)
            if entry.kind in {"int8", "int16", "int32", "int64"}:
                return rng.choice(_NUMBERS)
        if name == "client_host_address":
            return rng.choice((b"\x7f\0\0\1", bytes(16), b""))
        if name == "request_principal":
            return b"\0\0\5User" + rng.choice((b"\nANONYMOUS", b"\6admin", b"\7reader")) + b"\0\0"
        if name == "num_partitions":
            return rng.choice(_NUMBERS)
        return super().single(entry, depth)

    def _string(self, name: str) -> str:
        rng = self.rng
        if name in _STRINGS and rng.random() < 0.9:
            return rng.choice(_STRINGS[name])
        if name.startswith("principal"):
            return rng.choice(_PRINCIPALS)
        if name == "cluster_id" and rng.random() < 0.8:
            return self.known.cluster_id
        return rng.choice(_CONFIGS if name == "name" and rng.random() < 0.3 else _NAMES)


def request(rng: Random, known: Known, key: int, version: int, correlation_id: int) -> bytes:
    """A valid request, without its length.

    Values that the version has no place for are drawn again.
    """
    kind = lookup("request", key)
    assert kind is not None, f"API {key} is declared"
    header = RequestHeader(
        api_key=key,
        api_version=version,
        correlation_id=correlation_id,
        client_id=rng.choice(("fuzz", "", "é", None)),
    )
    while True:
        message = Values(rng, known).message(layout(kind, version))
        if isinstance(message, m.EnvelopeRequest) and rng.random() < 0.8:
            message.request_data = _inner(rng, known)
        try:
            return encode_request(header, message)
        except EncodeError:
            continue


def _inner(rng: Random, known: Known) -> bytes:
    """A request that a broker may forward."""
    ranges = controller_ranges(RELEASE)
    key = rng.choice(sorted(forwardable(RELEASE) & ranges.keys()))
    low, high = ranges[key]
    return request(rng, known, key, rng.randint(low, high), rng.randrange(1_000))


def _flipped(rng: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        changed[rng.randrange(len(data))] = rng.choice((0, 0xFF, 0x7F, 0x80, rng.randrange(256)))
    return bytes(changed)


def _shorter(rng: Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def _longer(rng: Random, data: bytes) -> bytes:
    return data + rng.randbytes(rng.randint(1, 50))


def _noise(rng: Random, data: bytes) -> bytes:
    return data[:8] + rng.randbytes(rng.choice((1, 10, 100, 5_000)))


def _huge_count(rng: Random, data: bytes) -> bytes:
    at = 8 + rng.randrange(max(1, len(data) - 8))
    count = rng.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x00\x0f\xff\xff"))
    return data[:at] + count + data[at + rng.choice((0, len(count))) :]


def _other_version(rng: Random, data: bytes) -> bytes:
    version = rng.choice((-(2**15), -1, 2**15 - 1, data[3] + 1, rng.randrange(30)))
    return data[:2] + version.to_bytes(2, "big", signed=True) + data[4:]


def _other_key(rng: Random, data: bytes) -> bytes:
    key = rng.choice((-(2**15), -1, 2**15 - 1, rng.randrange(100)))
    return key.to_bytes(2, "big", signed=True) + data[2:]


_SPOIL: Final[Mapping[str, Callable[[Random, bytes], bytes]]] = {
    "flipped": _flipped,
    "shorter": _shorter,
    "longer": _longer,
    "noise": _noise,
    "huge count": _huge_count,
    "other version": _other_version,
    "other key": _other_key,
}
_LENGTHS: Final = (-1, -(2**31), 2**31 - 1, 100 * 1024 * 1024 + 1, 1)


def drawn(seed: int, cell: Cell, number: int, known: Known) -> Frame:
    """The frame of a number: every second one is valid, a tenth goes in after a login."""
    rng = Random(f"{seed} {cell} {number}")
    turn = number // 2 % 10
    door: LogIn = "login" if turn == 0 else "before" if turn == 1 else "plain"
    user = rng.choice(USERS)
    _, key, version = cell
    if number % 2 == 0:
        count = rng.choice((1, 1, 1, 1, 1, 1, 1, 2, 5))
        whole = [request(rng, known, key, version, rng.randrange(2**31)) for _ in range(count)]
        pieces = rng.choice((1, 1, 1, 1, 3))
        closes = key in _LOGIN or (key == PRODUCE and any(map(_wants_no_answer, whole)))
        data = b"".join(map(framed, whole))
        return Frame(cell, number, door, user, data, pieces=pieces, closes=closes)
    data = request(rng, known, key, version, rng.randrange(2**31))
    how = rng.choice((*_SPOIL, "cut", "length"))
    if how == "cut":
        data = framed(data)[: rng.randrange(4, len(data) + 4)]
        return Frame(cell, number, door, user, data, spoilt=how, cut=True)
    if how == "length":
        size = rng.choice(_LENGTHS)
        whole_data = size.to_bytes(4, "big", signed=True) + data
        return Frame(cell, number, door, user, whole_data, spoilt=how, cut=size == 2**31 - 1)
    return Frame(cell, number, door, user, framed(_SPOIL[how](rng, data)), spoilt=how)


def _wants_no_answer(data: bytes) -> bool:
    return bool(decode_request(data)[1].acks == 0)
