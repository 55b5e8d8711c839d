"""One node's ``server.properties``, with the ``meta.properties`` of its folders.

It is read as Kafka 3.9 reads it, also where it is wrong: a value that cannot be read is None or
empty here, and the rules say so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from posixpath import normpath
from typing import Final

from emulator.config.java_text import INT_MAX, trim, whole
from emulator.config.listeners import (
    SECURITY_PROTOCOLS,
    HostPort,
    Listener,
    host_port,
    implied_protocols,
    listeners_of,
    voters_of,
)
from emulator.config.reading import metadata_dir
from emulator.metadata.metadata_version import MetadataVersion

ENABLE: Final = "zookeeper.metadata.migration.enable"
IBP: Final = "inter.broker.protocol.version"
VOTERS: Final = "controller.quorum.voters"
BOOTSTRAP: Final = "controller.quorum.bootstrap.servers"
NAMES: Final = "controller.listener.names"
PROTOCOL_MAP: Final = "listener.security.protocol.map"
AUTHORIZER: Final = "authorizer.class.name"
CONNECT: Final = "zookeeper.connect"
ROLES: Final = "process.roles"
PROVIDERS: Final = "config.providers"
CONTROL_PLANE: Final = "control.plane.listener.name"
_VARIABLE: Final = re.compile(r"\$\{([^}]*?):(?:[^}]*?:)?[^}]*?\}")
"""What a config provider fills in, as ``${file:PATH:KEY}`` (ConfigTransformer)."""
_OPERATORS: Final = ("${STRIMZI_", "${CERTS_STORE_PASSWORD}")
BETWEEN: Final = "inter.broker.listener.name"
BETWEEN_PROTOCOL: Final = "security.inter.broker.protocol"
MECHANISMS: Final = "sasl.enabled.mechanisms"
BROKER_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
DEFAULT_MECHANISM: Final = "GSSAPI"
BUILDER: Final = "principal.builder.class"
DEFAULT_BUILDER: Final = (
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
)
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1", "0:0:0:0:0:0:0:1"})


@dataclass(frozen=True, slots=True)
class FolderContents:
    """What a node's folder holds besides ``meta.properties``, by the names of folders in it.

    ``topic_ids``: of each partition; empty: no ``partition.metadata``. ``unread``: why one could
    not be read. ``others``: what Kafka names otherwise: ``-delete``, ``-future``, ``-stray``.
    ``quorum_state``: that of its metadata log, empty without one; None: no such log.
    ``malformed``: partitions whose ``partition.metadata`` is there, and not as Kafka writes it.
    """

    topic_ids: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    quorum_state: bytes | None = None
    malformed: tuple[str, ...] = ()

    @property
    def partitions(self) -> frozenset[str]:
        """Names of the folders of partitions, whatever is in them."""
        return frozenset((*self.topic_ids, *self.unread, *self.malformed))


@dataclass(frozen=True)  # no slots: what is derived is kept
class Properties:
    """One ``server.properties``: its name, its content, and that of its folders.

    ``meta``: the first ``meta.properties`` found; ``metas``: all of them, by folder; ``unread``:
    why one could not be read, by folder; ``held``: what else is in the folders that are here.
    """

    name: str
    values: Mapping[str, str]
    meta: Mapping[str, str] = field(default_factory=dict)
    metas: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, FolderContents] = field(default_factory=dict)

    def get(self, key: str, default: str = "") -> str:
        """Value of a key, without blanks around it."""
        return trim(self.values.get(key, default))

    def provides(self, key: str) -> bool:
        """Whether a config provider fills in a part of a value, so that it is not known here.

        What names no provider of ``config.providers`` stays as it is written.

        >>> Properties("a", {"x": "${env:X}", "config.providers": "env"}).provides("x")
        True
        >>> Properties("a", {"x": "${env:X}"}).provides("x")
        False
        """
        value = self.values.get(key, "")
        if "${" not in value:  # of nearly every value of a file
            return False
        named = {found[1] for found in _VARIABLE.finditer(value)}
        return bool(named & set(self.names(PROVIDERS)))

    def is_template(self, key: str) -> bool:
        """Whether a value has what Strimzi's scripts replace when the container starts."""
        return any(one in self.values.get(key, "") for one in _OPERATORS)

    def at(self, key: str) -> str:
        """The place of a key, as a finding names it."""
        return f"{self.name}: {key}"

    def names(self, key: str) -> tuple[str, ...]:
        """Entries of a comma separated value."""
        parts = self.values.get(key, "").split(",")
        return tuple(entry for part in parts if (entry := trim(part)))

    def flag(self, key: str) -> bool:
        """Whether a boolean is set."""
        return self.get(key).lower() == "true"

    @property
    def folders(self) -> tuple[str, ...]:
        """``log.dirs``, or else ``log.dir``, each as its shortest path: Kafka compares those."""
        key = "log.dirs" if self.names("log.dirs") else "log.dir"
        return tuple(normpath(folder) for folder in self.names(key))

    @property
    def log_dir(self) -> str:
        """The folder with the metadata log, as it is written; empty: none is named."""
        return metadata_dir(self.get)

    @property
    def principal_builder(self) -> str:
        """The class that builds a caller's principal; empty for Kafka's own."""
        builder = self.get(BUILDER)
        return "" if builder == DEFAULT_BUILDER else builder

    @property
    def is_controller(self) -> bool:
        """Whether it is a KRaft controller's."""
        return "controller" in self.names(ROLES)

    @property
    def is_kraft_broker(self) -> bool:
        """Whether it is a KRaft broker's, and no controller's."""
        return "broker" in self.names(ROLES) and not self.is_controller

    @property
    def is_zookeeper_broker(self) -> bool:
        """Whether it is a ZooKeeper-mode broker's."""
        return not self.get(ROLES)

    @property
    def is_untouched(self) -> bool:
        """Whether it is a ZooKeeper-mode broker's to which nothing of a migration was added."""
        return self.is_zookeeper_broker and not any(
            self.get(key) for key in (ENABLE, VOTERS, BOOTSTRAP, NAMES)
        )

    @property
    def node_id(self) -> int | None:
        """``node.id``, or else ``broker.id``; None when neither is a number."""
        return number(self.get("node.id") or self.get("broker.id"))

    @property
    def protocol(self) -> MetadataVersion | None:
        """The value of ``inter.broker.protocol.version``; None when unset or unknown."""
        text = re.sub(r"^(\d+\.\d+)\.\d+", r"\1", self.get(IBP))
        try:
            return MetadataVersion.from_ibp(text) if text else None
        except ValueError:
            return None

    @property
    def voters(self) -> frozenset[int]:
        """Ids in ``controller.quorum.voters``."""
        ids = (number(trim(one.partition("@")[0])) for one in self.names(VOTERS))
        return frozenset(one for one in ids if one is not None)

    @property
    def voter_addresses(self) -> Mapping[int, HostPort] | None:
        """``controller.quorum.voters``; None if it cannot be read."""
        try:
            return voters_of(self.get(VOTERS))
        except ValueError:
            return None

    @property
    def bootstrap_servers(self) -> tuple[HostPort, ...] | None:
        """``controller.quorum.bootstrap.servers``; None if it cannot be read."""
        try:
            return tuple(host_port(one.rpartition("@")[2]) for one in self.names(BOOTSTRAP))
        except ValueError:
            return None

    @property
    def finds_controllers(self) -> bool:
        """Whether it says where the controllers are, in either of Kafka's two ways."""
        return bool(self.get(VOTERS) or self.get(BOOTSTRAP))

    @cached_property
    def written_protocols(self) -> Mapping[str, str]:
        """Entries of ``listener.security.protocol.map`` as written, protocols in upper case."""
        parts = (one.rpartition(":") for one in self.names(PROTOCOL_MAP))
        return {
            trim(name if colon else protocol): trim(protocol).upper() if colon else ""
            for name, colon, protocol in parts
        }

    @cached_property
    def protocols(self) -> Mapping[str, str]:
        """Security protocol of each listener, as Kafka maps them: by the map, or by the name."""
        written = self.written_protocols
        if PROTOCOL_MAP in self.values:
            # Kafka's names of listeners are in upper case, whatever the file says (ListenerName).
            return {**written, **{name.upper(): protocol for name, protocol in written.items()}}
        known = {name: name for name in SECURITY_PROTOCOLS}
        if self.is_zookeeper_broker:
            return known
        return {**implied_protocols(self.names(NAMES), self.get("listeners")), **known}

    def mechanisms(self, *listeners: str) -> list[str]:
        """SASL mechanisms that it accepts on listeners."""
        found: dict[str, None] = {}
        for name in listeners:
            own = self.names(f"listener.name.{name.lower()}.{MECHANISMS}")
            found.update(dict.fromkeys(own or self.names(MECHANISMS) or (DEFAULT_MECHANISM,)))
        return list(found)

    def listeners(self, key: str = "listeners") -> tuple[Listener, ...]:
        """``listeners``, or the advertised ones; empty if unset or unreadable."""
        try:
            return listeners_of(self.get(key), self.protocols)
        except ValueError:
            return ()

    @property
    def inter_broker_listener(self) -> str:
        """The listener between brokers, in upper case: named, or else as its security protocol."""
        return (self.get(BETWEEN) or self.get(BETWEEN_PROTOCOL) or "PLAINTEXT").upper()

    @property
    def inter_broker_protocol(self) -> str:
        """The security protocol between brokers; empty if no map has the listener's name."""
        if name := self.get(BETWEEN).upper():
            return self.protocols.get(name, "")
        return (self.get(BETWEEN_PROTOCOL) or "PLAINTEXT").upper()

    @property
    def controller_addresses(self) -> tuple[HostPort, ...]:
        """Where a controller says that it can be reached.

        Its entry among the voters and what it advertises; else the bootstrap servers, else where it
        listens, whose host may be empty.
        """
        names = self.names(NAMES)
        own = (self.voter_addresses or {}).get(-1 if self.node_id is None else self.node_id)
        listeners = self.listeners("advertised.listeners")
        found = [HostPort(one.host, one.port) for one in listeners if one.name in names]
        found = [*([own] if own else []), *found] or list(self.bootstrap_servers or ())
        if not found:
            found = [HostPort(one.host, one.port) for one in self.listeners() if one.name in names]
        return tuple(found)


def number(text: str) -> int | None:
    """An id as Kafka parses it (Integer.parseInt): a sign and zeros before it do not matter.

    >>> number("7"), number("+07"), number("x"), number("-1"), number("9999999999")
    (7, 7, None, None, None)
    """
    try:
        return whole(text, 0, INT_MAX)
    except ValueError:
        return None


def same_host(one: str, other: str) -> bool:
    """Whether two names may be of one host: equal, both loopback, or one short and one full.

    >>> same_host("c1", "C1.example.com"), same_host("localhost", "127.0.0.1")
    (True, True)
    >>> same_host("c1.a.com", "c1.b.com"), same_host("10.0.0.1", "10")
    (False, False)
    """
    left, right = one.lower().rstrip("."), other.lower().rstrip(".")
    if left == right or {left, right} <= _LOOPBACK:
        return True
    short, full = sorted((left, right), key=len)
    named = bool(re.fullmatch(r"[a-z][a-z0-9_-]*", short))
    return named and full.startswith(f"{short}.")
