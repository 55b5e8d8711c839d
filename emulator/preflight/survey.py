"""All input of the rules: no rule reads ZooKeeper or a file itself."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import msgspec

from emulator.config.passwords import PasswordSettings
from emulator.config.reading import PropertyReader
from emulator.metadata.metadata_version import LATEST, MetadataVersion
from emulator.migration.taking_over.dry_run import DryRun, dry_run
from emulator.migration.zk_tree.entities import entities
from emulator.migration.zk_tree.passwords import Passwords
from emulator.migration.zk_tree.tree import Tree, TreeNode

REDACTED: Final = b"<redacted>"
"""The text that ``zk dump`` prints instead of a secret."""
WRITE: Final = 4 | 2
"""Permissions WRITE and CREATE, both of which a dual write needs, as ZooKeeper numbers them."""
OPEN: Final = ("world", "anyone")


@dataclass(frozen=True, slots=True)
class DumpedZnode:
    """One znode of a dump. ``acl`` entries are (permissions, scheme, id)."""

    data: bytes | None
    version: int = 0
    ephemeral: bool = False
    acl: tuple[tuple[int, str, str], ...] = ((31, *OPEN),)


@dataclass(frozen=True, slots=True)
class Properties:
    """One ``server.properties``: its name, its content, and the folder's ``meta.properties``."""

    name: str
    values: Mapping[str, str]
    meta: Mapping[str, str] = field(default_factory=dict)

    def get(self, key: str, default: str = "") -> str:
        """Value of a key, without blanks around it."""
        return self.values.get(key, default).strip()

    def names(self, key: str) -> tuple[str, ...]:
        """Entries of a comma separated value."""
        return tuple(part.strip() for part in self.get(key).split(",") if part.strip())

    def flag(self, key: str) -> bool:
        """Whether a boolean is set."""
        return self.get(key).lower() == "true"

    @property
    def is_controller(self) -> bool:
        """Whether it is a KRaft controller's."""
        return "controller" in self.names("process.roles")

    @property
    def is_zookeeper_broker(self) -> bool:
        """Whether it is a ZooKeeper-mode broker's."""
        return not self.get("process.roles")

    @property
    def node_id(self) -> int | None:
        """``node.id``, or else ``broker.id``; None when neither is a number."""
        text = self.get("node.id") or self.get("broker.id")
        return _number(text)

    @property
    def protocol(self) -> MetadataVersion | None:
        """The value of ``inter.broker.protocol.version``; None when unset or unknown."""
        text = re.sub(r"^(\d+\.\d+)\.\d+", r"\1", self.get("inter.broker.protocol.version"))
        try:
            return MetadataVersion.from_ibp(text) if text else None
        except ValueError:
            return None

    @property
    def voters(self) -> frozenset[int]:
        """Ids in ``controller.quorum.voters``."""
        ids = (one.partition("@")[0] for one in self.names("controller.quorum.voters"))
        return frozenset(one for one in map(_number, ids) if one is not None)


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """Measured against the live ensemble, median, in milliseconds.

    ``read_ms``: one read answered by the server connected to; ``sync_ms``: one that its leader
    must answer.
    """

    read_ms: float
    sync_ms: float


@dataclass(frozen=True)
class Survey:
    """The known data of a cluster; every path is absolute, below the chroot."""

    nodes: Mapping[str, DumpedZnode]
    properties: Sequence[Properties] = ()
    chroot: str = ""
    round_trips: RoundTrips | None = None
    identities: frozenset[str] = frozenset()
    """``scheme:id`` of the credentials the controller will have, such as ``sasl:kafka``."""

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
        """Every znode below a path, ascending."""
        for name in self.children(path):
            child = f"{path}/{name}"
            yield child, self.nodes[child]
            yield from self.below(child)

    def data(self, path: str) -> bytes | None:
        """Data of a znode; None as well when it is absent."""
        node = self.nodes.get(path)
        return None if node is None else node.data

    def json(self, path: str) -> dict[str, Any]:
        """A znode's JSON object; empty if it is absent or unreadable."""
        try:
            found = msgspec.json.decode(self.data(path) or b"{}")
        except msgspec.DecodeError:
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

    @cached_property
    def copy(self) -> DryRun:
        """The result of a dry run of the copy, with the controllers' settings."""
        tree = Tree()
        tree.nodes = {path: TreeNode(one.data, one.version) for path, one in self.nodes.items()}
        children = {path: self.children(path) for path in self.nodes}
        tree.lists = {path: names for path, names in children.items() if names}
        settings = dict(next((one.values for one in self.controllers), {}))
        passwords = Passwords(PasswordSettings.read(PropertyReader(settings)))
        return dry_run(tree, self.version, entities(passwords))

    @property
    def version(self) -> MetadataVersion:
        """The controllers' metadata.version, which must equal the brokers'."""
        told = [one.protocol for one in self.brokers]
        return min((one for one in told if one), key=lambda one: one.level, default=LATEST)

    @cached_property
    def pending(self) -> frozenset[str]:
        """Topics that are being deleted, which are not copied."""
        return frozenset(self.children("/admin/delete_topics"))

    @property
    def controllers(self) -> tuple[Properties, ...]:
        """Properties of KRaft controllers."""
        return tuple(one for one in self.properties if one.is_controller)

    @property
    def brokers(self) -> tuple[Properties, ...]:
        """Properties of ZooKeeper-mode brokers."""
        return tuple(one for one in self.properties if one.is_zookeeper_broker)

    @cached_property
    def controller_ids(self) -> frozenset[int]:
        """Node ids of the quorum, from the properties files."""
        ids = {one.node_id for one in self.controllers if one.node_id is not None}
        return frozenset(ids.union(*(one.voters for one in self.properties)))

    @cached_property
    def live_brokers(self) -> frozenset[int]:
        """Ids in ``/brokers/ids``."""
        ids = map(_number, self.children("/brokers/ids"))
        return frozenset(one for one in ids if one is not None)


def _number(text: str) -> int | None:
    """An id (int32) in ASCII digits."""
    return int(text) if re.fullmatch(r"[0-9]{1,10}", text) else None


def of_dump(dump: Mapping[str, Any], properties: Sequence[Properties] = ()) -> Survey:
    """Read the document that ``kraft-bridge zk dump`` prints.

    Raises:
        ValueError: it is not a dump, or a znode in it is invalid.
    """
    nodes = dump.get("nodes")
    if not isinstance(nodes, Mapping):
        raise ValueError("no 'nodes': not a tree that kraft-bridge zk dump wrote")  # noqa: TRY004 - the file is wrong, not the call
    try:
        return Survey({path: _znode(node) for path, node in nodes.items()}, properties)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"a znode is not as zk dump writes it: {error!r}") from error


def _znode(node: Mapping[str, Any]) -> DumpedZnode:
    data = None
    if not node.get("null"):
        data = node["text"].encode() if "text" in node else base64.b64decode(node["b64"])
    return DumpedZnode(
        data,
        int(node.get("version", 0)),
        bool(node.get("ephemeral", False)),
        tuple((int(one[0]), str(one[1]), str(one[2])) for one in node.get("acl", ())),
    )
