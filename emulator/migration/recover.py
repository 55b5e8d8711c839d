"""Before anything else: ZooKeeper's top-level znodes and ``/migration``.

Source: ZkMigrationClient.getOrCreateMigrationRecoveryState, KafkaZkClient.createTopLevelPaths,
Kafka 3.9: a controller with the migration flag writes these before any migration begins. Each may
be there already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from emulator.migration.zk_tree import migration
from emulator.zookeeper.ops import Create, GetData, Sync, ZkRequest

TOP_LEVEL_PATHS: Final[tuple[str, ...]] = (
    "/consumers",
    "/brokers",
    "/brokers/ids",
    "/brokers/topics",
    "/brokers/seqid",
    "/config",
    "/config/changes",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
    "/admin",
    "/admin/delete_topics",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
)
"""Parents first."""

REQUESTS: Final[Sequence[ZkRequest]] = (
    *(Create(path, None) for path in TOP_LEVEL_PATHS),
    Create(migration.PATH, migration.encode(migration.INITIAL)),
    Sync("/"),
    GetData(migration.PATH),
)
"""Creates of what may be missing; the last one reads ``/migration`` back."""
PATHS: Final = (*TOP_LEVEL_PATHS, migration.PATH, "/", migration.PATH)
"""What each request is about, for messages."""
