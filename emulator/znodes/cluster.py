"""``/cluster/id``: which Kafka cluster a ZooKeeper belongs to.

Source: kafka.zk.ClusterIdZNode, Kafka 3.9; the first broker of a cluster writes it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from emulator.znodes import znode_json
from emulator.znodes.tree import Tree

# ``/admin``: unfinished deletions of ZooKeeper's controller.
#
# Source: kafka.zk.{DeleteTopicsTopicZNode,PreferredReplicaElectionZNode}, Kafka 3.9. Kafka's KRaft
# controller finishes the deletions and never reads the requests of old tools.

DELETE_TOPICS: Final = "/admin/delete_topics"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"


def pending_deletions(tree: Tree) -> list[str]:
    """Names of the topics whose deletion was requested and is not finished."""
    return sorted(tree.children(DELETE_TOPICS))


PATH: Final = "/cluster/id"


class _ClusterJson(msgspec.Struct):
    id: str


def parse(data: bytes | None) -> str:
    """Read the cluster's id, 22 characters.

    Raises:
        ZnodeError: malformed.
    """
    return znode_json.decode(PATH, data, _ClusterJson).id


def encode(cluster_id: str) -> bytes:
    """Render ``/cluster/id``; its version is a string, unlike in all other znodes.

    >>> encode("c")
    b'{"version":"1","id":"c"}'
    """
    return znode_json.encode({"version": "1", "id": cluster_id})
