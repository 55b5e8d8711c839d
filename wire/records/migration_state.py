"""The state of the migration from ZooKeeper: id 21.

KIP-866; the numbering of the states differs between 3.4 and later releases.
Source: ZkMigrationStateRecord, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Int8, record


@record(key=21, versions="0")
class ZkMigrationStateRecord:
    zk_migration_state: Int8 = 0
