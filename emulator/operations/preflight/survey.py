"""All input of the rules: no rule reads ZooKeeper or a file itself."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cached_property
from typing import Any, Final

import msgspec

from emulator.config.listeners import HostPort
from emulator.config.passwords import PasswordSettings
from emulator.config.reading import PropertyReader
from emulator.metadata.metadata_version import LATEST, MetadataVersion
from emulator.migration.taking_over.dry_run import DryRun, dry_run
from emulator.operations.preflight.controller_folder import ControllerFolder
from emulator.operations.preflight.node_file import Properties, number
from emulator.znodes.entities import entities
from emulator.znodes.passwords import Passwords
from emulator.znodes.tree import Tree, TreeNode

REDACTED: Final = b"<redacted>"
"""The text that ``zk dump`` prints instead of a secret."""
OPEN: Final = ("world", "anyone")


@dataclass(frozen=True, slots=True)
class DumpedZnode:
    """One znode of a dump. ``acl`` entries are (permissions, scheme, id)."""

    data: bytes | None
    version: int = 0
    ephemeral: bool | None = None
    """None: the dump does not have it."""
    acl: tuple[tuple[int, str, str], ...] = ((31, *OPEN),)
    mtime_ms: int | None = None
    """When its data was last written; None: not in the dump."""
    child_changes: int = 0
    """How often children were created or deleted (``cversion``)."""


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """Measured against the live ensemble, median, in milliseconds.

    ``read_ms``: one read answered by the server connected to; ``sync_ms``: one that its leader
    must answer.
    """

    read_ms: float
    sync_ms: float


class ListenerTrouble(Enum):
    """Why a listener did not answer as it should."""

    NAME = "the name does not resolve"
    REFUSED = "nothing listens there"
    SILENT = "no answer in time"
    PROTOCOL = "another protocol"
    CERTIFICATE = "the certificate is refused"
    NO_KAFKA = "no Kafka node"
    LOGIN = "the login is refused"


@dataclass(frozen=True, slots=True)
class Address:
    """A listener of a node, to be connected to. ``file``: whose settings of TLS and login count.

    ``node``: such as ``controller 101``. ``between``: nodes reach each other there, not clients.
    """

    node: str
    listener: str
    host: str
    port: int
    protocol: str
    file: Properties | None = None
    between: bool = True

    def __str__(self) -> str:
        """As a finding names it."""
        return f"{self.node}: {self.listener}://{HostPort(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class Probe:
    """How a connection to a listener went, from this machine.

    ``ends``: of the certificate. ``unseen``: what was not looked at, and why. ``ms``: until the
    answer to ApiVersions.
    """

    at: Address
    trouble: ListenerTrouble | None = None
    text: str = ""
    ends: datetime | None = None
    unseen: tuple[str, ...] = ()
    ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Probes:
    """All connections that were tried, when, and why ZooKeeper could not be asked (empty: was)."""

    tried: Sequence[Probe]
    at: datetime
    zookeeper: str = ""


@dataclass(frozen=True)
class Survey:
    """The known data of a cluster; every path is absolute, below the chroot."""

    nodes: Mapping[str, DumpedZnode]
    properties: Sequence[Properties] = ()
    """Files that the nodes have now."""
    targets: Sequence[Properties] = ()
    """Files that they are to have as KRaft nodes."""
    folders: Sequence[ControllerFolder] = ()
    """What the controllers' folders hold."""
    target_release: str = ""
    """A release of 4.x that is to follow; empty: none."""
    read_at_ms: int | None = None
    """When the tree was read, by the clock of the reader; None: unknown."""
    chroot: str = ""
    round_trips: RoundTrips | None = None
    identities: frozenset[str] = frozenset()
    """``scheme:id`` of the credentials the controller will have, such as ``sasl:kafka``."""
    closed: frozenset[str] = frozenset()
    """Paths that could not be read for want of rights; what is below them is unknown too."""
    closed_to: str = ""
    """The login that could not read them, if it is the controllers' too; empty: another login."""
    probes: Probes | None = None
    """Connections to the listeners; None: none was tried."""
    decodes: bool = True
    """Whether encoded passwords can be decoded here: the extra ``passwords`` is installed."""

    @cached_property
    def _children(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for path in sorted(self.nodes):
            parent, _, name = path.rpartition("/")
            found.setdefault(parent, []).append(name)
        return {parent: tuple(names) for parent, names in found.items()}

    def children(self, path: str) -> tuple[str, ...]:
        """Names below a path, ascending."""
        return self._children.get(path, ())

    def below(self, path: str) -> Iterator[tuple[str, DumpedZnode]]:
        """Every znode below a path, ascending. Not recursive: a path may have any depth."""
        waiting = [f"{path}/{name}" for name in reversed(self.children(path))]
        while waiting:
            child = waiting.pop()
            yield child, self.nodes[child]
            waiting += [f"{child}/{name}" for name in reversed(self.children(child))]

    def data(self, path: str) -> bytes | None:
        """Data of a znode; None as well when it is absent."""
        node = self.nodes.get(path)
        return None if node is None else node.data

    def json(self, path: str) -> dict[str, Any]:
        """A znode's JSON object; empty if it is absent or unreadable."""
        try:
            found = msgspec.json.decode(self.data(path) or b"{}")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def config(self, path: str) -> dict[str, str]:
        """Entries of a config znode; empty if it is absent or unreadable."""
        found = self.json(path).get("config")
        return found if isinstance(found, dict) else {}

    def entries(self, path: str) -> list[dict[str, Any]]:
        """Access control entries of a znode; without invalid ones, which the copy refuses."""
        found = self.json(path).get("acls")
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    def replicas(self, topic: str) -> list[list[int]]:
        """Broker ids of each partition of a topic; invalid ids are left out."""
        found = self.json(f"/brokers/topics/{topic}").get("partitions")
        some = found.values() if isinstance(found, dict) else ()
        return [[one for one in x if isinstance(one, int)] for x in some if isinstance(x, list)]

    def is_closed(self, path: str) -> bool:
        """Whether a znode, if it exists, could not be read."""
        return any(path == one or path.startswith(f"{one}/") for one in self.closed)

    @cached_property
    def copy(self) -> DryRun:
        """The result of a dry run of the copy, with the controllers' settings."""
        tree = Tree()
        tree.nodes = {path: TreeNode(one.data, one.version) for path, one in self.nodes.items()}
        children = {path: self.children(path) for path in self.nodes}
        tree.lists = {path: names for path, names in children.items() if names}
        settings = dict(next((one.values for one in self.controllers), {}))
        found = PasswordSettings.read(PropertyReader(settings))
        if not self.decodes:
            found = PasswordSettings()
        return dry_run(tree, self.version, entities(Passwords(found)))

    @property
    def version(self) -> MetadataVersion:
        """The controllers' metadata.version, which must equal the brokers'."""
        protocols = [one.protocol for one in self.brokers]
        return min((one for one in protocols if one), key=lambda one: one.level, default=LATEST)

    @cached_property
    def pending(self) -> frozenset[str]:
        """Topics that are being deleted, which are not copied."""
        return frozenset(self.children("/admin/delete_topics"))

    def broker_listeners(self, broker_id: int) -> frozenset[str]:
        """Names of a live broker's listeners in ``/brokers/ids``; empty if it says none."""
        found = self.json(f"/brokers/ids/{broker_id}").get("listener_security_protocol_map")
        return frozenset(found) if isinstance(found, dict) else frozenset()

    def endpoints(self, broker_id: int) -> list[str]:
        """Where a live broker is registered, as ``NAME://host:port``; empty if it says none."""
        found = self.json(f"/brokers/ids/{broker_id}").get("endpoints")
        return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []

    @property
    def controllers(self) -> tuple[Properties, ...]:
        """Properties of KRaft controllers: as they are, else those to come."""
        present = tuple(one for one in self.properties if one.is_controller)
        return present or tuple(one for one in self.targets if one.is_controller)

    @property
    def brokers(self) -> tuple[Properties, ...]:
        """Properties of ZooKeeper-mode brokers."""
        return tuple(one for one in self.properties if one.is_zookeeper_broker)

    @property
    def all_files(self) -> tuple[Properties, ...]:
        """Present files, then target files."""
        return (*self.properties, *self.targets)

    @property
    def kraft_brokers(self) -> tuple[Properties, ...]:
        """Properties of KRaft brokers, given as targets or not."""
        return tuple(one for one in self.all_files if one.is_kraft_broker)

    @cached_property
    def controller_ids(self) -> frozenset[int]:
        """Node ids of the quorum, from the properties files and the controllers' folders."""
        node_ids = [one.node_id for one in self.all_files if one.is_controller]
        node_ids += [one.node_id for one in self.folders]
        ids = {one for one in node_ids if one is not None}
        return frozenset(ids.union(*(one.voters for one in self.all_files)))

    @cached_property
    def assigned(self) -> frozenset[int]:
        """Ids of brokers that hold replicas."""
        topics = self.children("/brokers/topics")
        return frozenset(x for name in topics for some in self.replicas(name) for x in some)

    @cached_property
    def live_brokers(self) -> frozenset[int]:
        """Ids in ``/brokers/ids``."""
        ids = map(number, self.children("/brokers/ids"))
        return frozenset(one for one in ids if one is not None)


def of_dump(dump: Mapping[str, Any], properties: Sequence[Properties] = ()) -> Survey:
    """Read the document that ``kraft-bridge zk dump`` prints.

    Times in it are used if they are there.

    Raises:
        ValueError: it is not a dump, or a znode in it is invalid.
    """
    nodes = dump.get("nodes")
    if not isinstance(nodes, Mapping):
        why = "nodes is no object of paths" if "nodes" in dump else "nodes is missing"
        raise ValueError(f"{why}: not a tree that kraft-bridge zk dump wrote")  # noqa: TRY004 - the file is wrong, not the call
    for path in nodes:
        if path != "/" and (not path.startswith("/") or "" in path[1:].split("/")):
            raise ValueError(f"{path!r} is no path of a znode: not as zk dump writes it")
    at = dump.get("time")
    try:
        read_at_ms = int(at * 1e3) if isinstance(at, int | float) else None
    except (ValueError, OverflowError) as error:
        raise ValueError(f"time {at} is not as zk dump writes it") from error
    found = {path: _znode(path, node) for path, node in nodes.items() if path != "/"}
    return Survey(found, properties, read_at_ms=read_at_ms)


def _znode(path: str, node: Mapping[str, Any]) -> DumpedZnode:
    try:
        return DumpedZnode(
            _data(node),
            _number(node, "version"),
            bool(node["ephemeral"]) if "ephemeral" in node else None,
            tuple((int(one[0]), str(one[1]), str(one[2])) for one in node.get("acl", ())),
            _number(node, "mtime") if "mtime" in node else None,
            _number(node, "cversion"),
        )
    except ValueError as error:
        raise ValueError(f"{path} is not as zk dump writes it: {error}") from error
    except (LookupError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"{path} is not as zk dump writes it: {error!r}") from error


def _data(node: Mapping[str, Any]) -> bytes | None:
    if node.get("null"):
        return None
    if "text" in node:
        return bytes(node["text"].encode())
    if "b64" not in node:
        raise ValueError("neither text nor b64 nor null")
    try:
        return base64.b64decode(node["b64"], validate=True)
    except ValueError as error:
        raise ValueError(f"b64 is no base64: {error}") from error


def _number(node: Mapping[str, Any], name: str) -> int:
    try:
        return int(node.get(name, 0))
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{name} {node[name]!r} is no number") from error
