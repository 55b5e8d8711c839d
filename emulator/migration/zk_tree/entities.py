"""The classes of entities beside topics, in the order they are copied and written.

Source: ZkMigrationClient.readAllMetadata, KRaftMigrationZkWriter.handleSnapshot, Kafka 3.9.
"""

from __future__ import annotations

from typing import Final

from emulator.config.passwords import PasswordSettings
from emulator.migration.zk_tree.acls import AccessControlEntries
from emulator.migration.zk_tree.broker_configs import BrokerConfigs
from emulator.migration.zk_tree.client_entities import ClientEntities
from emulator.migration.zk_tree.delegation_tokens import DelegationTokens
from emulator.migration.zk_tree.entity import Entities
from emulator.migration.zk_tree.passwords import Passwords
from emulator.migration.zk_tree.producer_id import ProducerIdBlock


def entities(passwords: Passwords) -> Entities:
    """The classes, with their configuration.

    Args:
        passwords: for configs of brokers.
    """
    return (
        BrokerConfigs(passwords),
        ClientEntities(),
        ProducerIdBlock(),
        AccessControlEntries(),
        DelegationTokens(),
    )


ENTITIES: Final = entities(Passwords(PasswordSettings()))
"""The classes without any configuration."""
