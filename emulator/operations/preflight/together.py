"""Rules on files beside each other: what two nodes cannot both have, and what all should have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from emulator.config.zookeeper import connect_string
from emulator.operations.preflight.endpoints import (
    ListenerAddress,
    advertised,
    controller_names,
    listening,
    parsed,
)
from emulator.operations.preflight.engine import Finding, FindingOf, NotRun, Outcome, Severity, rule
from emulator.operations.preflight.node_file import (
    CONNECT,
    ENABLE,
    NAMES,
    Properties,
    same_host,
)
from emulator.operations.preflight.survey import Survey

LOOPBACK: Final = "localhost"
_B24: Final = FindingOf("B24", "KafkaServer.createBrokerInfo, LogManager.lockLogDirs")
_W22: Final = FindingOf("W22", "KIP-515")
_W26: Final = FindingOf("W26", "KafkaConfig")


@rule(
    "B24",
    "each node has an address and folders of its own",
    "A broker's file was copied for the next, with its advertised address: Kafka refused to "
    "start the second. On one machine two nodes had one folder, or one port.",
)
def own_places(survey: Survey) -> Iterator[Outcome]:
    """Advertised addresses, and the folders and ports of nodes that run on one machine."""
    if not survey.all_files:
        yield NotRun("B24", "no server.properties given: use -c")
        return
    # A file without an id may be that of any target.
    replaced = {None, *(one.node_id for one in survey.targets)}
    later = [one for one in survey.properties if one.node_id not in replaced]
    reported: set[tuple[str, str, str]] = set()
    for files in (survey.properties, [*survey.targets, *later]):
        for first, second in combinations([_place(one) for one in files], 2):
            mine = first.file.node_id
            if mine is not None and mine == second.file.node_id:
                continue  # B05 and B17 say so
            for found in (*_addresses(first, second), *_machines(first, second)):
                if (key := (found.znode, found.fact, found.consequence)) not in reported:
                    reported.add(key)
                    yield found
    yield from _controllers_at(survey)
    yield from _registered(survey)


@dataclass(frozen=True, slots=True)
class _Place:
    """What a node needs for itself: its advertised addresses, machine, ports and folders."""

    file: Properties
    addresses: Mapping[tuple[str, int], ListenerAddress]
    hosts: frozenset[str]
    bound: tuple[ListenerAddress, ...]
    folders: frozenset[str]


def _place(one: Properties) -> _Place:
    ends = [] if one.is_controller else advertised(one)
    known = {(end.host.lower(), end.port): end for end in ends if end.port and not end.wildcard}
    keys = ("log.dirs" if one.names("log.dirs") else "log.dir", "metadata.log.dir")
    folders = [path for key in keys if not one.provides(key) for path in one.names(key)]
    paths = frozenset(path.rstrip("/") or "/" for path in folders)
    return _Place(one, known, _hosts(one), tuple(_bound(one)), paths)


def _addresses(first: _Place, second: _Place) -> Iterator[Finding]:
    for key in sorted(first.addresses.keys() & second.addresses.keys()):
        yield _B24(
            second.file.at("advertised.listeners"),
            f"{second.addresses[key].host}:{key[1]}, as {first.file.name} has",
            "clients reach one of the two brokers at the address of both; in ZooKeeper mode the "
            "second does not start",
            "advertise each broker at an address of its own",
        )


def _controllers_at(survey: Survey) -> Iterator[Finding]:
    """Brokers that advertise the address of a controller."""
    at: dict[tuple[str, int], str] = {}
    for one in survey.all_files:
        for node_id, there in (one.voter_addresses or {}).items():
            at.setdefault((there.host.lower(), there.port), f"controller {node_id}")
        for there in one.bootstrap_servers or ():
            at.setdefault((there.host.lower(), there.port), "a controller")
    for one in survey.all_files:
        for end in () if one.is_controller else advertised(one):
            controller = at.get((end.host.lower(), end.port))
            if controller is not None and not end.wildcard:
                yield _B24(
                    one.at("advertised.listeners"),
                    f"{end.name} at {end.host}:{end.port}, where {controller} is, as the "
                    "addresses of the quorum say",
                    "one of the two does not start, or is taken for the other",
                    "give each node an address of its own",
                )


def _machines(first: _Place, second: _Place) -> Iterator[Finding]:
    """Nodes of one machine: certainly, or a broker and a controller at one name."""
    if first.hosts & second.hosts:
        yield from _machine(first, second, None)
    elif first.file.is_controller != second.file.is_controller and any(
        same_host(x, y) for x in _reached(first.file) for y in _reached(second.file)
    ):
        yield from _machine(first, second, Severity.WARNING)


def _machine(first: _Place, second: _Place, severity: Severity | None) -> Iterator[Finding]:
    for port in sorted({x.port for x in first.bound for y in second.bound if _clash(x, y)}):
        yield _B24(
            second.file.at("listeners"),
            f"port {port}, as {first.file.name} has, on the same machine",
            "the second node does not start",
            "give each node a port of its own",
            severity,
        )
    for folder in sorted(first.folders & second.folders):
        yield _B24(
            second.file.at("log.dirs"),
            f"{folder}, as {first.file.name} has, on the same machine",
            "the second node does not start: the folder is locked, or is another node's",
            "give each node folders of its own",
            severity,
        )


def _hosts(one: Properties) -> frozenset[str]:
    """Machines on which a node certainly runs: addresses that it binds.

    Loopback is one if the other nodes are to reach it there. What it advertises else may be a
    proxy of many machines, and each machine has a loopback address of its own.
    """
    found = {end.host.lower() for end in _bound(one) if not end.wildcard}
    found = {host for host in found if not same_host(host, LOOPBACK)}
    if any(same_host(host, LOOPBACK) for host in _reached(one)):
        found.add(LOOPBACK)
    return frozenset(found)


def _reached(one: Properties) -> list[str]:
    """Hosts at which other nodes reach it."""
    if one.is_controller:
        own = (one.voter_addresses or {}).get(-1 if one.node_id is None else one.node_id)
        return [own.host] if own is not None else []
    return [end.host for end in advertised(one) if end.name == one.inter_broker_listener]


def _bound(one: Properties) -> list[ListenerAddress]:
    """Where it listens, if its file says so."""
    ends = listening(one) if one.get("listeners") else []
    names = () if one.is_controller else controller_names(one)
    return [end for end in ends if end.name not in names]


def _clash(one: ListenerAddress, other: ListenerAddress) -> bool:
    same = one.wildcard or other.wildcard or same_host(one.host, other.host)
    return one.port == other.port != 0 and same


def _registered(survey: Survey) -> Iterator[Outcome]:
    """Addresses of other brokers that are alive; a broker refuses to start with one of them."""
    live: dict[tuple[str, int], int] = {}
    for broker_id in sorted(survey.live_brokers):
        for text in survey.endpoints(broker_id):
            for end in parsed(text)[0]:
                live.setdefault((end.host.lower(), end.port), broker_id)
    for one in survey.brokers:
        for end in advertised(one):
            other = live.get((end.host.lower(), end.port))
            if one.node_id is None or other is None or other == one.node_id or end.wildcard:
                continue
            yield _B24(
                one.at("advertised.listeners"),
                f"{end.host}:{end.port}, at which broker {other} is registered",
                "the broker does not start in ZooKeeper mode",
                "advertise each broker at an address of its own",
            )


@rule(
    "W22",
    "all nodes log in to ZooKeeper in one way",
    "The controllers' files lacked the brokers' settings for ZooKeeper: they did not connect to "
    "its TLS port, or created znodes that everybody could change.",
)
def one_login(survey: Survey) -> Iterator[Outcome]:
    """TLS towards ZooKeeper, and whether the znodes that a node creates are closed to others."""
    for one in survey.controllers:
        if not one.flag(ENABLE):
            continue
        found = next((x for x in (_login(one, y) for y in survey.brokers) if x is not None), None)
        if found is not None:
            yield found
        else:
            yield from _socket(survey, one)


def _login(one: Properties, other: Properties) -> Outcome | None:
    tls, acl = "zookeeper.ssl.client.enable", "zookeeper.set.acl"
    if one.flag(tls) != other.flag(tls) and _one_port(one, other):
        return _W22(
            one.at(tls),
            f"{_flag(one, tls)}; {other.name} has {_flag(other, tls)}, for the same servers",
            "a port of ZooKeeper speaks TLS or does not: the controller gets no connection",
            "set zookeeper.ssl.* as on the brokers",
            Severity.BLOCKER,
        )
    if one.flag(acl) != other.flag(acl):
        return _W22(
            one.at(acl),
            f"{_flag(one, acl)}; {other.name} has {_flag(other, acl)}",
            "the controller creates znodes that everybody may change"
            if other.flag(acl)
            else "the controller creates znodes that the brokers may not be able to change",
            "set it as on the brokers",
        )
    return None


def _flag(one: Properties, key: str) -> str:
    return one.get(key) or "not set"


def _one_port(one: Properties, other: Properties) -> bool:
    try:
        mine, theirs = (connect_string(x.get(CONNECT))[0] for x in (one, other))
    except ValueError:
        return False
    return any(x.port == y.port and same_host(x.host, y.host) for x in mine for y in theirs)


def _socket(survey: Survey, one: Properties) -> Iterator[Outcome]:
    key = "zookeeper.clientCnxnSocket"
    if one.flag("zookeeper.ssl.client.enable") and not one.get(key):
        yield _W22(
            one.at(key),
            "not set, and zookeeper.ssl.client.enable is true",
            "Kafka's controllers speak TLS to ZooKeeper with the Netty client only, and get no "
            "connection; kraft-bridge does not need it",
            f"set {key}=org.apache.zookeeper.ClientCnxnSocketNetty",
            None if any(other.get(key) for other in survey.brokers) else Severity.INFO,
        )


_OF_LISTENER: Final = re.compile(r"listener\.name\.([^.]+)\.")
_TLS: Final = (
    r"ssl\.((keystore|truststore)\.(location|password|type|certificate\.chain|certificates|key)"
    r"|key\.password)"
)
_ALIKE: Final = (
    (
        re.compile(rf"(listener\.name\.[^.]+\.)?{_TLS}"),
        "with Kafka's default nobody connects to the node by TLS, or it does not start",
    ),
    (
        re.compile(rf"zookeeper\.({_TLS}|clientCnxnSocket)"),
        "the node gets no connection to ZooKeeper, or not as the others",
    ),
    (
        re.compile(r"authorizer\.class\.name|super\.users"),
        "the node lets in whom the others refuse, or refuses whom they let in",
    ),
    (
        re.compile(r"broker\.rack"),
        "in ZooKeeper mode topics are not created, and in KRaft mode not spread over racks",
    ),
    (
        re.compile(r"log\.dirs?"),
        "the node begins in the default folder for logs, where nothing of it is",
    ),
    (
        re.compile(r"min\.insync\.replicas|default\.replication\.factor"),
        "where this node decides, records have fewer copies",
    ),
)
"""Keys that nodes of one kind have all, or none of them; what it costs not to have one."""
_OTHERWISE: Final = {"log.dir": ("log.dirs",), "log.dirs": ("log.dir",)}


@rule(
    "W26",
    "nodes of one kind have the same keys",
    "When the file of one broker of many was written anew, a line was lost. It came back in the "
    "roll with an authorizer less than the others, and everybody was let in.",
)
def alike(survey: Survey) -> Iterator[Outcome]:
    """Keys of TLS, rights, racks, folders and replicas that few files lack, and most have."""
    brokers = [x for x in survey.brokers if not x.is_untouched] or [*survey.brokers]
    targets = [x for x in survey.targets if x.is_kraft_broker]
    for files in (brokers, targets, [*survey.controllers]):
        counts: dict[str, int] = {}
        for one in files:
            for key in one.values:
                counts[key] = counts.get(key, 0) + 1
        for key in sorted(counts):
            cost = next((cost for keys, cost in _ALIKE if keys.fullmatch(key)), "")
            lacking = [one for one in files if cost and not _has(one, key)]
            missing = [one for one in lacking if _needs(one, key)]
            for one in missing if 2 * len(lacking) < len(files) else ():
                yield _W26(
                    one.at(key),
                    f"not set; {len(files) - len(lacking)} of {len(files)} files have it",
                    cost,
                    "write it as in the others, unless this node is to differ",
                )


def _needs(one: Properties, key: str) -> bool:
    """Whether a node reads a key: it has that listener, TLS, ZooKeeper, or that form of a store."""
    if key.startswith("zookeeper."):
        return bool(one.get(CONNECT)) and not _has_store_otherwise(one, key)
    if "ssl." not in key:
        return True
    protocols = {x.name.lower(): x.security_protocol for x in one.listeners()}
    protocols |= {x.lower(): one.protocols.get(x, "") for x in one.names(NAMES)}
    of_one = _OF_LISTENER.match(key)
    read = [protocols.get(of_one[1], "")] if of_one else [*protocols.values()]
    return any("SSL" in x for x in read) and not _has_store_otherwise(one, key)


def _has_store_otherwise(one: Properties, key: str) -> bool:
    """Whether a store is there in another form (KIP-651): a file, PEM, or PEM in the property."""
    store = "ssl.truststore" if "truststore" in key else "ssl.keystore"
    prefix = key.partition("ssl.")[0]
    if key.endswith((".certificate.chain", ".certificates", "keystore.key")):
        return _has(one, f"{prefix}{store}.location")
    general = "" if prefix.startswith("zookeeper.") else one.get(f"{store}.type")
    kind = one.get(f"{prefix}{store}.type") or general
    inline = any(_has(one, f"{prefix}{store}.{x}") for x in ("certificate.chain", "certificates"))
    return inline or (kind.upper() == "PEM" and key.endswith("password"))


def _has(one: Properties, key: str) -> bool:
    """Whether a file has a key, for all listeners or for one, by one of its names."""
    general = _OF_LISTENER.sub("", key)
    names = {key, general, *_OTHERWISE.get(key, ())}
    return not names.isdisjoint(one.values) or (
        key == general and any(_OF_LISTENER.sub("", x) == key for x in one.values)
    )
