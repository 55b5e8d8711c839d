"""``/admin``: unfinished deletions of ZooKeeper's controller, and requests of old tools.

Source: kafka.zk.{DeleteTopicsTopicZNode,ReassignPartitionsZNode,PreferredReplicaElectionZNode},
Kafka 3.9. Kafka's KRaft controller finishes the deletions and never reads the other two.
"""

from __future__ import annotations

from typing import Final

import msgspec

from emulator.migration.zk_tree.tree import Tree
from emulator.migration.zk_tree.znode_json import decode

DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"


class PartitionJson(msgspec.Struct, frozen=True):
    """One partition in an old tool's request; ``replicas`` only in a reassignment."""

    topic: str
    partition: int
    replicas: tuple[int, ...] = ()


class _RequestJson(msgspec.Struct):
    version: int
    partitions: list[PartitionJson]


def pending_deletions(tree: Tree) -> list[str]:
    """Names of the topics whose deletion was requested and is not finished."""
    return sorted(tree.children(DELETE_TOPICS))


def pending_requests(tree: Tree, path: str) -> list[PartitionJson]:
    """Partitions in an old tool's znode; none if it is absent or empty.

    Raises:
        ZnodeError: malformed.
    """
    node = tree.node(path)
    return decode(path, node.data, _RequestJson).partitions if node and node.data else []
