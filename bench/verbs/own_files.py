"""Production's files for nodes that start here with them: pure.

Replaced are addresses, folders, the connection to ZooKeeper, secrets and certificates. What was one
address stays one, what differed differs, and every other value is as it was written. So a node
starts here, reaches others and logs in to them if it does so in production.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from posixpath import normpath
from typing import Final, NamedTuple

from emulator.config import jaas
from emulator.config.authorizer import CLASS as AUTHORIZER
from emulator.config.authorizer import STANDARD, SUPER_USERS
from emulator.config.listeners import (
    ANY_ADDRESS,
    SASL_PROTOCOLS,
    TLS_PROTOCOLS,
    HostPort,
    Listener,
    host_port,
    listeners_of,
    voters_of,
)
from emulator.config.reading import name_list
from emulator.config.sasl import CONTROLLER_MECHANISM, MECHANISMS, SCRAM, jaas_key, prefix_of
from emulator.config.zookeeper import connect_string
from emulator.operations.preflight.node_file import (
    BETWEEN,
    BETWEEN_PROTOCOL,
    BOOTSTRAP,
    BUILDER,
    CONNECT,
    ENABLE,
    NAMES,
    PROTOCOL_MAP,
    ROLES,
    VOTERS,
    Properties,
    same_host,
)
from emulator.operations.preflight.targets import ACL_AUTHORIZERS
from emulator.servers.ports import HOST
from emulator.servers.zk_dump import is_secret_config

LISTENERS, ADVERTISED = "listeners", "advertised.listeners"
_FOLDERS: Final = ("log.dirs", "log.dir", "metadata.log.dir")
_SSL: Final = re.compile(r"(?P<prefix>(?:listener\.name\..+\.)?)ssl\.(?P<name>.+)")
_KEYS: Final = frozenset({"keystore.location", "keystore.key", "keystore.certificate.chain"})
_KEPT: Final = frozenset({"client.auth", "enabled.protocols", "endpoint.identification.algorithm"})
"""Of TLS: everything else is about a certificate."""
_LEFT_OUT: Final = (
    "zookeeper.ssl.",
    "zookeeper.client",
    "zookeeper.set.acl",
    "kraftbridge.zookeeper.",
    "kraftbridge.trace.",
    "kraftbridge.faults.",
)
"""Of production's ZooKeeper; and whatever writes elsewhere than into log folders."""
_CLASSES: Final = ("callback.handler.class", "sasl.login.class", BUILDER)
_NO_SECRETS: Final = frozenset({"username", "tokenauth", "serviceName"})
"""Options of login modules."""
_NOWHERE: Final = "kraftbridge.metrics.port"
_MALFORMED: Final = "malformed"


@dataclass(frozen=True, slots=True)
class OwnFile:
    """One file to start with. ``metas``: folder here -> the ``meta.properties`` that it had."""

    name: str
    node_id: int | None
    values: Mapping[str, str] = field(repr=False)
    metas: Mapping[Path, Mapping[str, str]] = field(default_factory=dict)

    @property
    def migrates(self) -> bool:
        """Whether a broker in ZooKeeper mode is to be registered with the controllers."""
        return self.values.get(ENABLE, "").strip().lower() == "true"

    @property
    def in_kraft(self) -> bool:
        """Whether it is a node's in KRaft mode."""
        return bool(self.values.get(ROLES, "").strip())


class Here(NamedTuple):
    """Where nodes start: ``host:port`` of ZooKeeper, a folder, free ports, files of certificates.

    ``key``: PEM of the key and certificate that every node has; ``trusted``: of those it trusts.
    """

    zookeeper: str
    folder: Path
    ports: Iterator[int]
    key: Path
    trusted: Path


