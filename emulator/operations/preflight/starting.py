"""Rules on each file by itself: whether Kafka starts with it, and its keys and values.

B17 says the same of KRaft brokers, B21 of the listener between brokers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

from emulator.config.authorizer import SUPER_USERS
from emulator.config.confidential import is_name, value_of
from emulator.config.java_text import trim, whole
from emulator.config.names import KAFKA_CONFIG_NAMES
from emulator.config.unknown import OWN_PREFIX, nearest
from emulator.config.zookeeper import CHROOTS, connect_string
from emulator.operations.preflight.endpoints import (
    ADVERTISED,
    LISTENERS,
    UNROUTABLE,
    advertised,
    hidden,
    listening,
    of_controller,
    problems,
)
from emulator.operations.preflight.engine import FindingOf, NotRun, Outcome, Severity, listed, rule
from emulator.operations.preflight.kafka_values import why_refused
from emulator.operations.preflight.node_file import (
    AUTHORIZER,
    CONNECT,
    CONTROL_PLANE,
    ENABLE,
    IBP,
    PROVIDERS,
    ROLES,
    Properties,
    number,
)
from emulator.operations.preflight.survey import Survey

KNOWN_ROLES: Final = ("broker", "controller")
HOST: Final = "is no host"
_B23: Final = FindingOf("B23", "KafkaConfig")
_STORE: Final = re.compile(r"(^|\.)ssl\.(keystore|truststore)\.location$", re.IGNORECASE)
_STOPS: Final = "the node does not start"


@rule(
    "B23",
    "each node starts with its file",
    "Half-way in the roll a broker did not come back: process.roles was misspelt. Elsewhere a "
    "broker advertised 0.0.0.0, or the connect string had the chroot after each server.",
)
def each_file(survey: Survey) -> Iterator[Outcome]:
    """What Kafka refuses in the file of a controller or of a ZooKeeper-mode broker."""
    if not survey.all_files:
        yield NotRun("B23", "no server.properties given: use -c")
        return
    for one in survey.all_files:
        for key in hidden(one):
            by = "Strimzi's scripts" if one.is_template(key) else "a config provider"
            yield NotRun("B23", f"{one.name} takes {key} from {by}, which is not asked here")
        yield from _roles(one)
        if not one.is_kraft_broker:  # B17 looks at those
            yield from _ids(one)
            for found in problems(one):
                yield _B23(one.at(found.key), found.fact, _STOPS, found.remedy)
        if one.is_controller:
            for found in of_controller(one):
                yield _B23(one.at(found.key), found.fact, _STOPS, found.remedy)
            yield from _older(one)
        yield from _control_plane(one)
        yield from _connect(one)
        yield from _folders(one)
        yield from _super_users(one)
    yield from _stores(survey)


def _stores(survey: Survey) -> Iterator[Outcome]:
    """Keystores and truststores: no rule opens one."""
    places: dict[str, list[str]] = {}
    for one in survey.all_files:
        for key in sorted(one.values):
            if _STORE.search(key) and one.get(key) and not one.provides(key):
                kind = one.get(f"{key.removesuffix('location')}type") or "JKS"
                places.setdefault(kind.upper(), []).append(one.at(key))
    for kind, some in sorted(places.items()):
        yield NotRun(
            "B23",
            f"{listed(some)}: {kind} files are not opened, so their passwords, keys and the names "
            "and ends of their certificates are not known (keytool -list -v; --connect asks "
            "listeners)",
        )


def _older(one: Properties) -> Iterator[Outcome]:
    """What some releases of Kafka's controllers refuse, and others take."""
    wide = [end for end in listening(one) if end.host == UNROUTABLE]
    if one.get(ADVERTISED):
        yield _B23(
            one.at(ADVERTISED),
            one.get(ADVERTISED),
            "Kafka's controllers before 3.9 do not start with it; kraft-bridge does",
            "none with 3.9, and none with kraft-bridge",
            Severity.INFO,
        )
    elif wide:
        yield _B23(
            one.at(LISTENERS),
            f"{wide[0].name} listens on {UNROUTABLE}",
            "Kafka's controllers of 3.9.0 do not start with it (KAFKA-18281); others do",
            f"none with other releases; else leave the host empty: {wide[0].name}://:"
            f"{wide[0].port}",
            Severity.INFO,
        )


def _roles(one: Properties) -> Iterator[Outcome]:
    roles = [trim(part) for part in one.get(ROLES).split(",")] if one.get(ROLES) else []
    for role in sorted(set(roles) - set(KNOWN_ROLES)):
        near = get_close_matches(role.lower(), KNOWN_ROLES, n=1)
        yield _B23(
            one.at(ROLES),
            f"{role}: unknown" if role else f"{one.get(ROLES)}: an empty role",
            _STOPS,
            f"write {near[0]}" if near else f"write {' or '.join(KNOWN_ROLES)}",
        )
    for role in sorted(role for role, count in Counter(roles).items() if count > 1):
        yield _B23(one.at(ROLES), f"{role} is named more than once", _STOPS, "name it once")


