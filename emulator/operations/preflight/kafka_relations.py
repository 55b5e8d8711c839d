"""Values that Kafka 3.9 takes by themselves and refuses beside others.

Source: KafkaConfig.validateValues and the config classes of groups, Kafka 3.9.2, which
``tests/conformance`` asks about every number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from emulator.config.java_text import trim, whole
from emulator.operations.preflight.kafka_values import why_refused

_GROUPS: Final = tuple(
    (f"group.{kind}.{lesser}", low, f"group.{kind}.{greater}", high)
    for kind in ("consumer", "share")
    for lesser, low, greater, high in (
        ("min.heartbeat.interval.ms", 5_000, "heartbeat.interval.ms", 5_000),
        ("heartbeat.interval.ms", 5_000, "max.heartbeat.interval.ms", 15_000),
        ("min.heartbeat.interval.ms", 5_000, "max.heartbeat.interval.ms", 15_000),
        ("min.session.timeout.ms", 45_000, "session.timeout.ms", 45_000),
        ("session.timeout.ms", 45_000, "max.session.timeout.ms", 60_000),
        ("min.session.timeout.ms", 45_000, "max.session.timeout.ms", 60_000),
    )
)
_LOCK: Final = "group.share.record.lock.duration.ms"
_NOT_ABOVE: Final = (
    *_GROUPS,
    ("group.share.min.record.lock.duration.ms", 15_000, _LOCK, 30_000),
    (_LOCK, 30_000, "group.share.max.record.lock.duration.ms", 60_000),
    ("replica.fetch.wait.max.ms", 500, "replica.socket.timeout.ms", 30_000),
    ("replica.fetch.wait.max.ms", 500, "replica.lag.time.max.ms", 30_000),
    ("offsets.commit.required.acks", -1, "offsets.topic.replication.factor", 3),
)
"""A key, its default, the key whose value it may not exceed, and that one's default."""
_MIB: Final = 1024 * 1024
_ALONE: Final[Mapping[str, tuple[Callable[[int], bool], str]]] = {
    "compression.gzip.level": (lambda x: x == -1 or 1 <= x <= 9, "Kafka takes -1 or 1 to 9"),
    "log.cleaner.threads": (lambda x: x != 0, "Kafka divides by it"),
    "log.roll.jitter.ms": (lambda x: x >= 0, "Kafka takes numbers from 0"),
    "log.roll.ms": (lambda x: x >= 1, "Kafka takes numbers from 1"),
    "offsets.commit.required.acks": (lambda x: x >= -1, "Kafka takes numbers from -1"),
    "offsets.topic.compression.codec": (lambda x: 0 <= x <= 4, "Kafka takes 0 to 4"),
    "remote.log.manager.copier.thread.pool.size": (
        lambda x: x == -1 or x >= 1,
        "Kafka takes -1, or numbers from 1",
    ),
    "remote.log.manager.expiration.thread.pool.size": (
        lambda x: x == -1 or x >= 1,
        "Kafka takes -1, or numbers from 1",
    ),
}
"""Bounds that are not in the definitions."""


def contradictions(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each key with a value that Kafka refuses beside the others, and why.

    >>> list(contradictions({"log.retention.hours": "0"}))
    [('log.retention.hours', 'Kafka takes no 0; -1 stands for no limit')]
    >>> list(contradictions({"log.retention.hours": "0", "log.retention.ms": "5"}))
    []
    """
    number = _NumbersOfFile(values)
    for key, (valid, why) in _ALONE.items():
        if key in values and (value := number.of(key, None)) is not None and not valid(value):
            yield key, why
    for lesser, low, greater, high in _NOT_ABOVE:
        if lesser not in values and greater not in values:
            continue
        below, above = number.of(lesser, low), number.of(greater, high)
        if below is not None and above is not None and below > above:
            key = greater if greater in values else lesser
            yield key, f"{lesser} ({below}) may not be above {greater} ({above})"
    yield from _retention(number, values)
    yield from _connections(number, values)
    yield from _metadata_log(number, values)
    cleaners = number.of("log.cleaner.threads", 1)
    buffer = number.of("log.cleaner.dedupe.buffer.size", 128 * _MIB)
    if cleaners and buffer is not None and int(buffer / cleaners) <= _MIB:
        key = "log.cleaner.dedupe.buffer.size"
        yield (key if key in values else "log.cleaner.threads"), "1 MiB or less for each thread"
    protocols = values.get("group.coordinator.rebalance.protocols")
    if protocols is not None and "classic" not in (trim(x) for x in protocols.split(",")):
        yield "group.coordinator.rebalance.protocols", "Kafka refuses it without classic"


def _retention(number: _NumbersOfFile, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    key = next((x for x in map("log.retention.{}".format, _UNITS) if x in values), None)
    if key is not None and number.of(key, None) == 0:
        yield key, "Kafka takes no 0; -1 stands for no limit"


_UNITS: Final = ("ms", "minutes", "hours")
"""The first that is set counts."""


def _connections(number: _NumbersOfFile, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    delay, idle = "connection.failed.authentication.delay.ms", "connections.max.idle.ms"
    after, most = number.of(delay, 100), number.of(idle, 600_000)
    if after is not None and most is not None and 0 <= most <= after:
        yield (idle if idle in values else delay), f"{delay} ({after}) must be below {idle}"
    queued, largest = "queued.max.request.bytes", "socket.request.max.bytes"
    all_of, one = number.of(queued, -1), number.of(largest, 100 * _MIB)
    if all_of is not None and one is not None and 0 < all_of < one:
        yield queued, f"below {largest} ({one})"
    per = "max.connections.per.ip"
    if number.of(per, 1) == 0 and not trim(values.get(f"{per}.overrides", "")):
        yield per, f"Kafka takes 0 only with {per}.overrides"


def _metadata_log(number: _NumbersOfFile, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What a node with a metadata log refuses when it opens it (KafkaMetadataLog)."""
    enabled = trim(values.get("zookeeper.metadata.migration.enable", "")).lower()
    if not trim(values.get("process.roles", "")) and enabled != "true":
        return
    least, size = "metadata.log.segment.min.bytes", "metadata.log.segment.bytes"
    low, segment_bytes = number.of(least, 8 * _MIB), number.of(size, 1024 * _MIB)
    if low is not None and segment_bytes is not None and segment_bytes < low:
        yield (
            (size if size in values else least),
            f"{size} ({segment_bytes}) may not be below {low}",
        )


class _NumbersOfFile:
    """Whole numbers of a file; None where the text is no number that Kafka takes."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def of(self, key: str, default: int | None) -> int | None:
        """The value of a key, or its default."""
        text = trim(self._values.get(key, ""))
        if key not in self._values:
            return default
        return None if not text or why_refused(key, text) else whole(text)
