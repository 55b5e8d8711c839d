"""Which brokers a rehearsal starts, and their properties in each mode: pure.

The registrations of the dump give ids, racks and listeners by name; a broker's own file is believed
where there is one. Every listener is PLAINTEXT on the loopback address, whatever it is in
production.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Any, Final

from emulator.config.zookeeper import DIGEST
from emulator.servers.ports import HOST
from emulator.servers.zk_dump import is_secret_config

IDS: Final = "/brokers/ids/"
NEWEST: Final = "3.9"
IBP: Final = "inter.broker.protocol.version"
_BETWEEN: Final = "inter.broker.listener.name"
_BETWEEN_PROTOCOL: Final = "security.inter.broker.protocol"
_NAME: Final = re.compile(r"[^\s,:=\\]+")
"""Of a listener: it becomes a part of properties."""
_CONTROLLER: Final = "CONTROLLER"
_CONTROLLERS: Final = 3_000
_FOLDER: Final = "none"
_LEFT: Final = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "broker.rack",
        "broker.id.generation.enable",
        "config.providers",
        "control.plane.listener.name",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "early.start.listeners",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "metric.reporters",
        "node.id",
        "process.roles",
        "super.users",
        "zookeeper.connect",
        "zookeeper.metadata.migration.enable",
        "zookeeper.set.acl",
        _BETWEEN,
    }
)
_LEFT_PREFIXES: Final = (
    "allow.everyone",
    "authorizer.",
    "config.providers.",
    "confluent.",
    "delegation.token.",
    "kraftbridge.",
    "listener.name.",
    "password.encoder.",
    "principal.builder.",
    "sasl.",
    "security.",
    "ssl.",
    "zookeeper.ssl.",
    "zookeeper.client",
    "zookeeper.clientCnxnSocket",
)
"""Of a broker's file: addresses, folders, logins and keys, which a rehearsal has of its own."""


class BrokerMode(Enum):
    """How a broker is started."""

    ZOOKEEPER = "ZooKeeper mode"
    MIGRATION = "ZooKeeper mode with the migration on"
    KRAFT = "KRaft mode"


@dataclass(frozen=True, slots=True)
class NodeFile:
    """The file of a broker as it is now: its name, and its properties."""

    name: str
    broker_id: int
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """One broker; ``source``: where its release is from."""

    id: int
    listeners: tuple[str, ...]
    between: str
    """The listener of other brokers and of the controllers."""
    release: str
    source: str
    rack: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further properties, of its file."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All brokers by id, what had to be assumed, and the name of the controllers' listener."""

    brokers: tuple[BrokerPlan, ...]
    assumed: tuple[str, ...]
    controller_listener: str

    @property
    def release(self) -> str:
        """The lowest release, at which the controllers are formatted."""
        return min(self.brokers, key=lambda one: _numbers(one.release)).release

    @property
    def controllers(self) -> tuple[int, ...]:
        """Ids of three controllers: 3000 to 3002, or the next thousand's if brokers have one."""
        brokers = {one.id for one in self.brokers}
        some = (tuple(range(first, first + 3)) for first in count(_CONTROLLERS, 1_000))
        return next(ids for ids in some if not brokers & {*ids})

    @property
    def between(self) -> str:
        """The listener by which controllers reach brokers: that of the first broker."""
        return self.brokers[0].between


class PlanError(ValueError):
    """No rehearsal can be made of this; one sentence."""


def plan(
    nodes: Mapping[str, bytes | None],
    files: Sequence[NodeFile],
    releases: Sequence[str],
    release: str | None = None,
) -> Plan:
    """Which brokers a rehearsal starts.

    Args:
        nodes: path -> data, of the dump.
        files: of brokers as they are now.
        releases: that can be emulated.
        release: of brokers whose file says none; None: the newest.

    Raises:
        PlanError: there is no broker, or a registration is malformed.
    """
    registered = {
        int(name): _registration(path, data)
        for path, data in nodes.items()
        if (name := path.removeprefix(IDS)) != path and name.isascii() and name.isdigit()
    }
    by_id: dict[int, NodeFile] = {}
    for one in files:
        by_id.setdefault(one.broker_id, one)
    ids = sorted(registered.keys() | by_id.keys())
    if not ids:
        raise PlanError(
            "no broker is registered in it, and no -c names the file of one: dump the tree while "
            "the brokers run"
        )
    brokers = tuple(
        _broker(number, registered.get(number, {}), by_id.get(number), releases, release)
        for number in ids
    )
    names = {name for one in brokers for name in one.listeners}
    taken = _CONTROLLER in names
    own = next(f"{_CONTROLLER}{n}" for n in range(2, 99) if f"{_CONTROLLER}{n}" not in names)
    assumed = [*_assumed(brokers, by_id), *_second(files, by_id)]
    return Plan(brokers, tuple(assumed), own if taken else _CONTROLLER)


def _second(files: Sequence[NodeFile], by_id: Mapping[int, NodeFile]) -> Iterator[str]:
    """Files of brokers that have another file: they are started in 'own files' alone."""
    for one in files:
        if (first := by_id[one.broker_id]) is not one:
            yield f"broker {one.broker_id} has {first.name}: {one.name} is of the same broker"


def _registration(path: str, data: bytes | None) -> Mapping[str, Any]:
    try:
        found = json.loads(data or b"")
        if isinstance(found, dict) and _is_kafkas(found):
            return found
    except (ValueError, RecursionError):
        pass
    raise PlanError(f"{path} is not the registration of a broker: dump the tree again")


