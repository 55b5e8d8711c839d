"""Rules on keys and values: spelt as Kafka knows them, of the type that Kafka reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from emulator.config.confidential import is_name, value_of
from emulator.config.java_text import trim, whole
from emulator.config.names import KAFKA_CONFIG_NAMES
from emulator.config.unknown import OWN_PREFIX, nearest
from emulator.operations.preflight.engine import FindingOf, NotRun, Outcome, Severity, rule
from emulator.operations.preflight.kafka_values import why_refused
from emulator.operations.preflight.node_file import IBP, PROVIDERS, Properties
from emulator.operations.preflight.survey import Survey

# Values that Kafka 3.9 takes by themselves and refuses beside others.
#
# Source: KafkaConfig.validateValues and the config classes of groups, Kafka 3.9.2, which
# ``tests/conformance`` asks about every number.

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


_B25: Final = FindingOf("B25", "KafkaConfig.configDef")
_W20: Final = FindingOf("W20", "KafkaConfig.configNames")
_FOREIGN: Final = (OWN_PREFIX, "confluent.", "config.", "listener.name.", "rsm.config.", "rlmm.")
"""Prefixes of keys that are not Kafka's own, or hold a name of the operator's."""
_VARIABLE: Final = re.compile(r"\$\{[^}]*\}")
_JUDGED_MAX: Final = 100
"""Unknown keys of one file that are compared with the known ones."""


@rule(
    "B25",
    "each value is of the type that Kafka reads",
    "A comment stood behind a number, on its line. Java's properties have no such comments: the "
    "number was none, and the node did not start.",
)
def typed(survey: Survey) -> Iterator[Outcome]:
    """Numbers, their bounds alone and beside others, booleans, and names from a fixed list."""
    if not survey.all_files:
        yield NotRun("B25", "no server.properties given: use -c")
    for one in survey.all_files:
        wrong = {key: why for key, text in one.values.items() if (why := _why(one, key, text))}
        for key, why in contradictions(one.values):
            wrong.setdefault(key, why)
        for key in sorted(wrong):
            text = one.get(key)
            yield _B25(
                one.at(key),
                f"{value_of(key, text)!r}: {wrong[key]}",
                "the node does not start",
                "write such a value; a comment needs a line of its own"
                if "#" in text
                else "write such a value",
            )
        for key in sorted(one.values.keys() - wrong.keys()):
            found = _VARIABLE.search(one.values[key])
            if found is not None and not one.provides(key):
                yield _B25(
                    one.at(key),
                    f"{found[0]}: no provider of {PROVIDERS} fills it in",
                    "Kafka takes it as it is written",
                    f"write the value, or name the provider in {PROVIDERS}",
                    Severity.WARNING,
                )


def _why(one: Properties, key: str, text: str) -> str:
    if one.provides(key):
        return ""
    judged = not one.is_zookeeper_broker or not trim(text)
    if key == IBP and judged and one.protocol is None:
        return "no version that Kafka 3.9 knows"  # B11 says so of ZooKeeper-mode brokers
    return why_refused(key, trim(text))


@lru_cache(1024)
def _nearest(key: str) -> str:
    """The known key that is most like another one: the files of a cluster have the same keys."""
    return nearest(key, KAFKA_CONFIG_NAMES)


@rule(
    "W20",
    "each key is spelt as Kafka knows it",
    "zookeeper.metadata.migration.enabled stood in the files instead of .enable. Kafka ignores "
    "what it does not know: the controllers started a cluster of their own, without a migration.",
)
def spelt(survey: Survey) -> Iterator[Outcome]:
    """Keys that Kafka does not know and that are nearly one that it knows."""
    if not survey.all_files:
        yield NotRun("W20", "no server.properties given: use -c")
    for one in survey.all_files:
        unknown = sorted(one.values.keys() - KAFKA_CONFIG_NAMES)
        unknown = [x for x in unknown if is_name(x) and not x.startswith(_FOREIGN)]
        for key in unknown[:_JUDGED_MAX]:
            near = _nearest(key)
            if near:
                yield _W20(
                    one.at(key),
                    f"unknown; {near} is known",
                    "Kafka ignores it, and what it was set for has its default",
                    f"write {near}, if it is meant",
                    Severity.INFO if near in one.values else None,
                )
