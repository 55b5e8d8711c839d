"""Creates ZooKeeper's top-level znodes and ``/migration``, before anything else.

Source: ZkMigrationClient.getOrCreateMigrationRecoveryState, KafkaZkClient.createTopLevelPaths,
Kafka 3.9: a controller with the migration flag writes these before any migration begins. Each may
exist already. Beyond Kafka: nothing is written into the ZooKeeper of another cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.migration.zk_tree import cluster, migration
from emulator.migration.zk_tree.errors import ZnodeError
from emulator.migration.zk_tree.reader import TOP_LEVEL
from emulator.zookeeper.errors import ZkCode, code_name
from emulator.zookeeper.ops import (
    Create,
    GetData,
    NodeData,
    Sync,
    ZkFailed,
    ZkOutcome,
    ZkRequest,
    ZkResult,
)

WHOSE: Final[Sequence[ZkRequest]] = (Sync("/"), GetData(cluster.PATH))
"""Which cluster's ZooKeeper this is; read before anything is written."""
REQUESTS: Final[Sequence[ZkRequest]] = (
    *(Create(path, None) for path in TOP_LEVEL),
    Create(migration.PATH, migration.encode(migration.INITIAL)),
    Sync("/"),
    GetData(migration.PATH),
)
"""Creates of znodes that may be missing; the last request reads ``/migration``."""
PATHS: Final = (*TOP_LEVEL, migration.PATH, "/", migration.PATH)
"""The path of each request, for messages."""


def other_cluster(answer: ZkOutcome, cluster_id: str) -> Reason | None:
    """Why this ZooKeeper must not be written; None if it has our cluster id or none (C12).

    Args:
        answer: the result of reading ``/cluster/id``.
        cluster_id: the id our folder was formatted with.
    """
    if isinstance(answer, ZkFailed) and answer.code != ZkCode.NO_NODE:
        text = f"{cluster.PATH}: ZooKeeper answers {code_name(answer.code)}"
        return Reason(Why.UNREADABLE, cluster.PATH, text)
    if not isinstance(answer, ZkResult) or not isinstance(answer.value, NodeData):
        return None
    try:
        found = cluster.parse(answer.value.data)
    except ZnodeError as error:
        return Reason(Why.MALFORMED_ZNODE, error.path, str(error), fatal=True)
    if found == cluster_id:
        return None
    return Reason(
        Why.OTHER_CLUSTER,
        cluster.PATH,
        f"ZooKeeper belongs to cluster {found} ({cluster.PATH}), this controller was formatted for "
        f"cluster {cluster_id}: correct zookeeper.connect, or format an empty folder "
        f"with -t {found}",
        fatal=True,
    )