def _is_kafkas(found: Mapping[str, Any]) -> bool:
    """Whether what is read of a registration has the types that Kafka writes."""
    ends = found.get("endpoints") or []
    return isinstance(found.get("rack"), str | None) and (
        isinstance(ends, list) and all(isinstance(one, str) for one in ends)
    )


def _broker(
    number: int,
    registered: Mapping[str, Any],
    file: NodeFile | None,
    releases: Sequence[str],
    wanted: str | None,
) -> BrokerPlan:
    values = {} if file is None else {key: one.strip() for key, one in file.values.items()}
    ends = values.get("listeners", "").split(",") if values.get("listeners") else []
    ends = ends or [str(one) for one in registered.get("endpoints") or ["PLAINTEXT://"]]
    listeners = tuple(dict.fromkeys(one.partition("://")[0].strip().upper() for one in ends))
    odd = [one for one in listeners if not _NAME.fullmatch(one)]
    if odd:
        where = f"{IDS}{number}" if file is None else file.name
        raise PlanError(f"{where}: {odd[0]!r} is no name of a listener")
    said = values.get(_BETWEEN) or values.get(_BETWEEN_PROTOCOL)
    between = said or ("PLAINTEXT" if file is not None else listeners[0])
    known = ".".join(values.get(IBP, "").partition("-")[0].split(".")[:2])
    if file is not None and known in releases:
        release, source = known, f"{IBP} in {file.name}"
    else:
        release, source = (wanted, "--release") if wanted else (NEWEST, "assumed")
    extra = {key: one for key, one in values.items() if _further(key) and "${" not in one}
    rack = values.get("broker.rack") or registered.get("rack")
    return BrokerPlan(number, listeners, between.upper(), release, source, rack, extra)


def _further(key: str) -> bool:
    return key not in _LEFT and not key.startswith(_LEFT_PREFIXES)


def taken(key: str) -> bool:
    """Whether anything is taken from a property of a broker's file."""
    own = {"listeners", "broker.rack", _BETWEEN, _BETWEEN_PROTOCOL}
    return key in own or (_further(key) and not is_secret_config(key))


def _assumed(brokers: Sequence[BrokerPlan], files: Mapping[int, NodeFile]) -> list[str]:
    found = []
    unknown = [one for one in brokers if one.source == "assumed"]
    if unknown:
        found.append(
            f"release {NEWEST} of {_named(unknown)}: no file given has {IBP}, and there is no "
            "--release"
        )
    chosen = [one for one in brokers if one.id not in files and len(one.listeners) > 1]
    if chosen:
        names = ", ".join(sorted({one.between for one in chosen}))
        found.append(
            f"listener between {_named(chosen)}: {names}, the first of each, as no file was given"
        )
    without = [one for one in brokers if one.id not in files]
    if without:
        found.append(
            f"every other property of {_named(without)}: Kafka's default, as no file was given"
        )
    return found


def _named(brokers: Sequence[BrokerPlan], most: int = 10) -> str:
    names = ", ".join(str(one.id) for one in brokers[:most])
    more = f" and {len(brokers) - most} more" if len(brokers) > most else ""
    return f"broker{'s' if len(brokers) > 1 else ''} {names}{more}"


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


@dataclass(frozen=True, slots=True)
class Around:
    """What a broker is started beside: ZooKeeper, and the voters of one attempt.

    ``login``: to ZooKeeper, ``user:password``; empty: none.
    """

    zookeeper: str
    voters: str
    controller_listener: str
    attempt: int
    login: str = ""


def properties(
    broker: BrokerPlan, ports: Sequence[int], mode: BrokerMode, around: Around
) -> dict[str, str]:
    """The properties of a broker in a mode.

    Args:
        broker: see there.
        ports: of its listeners, in their order.
        mode: to be started in.
        around: see there.
    """
    pairs = zip(broker.listeners, ports, strict=True)
    found = {
        **broker.extra,
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in pairs),
        _BETWEEN: broker.between,
        "log.dirs": _FOLDER,
        "kraftbridge.release": broker.release,
    }
    names = [*broker.listeners]
    if broker.rack is not None:
        found["broker.rack"] = broker.rack
    if mode is not BrokerMode.ZOOKEEPER:
        names.append(around.controller_listener)
        found["controller.quorum.voters"] = around.voters
        found["controller.listener.names"] = around.controller_listener
    found["listener.security.protocol.map"] = ",".join(f"{name}:PLAINTEXT" for name in names)
    if mode is BrokerMode.KRAFT:
        found = {key: one for key, one in found.items() if not key.startswith("zookeeper.")}
        found.pop(IBP, None)
        return found | {"process.roles": "broker", "node.id": str(broker.id)}
    found |= {"broker.id": str(broker.id), "zookeeper.connect": around.zookeeper}
    if around.login:
        found[DIGEST] = around.login
    if mode is BrokerMode.MIGRATION:
        found["zookeeper.metadata.migration.enable"] = "true"
    return found


def load_per_s(partitions: int) -> float:
    """Changes a second, if it is not said: 1 for each 1,000 partitions, between 1 and 10.

    >>> load_per_s(90), load_per_s(2_500), load_per_s(200_000)
    (1.0, 2.5, 10.0)
    """
    return min(10.0, max(1.0, partitions / 1_000))
