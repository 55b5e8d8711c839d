"""The image: all metadata at one offset of the log. Only ``replay`` makes a new one."""

from __future__ import annotations

from typing import Final

import msgspec

from emulator.metadata import acls, configs
from emulator.metadata.acls import Acls, AclsByResource, Resource, ResourceAcls
from emulator.metadata.brokers import Brokers
from emulator.metadata.client_quotas import ClientQuotas
from emulator.metadata.configs import Config, Configs
from emulator.metadata.controllers import Controllers
from emulator.metadata.delegation_tokens import DelegationTokens
from emulator.metadata.features import Features
from emulator.metadata.metadata_version import FEATURE_NAME, MINIMUM, MetadataVersion
from emulator.metadata.migration_state import FinalisationMark, MigrationState
from emulator.metadata.pmap import PMap
from emulator.metadata.producer_ids import ProducerIds
from emulator.metadata.scram import Credentials
from emulator.metadata.topics import Partition, Topic


class Image(msgspec.Struct, frozen=True, gc=False):
    """Metadata after the record at ``offset``, appended in leader epoch ``epoch``; -1 before any.

    ``topics`` and ``topic_ids`` hold the same topics, by id and id by name; ``acls`` and
    ``acls_by_resource`` the same entries. Every map iterates by ascending key.
    """

    offset: int = -1
    epoch: int = -1
    topics: PMap[bytes, Topic] = PMap()
    topic_ids: PMap[str, bytes] = PMap()
    brokers: Brokers = PMap()
    controllers: Controllers = PMap()
    configs: Configs = PMap()
    client_quotas: ClientQuotas = PMap()
    scram_credentials: Credentials = PMap()
    acls: Acls = PMap()
    acls_by_resource: AclsByResource = PMap()
    delegation_tokens: DelegationTokens = PMap()
    producer_ids: ProducerIds = ProducerIds()
    features: Features = PMap()
    migration_state: MigrationState = MigrationState.NONE
    mark: FinalisationMark | None = None
    """That of the last leader with the migration flag, while it holds."""

    @property
    def metadata_version(self) -> MetadataVersion:
        """The current level; the lowest one while no record has set it."""
        return MetadataVersion.from_level(self.features.get(FEATURE_NAME, MINIMUM.level))

    @property
    def finalised_features(self) -> dict[str, int]:
        """Level by name, of every finalised feature; metadata.version is always one."""
        return {FEATURE_NAME: self.metadata_version.level, **dict(self.features.items())}

    def topic(self, name: str) -> Topic | None:
        """The topic with that name, or None."""
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def partition(self, topic_id: bytes, index: int) -> Partition | None:
        """The partition with that topic id and number, or None."""
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.partitions.get(index)

    def config(self, resource_type: int, name: str) -> Config:
        """Dynamic config of one resource, by key; empty if it has none."""
        return self.configs.get((resource_type, name), configs.NONE)

    def resource_acls(self, resource: Resource) -> ResourceAcls:
        """Access control entries of one resource, by id; empty if it has none."""
        return self.acls_by_resource.get(resource, acls.NONE)


EMPTY: Final = Image()
"""Before the first record."""
