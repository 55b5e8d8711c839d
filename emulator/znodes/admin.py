"""``/admin``: unfinished deletions of ZooKeeper's controller.

Source: kafka.zk.{DeleteTopicsTopicZNode,PreferredReplicaElectionZNode}, Kafka 3.9. Kafka's KRaft
controller finishes the deletions and never reads the requests of old tools.
"""

from __future__ import annotations

from typing import Final

from emulator.znodes.tree import Tree

DELETE_TOPICS: Final = "/admin/delete_topics"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"


def pending_deletions(tree: Tree) -> list[str]:
    """Names of the topics whose deletion was requested and is not finished."""
    return sorted(tree.children(DELETE_TOPICS))
