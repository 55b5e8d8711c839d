"""Creates ZooKeeper's top-level znodes and ``/migration``, before anything else.

Of several voters only the leader creates them, those that it does not find: a follower only reads.

Source: ZkMigrationClient.getOrCreateMigrationRecoveryState, KafkaZkClient.createTopLevelPaths,
Kafka 3.9: a controller with the migration flag writes these before any migration begins. Each may
exist already. Beyond Kafka: nothing is written into the ZooKeeper of another cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.znodes import cluster, migration
from emulator.znodes.reader import TOP_LEVEL
from emulator.znodes.tree import ZnodeError
from emulator.zookeeper.errors import ZkCode, code_name
from emulator.zookeeper.ops import (
    Create,
    GetData,
    MultiRead,
    NodeData,
    Sync,
    ZkFailed,
    ZkOutcome,
    ZkRequest,
    ZkResult,
)

WHOSE: Final[Sequence[ZkRequest]] = (Sync("/"), GetData(cluster.PATH))
"""Which cluster's ZooKeeper this is; read before anything is written."""
PATHS: Final = (*TOP_LEVEL, migration.PATH)
"""What is needed, parents before children."""
LOOK: Final[Sequence[ZkRequest]] = (Sync("/"), MultiRead(tuple(GetData(path) for path in PATHS)))
"""Reads all of it."""


def creation(paths: Sequence[str]) -> Sequence[ZkRequest]:
    """Create some of :data:`PATHS`, if they are missing; the last request reads ``/migration``."""
    initial = migration.encode(migration.INITIAL)
    creates = (Create(path, initial if path == migration.PATH else None) for path in paths)
    return (*creates, Sync("/"), GetData(migration.PATH))


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
