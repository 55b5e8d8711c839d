"""Every record of the metadata log by its Kafka schema name, one module per entity.

Importing this package declares them all, control records included.
"""

from wire.records.acls import (
    AccessControlEntryRecord,
    AccessControlRecord,
    RemoveAccessControlEntryRecord,
)
from wire.records.brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from wire.records.configs import ConfigRecord
from wire.records.control import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from wire.records.controllers import RegisterControllerRecord
from wire.records.delegation_tokens import DelegationTokenRecord, RemoveDelegationTokenRecord
from wire.records.features import FeatureLevelRecord
from wire.records.migration_state import ZkMigrationStateRecord
from wire.records.no_op import NoOpRecord
from wire.records.producer_ids import ProducerIdsRecord
from wire.records.quotas import ClientQuotaRecord
from wire.records.scram import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from wire.records.topics import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from wire.records.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)

__all__ = [
    "AbortTransactionRecord",
    "AccessControlEntryRecord",
    "AccessControlRecord",
    "BeginTransactionRecord",
    "BrokerRegistrationChangeRecord",
    "ClientQuotaRecord",
    "ConfigRecord",
    "DelegationTokenRecord",
    "EndTransactionRecord",
    "FeatureLevelRecord",
    "FenceBrokerRecord",
    "KRaftVersionRecord",
    "LeaderChangeMessage",
    "NoOpRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "RegisterBrokerRecord",
    "RegisterControllerRecord",
    "RemoveAccessControlEntryRecord",
    "RemoveDelegationTokenRecord",
    "RemoveTopicRecord",
    "RemoveUserScramCredentialRecord",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "TopicRecord",
    "UnfenceBrokerRecord",
    "UnregisterBrokerRecord",
    "UserScramCredentialRecord",
    "VotersRecord",
    "ZkMigrationStateRecord",
]
