"""The classes of entities beside topics, in the order they are copied and written.

Source: ZkMigrationClient.readAllMetadata, KRaftMigrationZkWriter.handleSnapshot, Kafka 3.9.
"""

from __future__ import annotations

from typing import Final

from emulator.migration.zk_tree.acls import AccessControlEntries
from emulator.migration.zk_tree.broker_configs import BrokerConfigs
from emulator.migration.zk_tree.client_entities import ClientEntities
from emulator.migration.zk_tree.delegation_tokens import DelegationTokens
from emulator.migration.zk_tree.entity import Entities
from emulator.migration.zk_tree.producer_id import ProducerIdBlock

ENTITIES: Final[Entities] = (
    BrokerConfigs(),
    ClientEntities(),
    ProducerIdBlock(),
    AccessControlEntries(),
    DelegationTokens(),
)