class OwnFiles:
    """The files of all nodes, as they start here.

    Args:
        present: files that nodes have now.
        targets: files that brokers are to have in KRaft mode.
        live: ``host:port`` -> broker, of those of which there is no file.
        here: see there.
        known_users: whether the controllers' logs may have users of SCRAM, which are not known.
    """

    def __init__(
        self,
        present: Sequence[Properties],
        targets: Sequence[Properties],
        live: Mapping[str, int],
        here: Here,
        *,
        known_users: bool = True,
    ) -> None:
        self._here = here
        self._ports: dict[tuple[object, ...], int] = {}
        self._told: dict[tuple[str, int], tuple[object, int]] = {}
        """Advertised address -> whose it is, and its port here."""
        self._folders: dict[tuple[object, str], Path] = {}
        self._secrets: dict[str, str] = {}
        self.taken: dict[str, int] = {}
        """``host:port`` here -> the broker without a file that is registered there."""
        for place, number in live.items():
            self._is_live(place, number)
        given = [one for one in present if one.is_controller]
        given += [*_made_controllers(given)]
        later = {one.node_id: one for one in targets if one.finds_controllers}
        present = [
            _migrating(one, later.get(one.node_id, next(iter(given), None))) for one in present
        ]
        self._controllers = {one.node_id: _Controller(one) for one in given}
        self._voters = _voters(given)
        every = [*present, *targets]
        self._open = {name for one in every for name in _without_login(one, known_users)}
        self._logins = {pair: text for one in reversed(every) for pair, text in _logins(one)}
        self.controllers = [self._mapped(one) for one in given]
        self.brokers = [self._mapped(one) for one in present if not one.is_controller]
        self.targets = [self._mapped(one) for one in targets if not one.is_controller]

    def _is_live(self, place: str, number: int) -> None:
        try:
            told = host_port(place)
        except ValueError:
            return
        port = self._port("live", place)
        self._told[told.host.lower(), told.port] = (number, port)
        self.taken[f"{HOST}:{port}"] = number

    def _port(self, *what: object) -> int:
        if what not in self._ports:
            self._ports[what] = next(self._here.ports)
        return self._ports[what]

    def as_given(self, text: str) -> str:
        """What a node says of its folders here, with the names that they have in the files."""
        for (_, name), place in reversed(self._folders.items()):  # data-10 before data-1
            text = text.replace(str(place), name)
        return text

    # ---------------------------------------------------------------- one file
    def _mapped(self, one: Properties) -> OwnFile:
        values = {key: one.get(key) for key in one.values if not one.provides(key)}
        here = _on_loopback(one)
        found = dict(self._plain(one, values))
        found |= self._listeners(one, values, here)
        found |= self._others(values)
        found |= self._to_controllers(one, values)
        found |= self._security(one, values)
        folders, metas = self._log_folders(one, values, here)
        found |= folders
        if found.get(BETWEEN):
            found[BETWEEN] = found[BETWEEN].upper()
        found[_NOWHERE] = "-1"
        return OwnFile(one.name, one.node_id, found, metas)

    def _plain(self, one: Properties, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """What stays, with other secrets; without what only production has."""
        for key, value in values.items():
            if _SSL.fullmatch(key) or key.startswith(_LEFT_OUT):
                continue
            if key.endswith(_CLASSES) or (key == AUTHORIZER and not _is_judged(one, value)):
                continue
            if key.endswith("sasl.jaas.config"):
                yield key, self._login(value)
            else:
                yield key, self._secret(value) if is_secret_config(key) else value

    def _login(self, text: str) -> str:
        """The same login module with other passwords; alike where they were."""
        try:
            found = jaas.one_module(text)
        except ValueError:
            return _MALFORMED
        options = " ".join(
            f'{key}="{_quoted(one) if key in _NO_SECRETS else self._secret(one)}"'
            for key, one in found.options.items()
        )
        return f"{found.name} {found.flag.lower()} {options};".replace(" ;", ";")

    def _secret(self, value: str) -> str:
        return self._secrets.setdefault(value, f"made-up-{len(self._secrets)}") if value else ""

    # ---------------------------------------------------------------- addresses
    def _listeners(
        self, one: Properties, values: Mapping[str, str], here: object
    ) -> dict[str, str]:
        """Where it listens, and what it says about that; a text that is malformed stays so."""
        text, told = values.get(LISTENERS, ""), values.get(ADVERTISED, "")
        if not text and not one.is_controller:
            text = "PLAINTEXT://:9092"
        found = {LISTENERS: text} if text else {}
        ports: dict[str, int] = {}
        if listening := _parsed(text):
            for x in listening:
                ports[x.name] = self._port(here, _bound(x), x.port) if x.port else 0
            kept = ADVERTISED not in one.values and not one.is_controller
            found[LISTENERS] = ",".join(
                f"{x.name}://{x.host if kept and x.host == '0.0.0.0' else HOST}:{ports[x.name]}"  # noqa: S104 - it is refused
                for x in listening
            )
        if advertised := _parsed(told):
            found[ADVERTISED] = ",".join(
                self._advertised(one, x, ports.get(x.name)) for x in advertised
            )
        elif told:
            found[ADVERTISED] = told
        return found

    def _advertised(self, one: Properties, told: Listener, port: int | None) -> str:
        """A listener as others reach it: the port on which it listens, unless that is another's."""
        if told.host == "0.0.0.0":  # noqa: S104 - it is refused
            return f"{told.name}://{told.host}:{told.port}"
        own = self._port(one.name, told.name, told.port) if port is None else port
        if not told.host:  # each has the name of its machine
            return f"{told.name}://{HOST}:{own}"
        owner: object = one.name if one.node_id is None else one.node_id
        whose, known = self._told.setdefault((told.host.lower(), told.port), (owner, own))
        return f"{told.name}://{HOST}:{own if whose == owner else known}"

    def _others(self, values: Mapping[str, str]) -> dict[str, str]:
        """The controllers and ZooKeeper as it looks for them; a text that is malformed stays so."""
        found = {}
        if text := values.get(VOTERS):
            try:
                voters = voters_of(text).items()
                found[VOTERS] = ",".join(f"{x}@{HOST}:{self._voter(x, at)}" for x, at in voters)
            except ValueError:
                found[VOTERS] = text
        if text := values.get(BOOTSTRAP):
            try:
                servers = [host_port(one) for one in name_list(text)]
                found[BOOTSTRAP] = ",".join(f"{HOST}:{self._server(at)}" for at in servers)
            except ValueError:
                found[BOOTSTRAP] = text
            if "controller" in values.get(ROLES, "") and VOTERS not in found:
                # Ours have static quorums alone.
                found[VOTERS] = ",".join(
                    f"{x}@{HOST}:{self._voter(x, at)}" for x, at in self._voters.items()
                )
        if text := values.get(CONNECT):
            try:
                found[CONNECT] = f"{self._here.zookeeper}{connect_string(text)[1]}"
                if text.endswith("/") and text.count("/") > 1:
                    found[CONNECT] += "/"
            except ValueError:
                found[CONNECT] = text
        return found

    def _voter(self, number: int, at: HostPort) -> int:
        """The port here of a voter as a file names it; one that nobody has if it is elsewhere."""
        known = self._controllers.get(number)
        if known is not None and known.is_at(at):
            return self._port_of(known, at.port)
        return self._server(at)

    def _server(self, at: HostPort) -> int:
        for surely in (True, False):
            for one in self._controllers.values():
                if one.is_at(at, surely=surely):
                    return self._port_of(one, at.port)
        return self._port("nobody", at.host.lower(), at.port)

    def _port_of(self, known: _Controller, port: int) -> int:
        return self._port(_on_loopback(known.file), known.bound[port], port)

    # ---------------------------------------------------------------- logins, certificates
    def _to_controllers(self, one: Properties, values: Mapping[str, str]) -> dict[str, str]:
        """Logins to the controllers that a JVM has from elsewhere: those of another file."""
        found = {}
        for name, kind in _mechanisms(one):
            key = jaas_key(name, kind)
            if name.upper() in self._open or values.get(key) or kind not in MECHANISMS:
                continue
            known = self._logins.get((name, kind))
            found[key] = self._login(known) if known else _MADE_UP_LOGIN[kind == "PLAIN"]
            if not known and one.is_controller and values.get(SUPER_USERS):
                found[SUPER_USERS] = f"{values[SUPER_USERS]};User:{MADE_UP_NAME}"
        return found

    def _security(self, one: Properties, values: Mapping[str, str]) -> dict[str, str]:
        """Protocols without logins that ours cannot have; a made-up certificate where one was."""
        found = {}
        protocols = dict(one.written_protocols)
        for name in [x for x in protocols if x.upper() in self._open]:
            protocols[name] = protocols[name].replace("SASL_PLAINTEXT", "PLAINTEXT")
            protocols[name] = protocols[name].replace("SASL_SSL", "SSL")
        if PROTOCOL_MAP in values:
            names = one.names(NAMES)
            found[PROTOCOL_MAP] = ",".join(
                f"{x if x in names else x.upper()}:{kind}" for x, kind in protocols.items()
            )
        listening = [x.name for x in _parsed(values.get(LISTENERS, ""))]
        if not {*protocols.values(), *listening, values.get(BETWEEN_PROTOCOL, "")} & TLS_PROTOCOLS:
            return found
        found |= {"ssl.truststore.location": str(self._here.trusted), "ssl.truststore.type": "PEM"}
        keyed = [prefix_of(name) for name in listening]
        for key, value in values.items():
            if match := _SSL.fullmatch(key):
                if match["name"] in _KEYS:
                    keyed.append(match["prefix"])
                elif match["name"] in _KEPT:
                    found[key] = value
        for prefix in keyed:
            found |= {
                f"{prefix}ssl.keystore.location": str(self._here.key),
                f"{prefix}ssl.keystore.type": "PEM",
            }
        if one.is_controller and values.get(SUPER_USERS) and _by_certificate(one):
            # Whom production's certificates name is not known here.
            found[SUPER_USERS] = f"{values[SUPER_USERS]};User:ANONYMOUS;{MADE_UP_USER}"
        return found

    # ---------------------------------------------------------------- folders
    def _log_folders(
        self, one: Properties, values: Mapping[str, str], here: object
    ) -> tuple[dict[str, str], dict[Path, Mapping[str, str]]]:
        found: dict[str, str] = {}
        metas: dict[Path, Mapping[str, str]] = {}
        node = (one.is_controller, one.name if one.node_id is None else one.node_id)
        of = here if here == HOST else node
        for key in _FOLDERS:
            if key not in values:
                continue
            names = name_list(values[key])
            found[key] = ",".join(str(self._folder(of, name)) for name in names)
            metas |= {
                self._folder(of, name): one.metas[name] for name in names if name in one.metas
            }
        if not {"log.dirs", "log.dir"} & found.keys():
            found["log.dirs"] = str(self._folder(of, "Kafka's default"))
        return found, metas

    def _folder(self, of: object, name: str) -> Path:
        key = of, normpath(name)
        if key not in self._folders:
            self._folders[key] = self._here.folder / f"data-{len(self._folders)}"
        return self._folders[key]


MADE_UP_NAME: Final = "rehearsal"
_MADE_UP_LOGIN: Final = tuple(
    f'org.apache.kafka.common.security.{module} required username="{MADE_UP_NAME}" '
    f'password="made-up"{users};'
    for module, users in (
        ("scram.ScramLoginModule", ""),
        ("plain.PlainLoginModule", f' user_{MADE_UP_NAME}="made-up"'),
    )
)
"""Where no file has one: by SCRAM, by PLAIN."""
MADE_UP_USER: Final = f"User:CN={MADE_UP_NAME}"


class _Controller:
    """Where a controller really is. ``bound``: port -> key of its listener."""

    def __init__(self, file: Properties) -> None:
        self.file = file
        own = [x for x in _parsed(file.get(LISTENERS)) if x.name in file.names(NAMES)]
        told = [x for x in _parsed(file.get(ADVERTISED)) if x.name in file.names(NAMES)]
        self.bound = {x.port: _bound(x) for x in own}
        hosts = {x.host for x in (*own, *told) if x.host not in ANY_ADDRESS}
        voter = (file.voter_addresses or {}).get(-1 if file.node_id is None else file.node_id)
        self.hosts = hosts or ({voter.host} if voter else set())

    def is_at(self, at: HostPort, *, surely: bool = False) -> bool:
        """Whether an address may lead to it, or surely does."""
        if at.port not in self.bound:
            return False
        if not self.hosts:
            return True
        if any(same_host(at.host, one) for one in self.hosts):
            return True
        # Only DNS knows whether an address is that of a name.
        return not surely and all(_is_ip(at.host) != _is_ip(one) for one in self.hosts)


def _made_controllers(given: Sequence[Properties]) -> Iterator[Properties]:
    """Controllers of which there is no file, so that there is a quorum: like the first one."""
    if not given:
        return
    first, known = given[0], {one.node_id for one in given}
    for number in (first.voter_addresses or {}).keys() - known:
        gone = {ADVERTISED, "metadata.log.dir", "log.dir", "broker.id"}
        values = {key: one for key, one in first.values.items() if key not in gone}
        at = (first.voter_addresses or {})[number]
        port = (_parsed(first.get(LISTENERS)) or (Listener("", "", 0, ""),))[0].port
        place = f"//{at}".replace("\\", r"\\")
        listeners = re.sub(rf"//[^,]*:{port}\b", place, first.get(LISTENERS))
        more = {"node.id": str(number), LISTENERS: listeners, "log.dirs": f"/made-up/{number}"}
        yield Properties(f"a controller {number}, of which no file was given", {**values, **more})


def _migrating(one: Properties, source: Properties | None) -> Properties:
    """A broker's file with what is added to it for the migration, as another file has it."""
    if source is None or not one.is_untouched:
        return one
    names = source.names(NAMES)
    own = {x.name: one.protocols.get(x.name, x.name) for x in _parsed(one.get(LISTENERS))}
    told = {**own, **one.written_protocols}
    told |= {name: source.protocols.get(name, "PLAINTEXT") for name in names}
    keys = {VOTERS, BOOTSTRAP, CONTROLLER_MECHANISM} & source.values.keys()
    prefixes = tuple(prefix_of(name) for name in names)
    more = {key: x for key, x in source.values.items() if key in keys or key.startswith(prefixes)}
    more |= {ENABLE: "true", NAMES: ",".join(names)}
    more[PROTOCOL_MAP] = ",".join(f"{name}:{kind}" for name, kind in told.items())
    return replace(one, values={**one.values, **more})


def _voters(given: Sequence[Properties]) -> dict[int, HostPort]:
    """Every controller, for one that names its quorum in another way."""
    return {
        one.node_id: HostPort(next(iter(known.hosts), ""), next(iter(known.bound)))
        for one in given
        if one.node_id is not None and (known := _Controller(one)).bound
    }


def _parsed(text: str) -> tuple[Listener, ...]:
    """Listeners, their names as Kafka has them (ListenerName); none if the text is malformed."""
    try:
        return tuple(replace(one, name=one.name.upper()) for one in listeners_of(text, {}))
    except ValueError:
        return ()


def _bound(one: Listener) -> str:
    """Listeners with the same port and key cannot both be bound."""
    return one.host if ":" in one.host else ""


def _on_loopback(one: Properties) -> object:
    """The machine of a node: this one if it can be reached on it only, else one of its own."""
    ends = _parsed(one.get(ADVERTISED) or one.get(LISTENERS))
    return HOST if ends and all(x.host in {HOST, "localhost"} for x in ends) else one.name


def _mechanisms(one: Properties) -> Iterator[tuple[str, str]]:
    """By which mechanisms it logs in to controllers' listeners, or lets others log in."""
    for name in one.names(NAMES):
        if one.protocols.get(name) in SASL_PROTOCOLS:
            kinds = one.mechanisms(name) if one.is_controller else []
            for kind in dict.fromkeys((*kinds, one.get(CONTROLLER_MECHANISM))):
                yield name, kind


def _logins(one: Properties) -> Iterator[tuple[tuple[str, str], str]]:
    """Listener of controllers and mechanism -> login module."""
    for name, kind in _mechanisms(one):
        key = jaas_key(name, kind)
        if one.get(key) and not one.provides(key):
            yield (name, kind), one.get(key)


def _without_login(one: Properties, known_users: bool) -> Iterator[str]:
    """Listeners whose logins ours cannot read, or that need users whom it does not know.

    Yields:
        Names in upper case.
    """
    controllers = {name.upper() for name in one.names(NAMES)}
    if known_users:
        yield from (name.upper() for name, kind in _mechanisms(one) if kind in SCRAM)
    for name, protocol in one.protocols.items():
        if protocol in SASL_PROTOCOLS and name.upper() not in controllers:
            kinds = one.mechanisms(name)
            known = all(kind in MECHANISMS and one.get(jaas_key(name, kind)) for kind in kinds)
            if not known or name.upper() == one.inter_broker_listener:
                yield name.upper()


def _by_certificate(one: Properties) -> bool:
    return any(one.protocols.get(name) == "SSL" for name in one.names(NAMES))


def _is_judged(one: Properties, name: str) -> bool:
    """Whether ours has an authorizer, or refuses it as Kafka's does."""
    if one.is_zookeeper_broker:
        return name == STANDARD
    return name == STANDARD or name in ACL_AUTHORIZERS


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
