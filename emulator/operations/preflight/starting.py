"""Rules on each file by itself: whether Kafka starts with it at all.

B17 says the same of KRaft brokers, B21 of the listener between brokers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from emulator.config.authorizer import SUPER_USERS
from emulator.config.java_text import trim
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
from emulator.operations.preflight.engine import FindingOf, NotRun, Outcome, Severity, rule
from emulator.operations.preflight.node_file import (
    AUTHORIZER,
    CONNECT,
    ENABLE,
    ROLES,
    Properties,
    number,
)
from emulator.operations.preflight.survey import Survey

KNOWN_ROLES: Final = ("broker", "controller")
HOST: Final = "is no host"
_B23: Final = FindingOf("B23", "KafkaConfig")
_STOPS: Final = "the node does not start"


@rule(
    "B23",
    "each node starts with its file",
    "In the middle of the roll a broker did not come back: process.roles was misspelt. On other "
    "clusters a controller's listener was not among its listeners, a broker advertised 0.0.0.0, or "
    "the connect string had the chroot after each server.",
)
def each_file(survey: Survey) -> Iterator[Outcome]:
    """What Kafka refuses in the file of a controller or of a ZooKeeper-mode broker."""
    if not survey.all_files:
        yield NotRun("B23", "no server.properties given: use -c")
        return
    for one in survey.all_files:
        for key in hidden(one):
            why = f"{one.name} takes {key} from a config provider, which is not asked here"
            yield NotRun("B23", why)
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
    key = "control.plane.listener.name"
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
