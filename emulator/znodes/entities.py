"""The classes of entities beside topics, in the order they are copied and written.

Source: ZkMigrationClient.readAllMetadata, KRaftMigrationZkWriter.handleSnapshot, Kafka 3.9.
"""

from __future__ import annotations

from typing import Final

from emulator.config.passwords import PasswordSettings
from emulator.znodes.acls import AccessControlEntries
from emulator.znodes.broker_configs import BrokerConfigs
from emulator.znodes.client_entities import ClientEntities
from emulator.znodes.delegation_tokens import DelegationTokens
from emulator.znodes.entity import Entities
from emulator.znodes.passwords import Passwords
from emulator.znodes.producer_id import ProducerIdBlock


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


ENTITIES_WITHOUT_SECRETS: Final = entities(Passwords(PasswordSettings()))
"""For what reads no passwords of brokers; others pass ``entities(passwords)``."""
