"""Files of production's nodes for a copy on one machine: addresses and folders are mapped, pure.

Whatever was one address stays one, and what differed differs: a broker that looked for a controller
where none was does so here too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from emulator.servers.ports import HOST

_LISTENER: Final = re.compile(
    r"\s*(?P<name>[^:/,]*)://(?P<host>\[[^\]]*\]|[^:,]*):(?P<port>\d+)\s*"
)
_SERVER: Final = re.compile(r"\s*(?:(?P<id>\d+)@)?(?P<host>\[[^\]]*\]|[^:,@]+):(?P<port>\d+)\s*")
_FOLDERS: Final = ("log.dirs", "log.dir", "metadata.log.dir")
_DEFAULT_FOLDER: Final = "Kafka's default"
_SERVERS: Final = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
_LISTENERS: Final = ("listeners", "advertised.listeners")
_CONNECT: Final = "zookeeper.connect"
_MAPPED: Final = frozenset({*_FOLDERS, *_SERVERS, *_LISTENERS, _CONNECT})
_ADDRESS: Final = re.compile(r"://|[\w-]+(?:\.[\w-]+)*:\d{2,5}\b")
_PATH: Final = re.compile(r"^/")


class NodeKind(Enum):
    """What a file is of; the word is the beginning of its new name."""

    BROKER = "broker"
    TARGET = "target"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class NodeInput:
    """A file of production's, with the id in it."""

    name: str
    kind: NodeKind
    node_id: int
    values: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class CloneFile:
    """A file of the copy; ``folders``: its log folders; ``left``: keys that name others still."""

    name: str
    values: Mapping[str, str] = field(repr=False)
    folders: Sequence[Path]
    left: Sequence[str]


class CloneError(ValueError):
    """No copy can be made of these files; one sentence."""


class _Map:
    """Addresses and folders of production -> those of the copy.

    Args:
        ports: free ones.
        folder: of the copy.
    """

    def __init__(self, ports: Iterator[int], folder: Path) -> None:
        self._ports = ports
        self._folder = folder
        self._known: dict[tuple[object, ...], int] = {}
        self._folders: dict[tuple[NodeKind, int, str], Path] = {}
        self._voters: dict[tuple[str, int], int] = {}

    def port(self, *address: object) -> int:
        """Always the same of one address."""
        if address not in self._known:
            self._known[address] = next(self._ports)
        return self._known[address]

    def learn(self, text: str) -> None:
        """Which controllers are at which addresses."""
        for found in _SERVER.finditer(text):
            if found["id"] is not None:
                self._voters[found["host"].lower(), int(found["port"])] = int(found["id"])

    def server(self, found: re.Match[str]) -> str:
        """A controller as another node names it."""
        host, port = found["host"].lower(), int(found["port"])
        number = self._voters.get((host, port))
        number = number if found["id"] is None else int(found["id"])
        here = self.port(host, port) if number is None else self.port(number, port)
        return f"{HOST}:{here}" if found["id"] is None else f"{number}@{HOST}:{here}"

    def folder(self, node: NodeInput, path: str) -> Path:
        """A log folder; a target has those of the broker that it is now."""
        kind = NodeKind.BROKER if node.kind is NodeKind.TARGET else node.kind
        key = kind, node.node_id, path
        if key not in self._folders:
            own = [one for one in self._folders if one[:2] == key[:2]]
            name = f"{kind.value}-{node.node_id}-data-{len(own) + 1}"
            self._folders[key] = self._folder / name
        return self._folders[key]


def clones(
    nodes: Sequence[NodeInput], ports: Iterator[int], folder: Path, zookeeper: str
) -> list[CloneFile]:
    """The files of a copy.

    Args:
        nodes: files of production.
        ports: free ones.
        folder: absolute, of the copy.
        zookeeper: ``host:port`` of its private ZooKeeper; chroots stay.

    Raises:
        CloneError: two files are of one node, or a listener cannot be read.
    """
    known = _Map(ports, folder)
    seen: dict[tuple[NodeKind, int], str] = {}
    for one in nodes:
        if other := seen.get((one.kind, one.node_id)):
            raise CloneError(f"{other} and {one.name} are both of {one.kind.value} {one.node_id}")
        seen[one.kind, one.node_id] = one.name
        known.learn(one.values.get(_SERVERS[0], ""))
    return [_clone(one, known, zookeeper) for one in nodes]


def _clone(node: NodeInput, known: _Map, zookeeper: str) -> CloneFile:
    values = {key: one.strip() for key, one in node.values.items()}
    own = {one["name"].upper(): int(one["port"]) for one in _listeners(node, _LISTENERS[0])}
    found = dict(values)
    for key in _LISTENERS:
        if values.get(key):
            found[key] = ",".join(
                f"{one['name']}://{HOST}:{_listened(node, known, own, one)}"
                for one in _listeners(node, key)
            )
    if not values.get(_LISTENERS[0]) and node.kind is not NodeKind.CONTROLLER:
        found[_LISTENERS[0]] = f"PLAINTEXT://{HOST}:{known.port(node.node_id, 9092)}"
    for key in _SERVERS:
        if values.get(key):
            found[key] = _each(_SERVER, values[key], known.server)
    if values.get(_CONNECT):
        chroot = values[_CONNECT].partition("/")[2]
        found[_CONNECT] = f"{zookeeper}/{chroot}" if chroot else zookeeper
    folders = []
    if not any(values.get(key) for key in _FOLDERS[:2]):
        values[_FOLDERS[0]] = _DEFAULT_FOLDER
    for key in _FOLDERS:
        parts = [one.strip() for one in values.get(key, "").split(",") if one.strip()]
        if parts:
            here = [known.folder(node, one) for one in parts]
            found[key] = ",".join(map(str, here))
            folders += here
    left = [key for key, one in sorted(values.items()) if key not in _MAPPED and _elsewhere(one)]
    name = f"{node.kind.value}-{node.node_id}.properties"
    return CloneFile(name, found, list(dict.fromkeys(folders)), left)


def _listeners(node: NodeInput, key: str) -> list[re.Match[str]]:
    text = node.values.get(key, "").strip()
    found = [_LISTENER.fullmatch(one) for one in text.split(",")] if text else []
    if None in found:
        raise CloneError(f"{node.name}: {key}={text}: not NAME://host:port")
    return [one for one in found if one is not None]


def _listened(node: NodeInput, known: _Map, own: Mapping[str, int], found: re.Match[str]) -> int:
    """The port of a listener; one that is advertised is that which is listened on."""
    return known.port(node.node_id, own.get(found["name"].upper(), int(found["port"])))


def _each(form: re.Pattern[str], text: str, changed: Callable[[re.Match[str]], str]) -> str:
    """A list, each part changed that has the form; others stay wrong."""
    parts = []
    for one in text.split(","):
        match = form.fullmatch(one)
        parts.append(one if match is None else changed(match))
    return ",".join(parts)


def _elsewhere(value: str) -> bool:
    """Whether a value may lead to a server, or a file, of production."""
    return bool(_ADDRESS.search(value) or _PATH.search(value))