def _ids(one: Properties) -> Iterator[Outcome]:
    ids = {key: one.get(key) for key in ("node.id", "broker.id") if one.get(key)}
    if any(one.provides(key) for key in ids):
        yield NotRun("B23", f"{one.name} takes its id from a config provider")
    elif one.is_controller and one.node_id is None:
        yield _B23(
            one.at("node.id"),
            f"{ids['node.id']!r} is no id" if "node.id" in ids else "missing",
            _STOPS,
            f"write the id that {ROLES}=controller is to have, in digits",
        )
    elif len({text if (x := number(text)) is None else x for text in ids.values()}) > 1:
        yield _B23(
            one.at("node.id"),
            f"{ids['node.id']}, and broker.id={ids['broker.id']}",
            f"{_STOPS}: both must be equal",
            "remove node.id" if one.is_zookeeper_broker else "remove broker.id",
        )


def _control_plane(one: Properties) -> Iterator[Outcome]:
    key = CONTROL_PLANE
    if key not in one.values or one.is_kraft_broker:
        return
    name = one.get(key).upper()
    if one.is_controller:
        yield _B23(one.at(key), name, f"{_STOPS}: KRaft has no such listener", "remove it")
    elif hidden(one) or one.provides(key):
        return
    elif name == one.inter_broker_listener:
        yield _B23(
            one.at(key), f"{name} is the listener between brokers too", _STOPS, "name another one"
        )
    elif name not in (names := sorted({end.name for end in advertised(one)})):
        yield _B23(
            one.at(key),
            f"{name} is not among the advertised listeners {', '.join(names)}",
            _STOPS,
            "name one of them, or remove it",
        )


def _connect(one: Properties) -> Iterator[Outcome]:
    text = one.get(CONNECT)
    needed = one.is_zookeeper_broker or (one.is_controller and one.flag(ENABLE))
    if not needed or one.provides(CONNECT):
        return
    if not text:
        if one.is_zookeeper_broker:  # B12 says so of controllers
            yield _B23(
                one.at(CONNECT),
                "empty" if CONNECT in one.values else "missing",
                f"{_STOPS}: in ZooKeeper mode it needs one",
                "write the connect string that all brokers have",
            )
    elif why := unusable(text):
        yield _B23(
            one.at(CONNECT),
            f"{text}: {why}",
            _missed(why),
            "write it as host:port[,host:port…][/chroot]",
        )


def unusable(text: str) -> str:
    """Why ZooKeeper's client cannot use a connect string; empty if it can.

    >>> unusable("zk1:2181,zk2:2181/kafka"), unusable("zk1:2181/")
    ('', '')
    >>> unusable("zk1:2181/kafka,zk2:2181/kafka")
    'the chroot is written once, after the last server'
    >>> unusable("zk1:2181;zk2:2181")
    "'zk1:2181;zk2' is no host"
    """
    _, slash, path = text.partition("/")
    try:
        servers = connect_string(text)[0]
    except ValueError as error:
        return str(error)
    for server in servers:
        if not all(c.isalnum() or c in "-._%:" for c in server.host):
            return f"{server.host!r} {HOST}"
        if ":" in server.host and server.host.count(":") < 2:
            return f"{server.host!r} {HOST}"
    if slash and path and {"", ".", ".."} & set(path.split("/")):
        return f"/{path} is no path: it ends with a slash, or has two together"
    return ""


def _missed(why: str) -> str:
    if why == CHROOTS:
        return "Kafka takes all behind the first slash for the chroot: it makes an empty tree there"
    return "Kafka waits for a server that is not there, and ends" if why.endswith(HOST) else _STOPS


def _folders(one: Properties) -> Iterator[Outcome]:
    key = "log.dirs" if "log.dirs" in one.values else "log.dir"
    if key in one.values and not one.names(key):
        yield _B23(one.at(key), "empty", _STOPS, "name at least one folder")
    if one.provides(key):
        return
    counts = Counter(one.folders)
    for folder in sorted(folder for folder, count in counts.items() if count > 1):
        yield _B23(
            one.at(key),
            f"{folder} is named {counts[folder]} times",
            "Kafka ends when it opens its folders",
            "name each folder once",
        )


def _super_users(one: Properties) -> Iterator[Outcome]:
    if not one.get(AUTHORIZER):
        return
    for user in (trim(part) for part in one.get(SUPER_USERS).split(";")):
        kind, colon, name = user.partition(":")
        if user and not (kind and colon and name):
            yield _B23(
                one.at(SUPER_USERS),
                f"{user}: no principal",
                _STOPS,
                "write it as User:name, with a semicolon between two",
            )


# Rules on keys and values: spelt as Kafka knows them, of the type that Kafka reads.

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
                of_operator = one.is_template(key)
                yield _B25(
                    one.at(key),
                    f"{found[0]}: no provider of {PROVIDERS} fills it in",
                    "Strimzi's scripts fill it in when the container starts; Kafka itself does not"
                    if of_operator
                    else "Kafka takes it as it is written",
                    "give the file that the running container has made of it"
                    if of_operator
                    else f"write the value, or name the provider in {PROVIDERS}",
                    Severity.INFO if of_operator else Severity.WARNING,
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
    "what it does not know: the controllers started a cluster of their own.",
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
