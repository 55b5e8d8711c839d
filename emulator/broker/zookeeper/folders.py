"""The identity of a ZooKeeper-mode broker in its log folders.

Such a broker needs no ``format``: a folder without ``meta.properties`` gets one of version 0 when
the broker knows its cluster. Without migration only version 0 is taken. With migration both are,
and each keeps its version, so that a broker that was in KRaft mode can come back; from 3.7 on each
folder gets an id then, which ZooKeeper mode alone does not need.

Source: KafkaServer.startup, MetaPropertiesEnsemble.verify, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from emulator.broker.kraft.folders import (
    DIRECTORY,
    FILE,
    BrokerFolderError,
    directories_of,
    one_cluster,
    parsed_folders,
    rendered,
)
from wire.releases import RELEASES
from wire.text import uuid_text

DIRECTORIES_SINCE = "3.7"


@dataclass(frozen=True, slots=True)
class ZooKeeperFolders:
    """What ``meta.properties`` of all folders says.

    ``cluster_id`` None: no folder has one yet. ``directories``: id by folder; empty where folders
    have no ids.
    """

    node_id: int
    cluster_id: str | None
    directories: Mapping[str, bytes]
    read: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    """Folder -> path of its ``meta.properties``, as effects name it."""
    new_cluster_id: str | None = None
    """The id of a cluster that this broker founds; None: a random one, as Kafka's brokers do."""

    def to_write(self, cluster_id: str) -> dict[str, bytes]:
        """Folder -> its new ``meta.properties``, where something is missing."""
        found = {}
        for folder in self.places:
            known = self.read.get(folder)
            values = dict(known or {"version": "0", "broker.id": str(self.node_id)})
            values["cluster.id"] = cluster_id
            if folder in self.directories:
                values[DIRECTORY] = uuid_text(self.directories[folder])
            if values != known:
                found[folder] = rendered(values)
        return found

    def files(self, cluster_id: str) -> dict[str, bytes]:
        """The same by path."""
        return {self.places[folder]: data for folder, data in self.to_write(cluster_id).items()}


def identify_in_zookeeper_mode(
    node_id: int,
    release: str,
    found: Mapping[str, bytes | None],
    places: Mapping[str, str],
    random_id: Callable[[], bytes],
    *,
    migration: bool,
) -> ZooKeeperFolders:
    """Check the folders against each other and against the configuration.

    Args:
        node_id: of the broker.
        release: the emulated Kafka release.
        found: folder -> content of its ``meta.properties``, None if it has none.
        places: folder -> path of its ``meta.properties``, as effects name it.
        random_id: 16 random bytes.
        migration: whether the broker migrates.

    Raises:
        BrokerFolderError: another broker's or cluster's, damaged, or of version 1 without
            migration.
    """
    read = parsed_folders(node_id, found)
    for folder, values in read.items():
        if values["version"] != "0" and not migration:
            raise BrokerFolderError(
                f"{folder}/{FILE}: version {values['version']} is of a broker in KRaft mode; one "
                "in ZooKeeper mode needs version 0 or zookeeper.metadata.migration.enable=true"
            )
    directories: dict[str, bytes] = {}
    if migration and RELEASES.index(release) >= RELEASES.index(DIRECTORIES_SINCE):
        whole = {folder: read.get(folder, {}) for folder in found}
        directories = directories_of(whole, random_id)
    return ZooKeeperFolders(node_id, one_cluster(read), directories, read, places)
