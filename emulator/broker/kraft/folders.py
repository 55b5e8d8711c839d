"""The identity of a broker in its log folders: ``meta.properties`` of version 0 and 1.

Version 0 is written by ZooKeeper-mode brokers and calls the id ``broker.id``, version 1 by KRaft
nodes (``node.id``). A broker in KRaft mode takes both, and leaves a version as it is, so that the
broker can return to ZooKeeper mode. From 3.7 on each folder has an id of its own, which is added.

Source: MetaProperties, MetaPropertiesEnsemble, BrokerMetadataCheckpoint, Kafka 3.4-3.9; KIP-866
"Meta.Properties", KIP-858.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from emulator.config import properties
from emulator.config.java_text import trim
from emulator.raft.format import usable_directory_id
from wire.releases import RELEASES
from wire.text import uuid_from_text, uuid_text

FILE: Final = "meta.properties"
DIRECTORY: Final = "directory.id"
_ID_KEYS: Final[Mapping[str, str]] = {"0": "broker.id", "1": "node.id"}
"""Version -> the key of the id."""


class BrokerFolderError(Exception):
    """The folders cannot be used by this broker; the text says why and what to do."""


class BrokerNotFormattedError(BrokerFolderError):
    """A folder is not formatted: another start would find the same."""


@dataclass(frozen=True, slots=True)
class FolderIdentity:
    """What ``meta.properties`` of all folders says.

    ``directories``: id by folder, empty before 3.7. ``to_write``: folder -> its new
    ``meta.properties``, where something was missing.
    """

    cluster_id: str
    directories: Mapping[str, bytes]
    to_write: Mapping[str, bytes]


def identify(
    node_id: int, release: str, found: Mapping[str, bytes | None], random_id: Callable[[], bytes]
) -> FolderIdentity:
    """Check the folders against each other and against the configuration.

    Args:
        node_id: of the broker.
        release: the emulated Kafka release.
        found: folder -> content of its ``meta.properties``, None if it has none; the folder of the
            metadata log first.
        random_id: 16 random bytes.

    Raises:
        BrokerFolderError: not formatted, another broker's or cluster's, or damaged.
    """
    read = parsed_folders(node_id, found)
    unformatted = next((folder for folder in found if folder not in read), None)
    if not read or unformatted == next(iter(found)):
        raise BrokerNotFormattedError(
            f"{unformatted} is not formatted: run first kraft-bridge format -c FILE -t "
            "CLUSTER_ID (or kafka-storage), with the id of the controller's cluster"
        )
    cluster_id = one_cluster(read)
    assert cluster_id is not None, "one of them is formatted"
    own = {"node.id": str(node_id), "version": "1"}
    whole = {folder: dict(read.get(folder, {"cluster.id": cluster_id, **own})) for folder in found}
    directories: dict[str, bytes] = {}
    if RELEASES.index(release) >= RELEASES.index("3.7"):
        directories = directories_of(whole, random_id)
    to_write = {}
    for folder, values in whole.items():
        if folder in directories:
            values[DIRECTORY] = uuid_text(directories[folder])
        if values != read.get(folder):
            to_write[folder] = rendered(values)
    return FolderIdentity(cluster_id, directories, to_write)


def parsed_folders(node_id: int, found: Mapping[str, bytes | None]) -> dict[str, dict[str, str]]:
    """Folder -> the values of its ``meta.properties``; folders without one are left out.

    Raises:
        BrokerFolderError: another broker's, or damaged.
    """
    return {
        folder: _parsed(folder, data, node_id) for folder, data in found.items() if data is not None
    }


def one_cluster(read: Mapping[str, Mapping[str, str]]) -> str | None:
    """The cluster that all folders name; None if there is no folder.

    Raises:
        BrokerFolderError: they name two.
    """
    clusters = {values["cluster.id"]: folder for folder, values in read.items()}
    if len(clusters) > 1:
        (one, first), (other, second) = sorted(clusters.items())[:2]
        raise BrokerFolderError(f"{first} is of cluster {one}, {second} of cluster {other}")
    return next(iter(clusters), None)


def directories_of(
    whole: Mapping[str, Mapping[str, str]], random_id: Callable[[], bytes]
) -> dict[str, bytes]:
    """Folder -> its directory id; a new one where there is none.

    Raises:
        BrokerFolderError: two folders have the same, or one has none that can be read.
    """
    found = {folder: _directory(folder, values, random_id) for folder, values in whole.items()}
    if len(set(found.values())) < len(found):
        raise BrokerFolderError(f"two folders have the same {DIRECTORY}: {', '.join(whole)}")
    return found


def rendered(values: Mapping[str, str]) -> bytes:
    """The text of ``meta.properties``.

    >>> rendered({"node.id": "1", "cluster.id": "c", "version": "1"}).decode().splitlines()
    ['#', 'cluster.id=c', 'node.id=1', 'version=1']
    """
    lines = ["#", *(f"{key}={value}" for key, value in sorted(values.items()))]
    return "".join(f"{line}\n" for line in lines).encode()


def _values(folder: str, data: bytes) -> dict[str, str]:
    try:
        return properties.parse(properties.decoded(data))
    except ValueError as error:
        raise BrokerFolderError(f"{folder}/{FILE}: {error}") from error


def _parsed(folder: str, data: bytes, node_id: int) -> dict[str, str]:
    values = _values(folder, data)
    version = values.get("version", "none")
    if version not in _ID_KEYS:
        raise BrokerFolderError(f"{folder}/{FILE}: version {version}, 0 and 1 are known")
    key = _ID_KEYS[version]
    missing = [name for name in ("cluster.id", key) if not trim(values.get(name, ""))]
    if missing:
        raise BrokerFolderError(f"{folder}/{FILE}: {missing[0]} is missing")
    if trim(values[key]) != str(node_id):
        raise BrokerFolderError(
            f"{folder} belongs to broker {values[key]}, the configuration says {node_id}"
        )
    return values


def _directory(folder: str, values: Mapping[str, str], random_id: Callable[[], bytes]) -> bytes:
    text = values.get(DIRECTORY)
    if text is None:
        candidate = random_id()
        while not usable_directory_id(candidate):
            candidate = random_id()
        return candidate
    try:
        return uuid_from_text(text)
    except ValueError as error:
        raise BrokerFolderError(f"{folder}/{FILE}: {DIRECTORY}={text}: {error}") from error
