"""Deltas: what the records between two offsets touched, with the images before and after.

A delta is never the difference of two images: a topic created, half written to ZooKeeper and
deleted again is in neither image, and must still be cleaned up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec

from emulator.metadata import acls, client_quotas, configs
from emulator.metadata.acls import Resource
from emulator.metadata.client_quotas import Entity
from emulator.metadata.image import Image
from emulator.metadata.topics import Topic
from wire import records as r


class Touched(msgspec.Struct):
    """Every entity that some records name, whether or not they changed it.

    A topic counts as touched when its partitions are; a removed topic touches its partitions and
    its config.
    """

    topics: dict[bytes, str] = msgspec.field(default_factory=dict)
    """Name by id: a name that was deleted and created again is listed under both ids."""
    created_topics: set[bytes] = msgspec.field(default_factory=set)
    deleted_topics: set[bytes] = msgspec.field(default_factory=set)
    """Ids; a topic created and then deleted is in both."""
    partitions: set[tuple[bytes, int]] = msgspec.field(default_factory=set)
    """Topic id and partition number."""
    configs: set[tuple[int, str]] = msgspec.field(default_factory=set)
    """Resource type and name."""
    client_quotas: set[Entity] = msgspec.field(default_factory=set)
    scram_credentials: set[tuple[str, int]] = msgspec.field(default_factory=set)
    """User name and number of the mechanism."""
    acls: set[Resource] = msgspec.field(default_factory=set)
    """Resources whose entries records name."""
    delegation_tokens: set[str] = msgspec.field(default_factory=set)
    brokers: set[int] = msgspec.field(default_factory=set)
    controllers: set[int] = msgspec.field(default_factory=set)
    features: set[str] = msgspec.field(default_factory=set)
    producer_ids: bool = False
    migration_state: bool = False

    def merge(self, later: Touched) -> None:
        """Add the entities that later records touched."""
        if later.topics:
            self.topics.update(later.topics)
            self.created_topics |= later.created_topics
            self.deleted_topics |= later.deleted_topics
            self.partitions |= later.partitions
        if later.configs:
            self.configs |= later.configs
        if later.brokers:
            self.brokers |= later.brokers
        for name in _SELDOM:
            if more := getattr(later, name):
                getattr(self, name).update(more)
        self.producer_ids |= later.producer_ids
        self.migration_state |= later.migration_state

    @property
    def in_zookeeper(self) -> bool:
        """Whether anything is touched that ZooKeeper has too during a migration."""
        return bool(self.topics) or self.beside_topics

    @property
    def beside_topics(self) -> bool:
        """Whether this is so of anything else than topics; configs are something else."""
        if self.configs or self.producer_ids or self.client_quotas or self.scram_credentials:
            return True
        return bool(self.acls or self.delegation_tokens)

    @property
    def only_states(self) -> bool:
        """Whether of topics, configs and what is rare only partitions of old topics are touched.

        They may be new partitions of such a topic. A caller that creates or deletes something else
        waits to see it; a caller that shrinks an ISR does not.
        """
        if self.created_topics or self.deleted_topics or self.configs:
            return False
        return not any(getattr(self, name) for name in _SELDOM_IN_ZOOKEEPER)

    def __bool__(self) -> bool:
        """Whether anything is touched."""
        if self.topics or self.configs or self.brokers:
            return True
        return bool(self.controllers or self.features or self.migration_state) or self.beside_topics


_SELDOM_IN_ZOOKEEPER: Final = ("client_quotas", "scram_credentials", "acls", "delegation_tokens")
_SELDOM: Final = (*_SELDOM_IN_ZOOKEEPER, "controllers", "features")
"""Collections besides those of topics, configs and brokers. What touches a topic or a partition
names the topic in ``topics``.
"""


class Delta(msgspec.Struct, frozen=True):
    """The changes of records ``first_offset`` to ``last_offset``, between two stable images.

    ``touched`` is empty where the records changed nothing: NoOp, a control batch, an aborted
    transaction.
    """

    before: Image
    after: Image
    touched: Touched
    first_offset: int
    last_offset: int

    def then(self, later: Delta) -> Delta:
        """One delta for this and the one that follows it directly."""
        assert later.before.offset == self.after.offset, "deltas follow each other without a gap"
        touched = Touched()
        touched.merge(self.touched)
        touched.merge(later.touched)
        return Delta(self.before, later.after, touched, self.first_offset, later.last_offset)


def touch(touched: Touched, image: Image, record: object) -> None:
    """Collect the entities that a record names.

    Args:
        touched: collects.
        image: just before the record, so that an id still has its name.
        record: one that ``replay`` accepts on ``image``.
    """
    collect = _COLLECT.get(type(record))
    if collect is not None:
        collect(touched, image, record)


def touch_topic(touched: Touched, topic: Topic, record: object) -> None:
    """Collect what a record about a topic or partition names, as :func:`touch` does.

    The keys hold the id of the topic, not the equal one that each record brings.

    Args:
        touched: collects.
        topic: the one that the record creates or changes.
        record: one that ``Replayer.of_topic`` has replayed.
    """
    touched.topics[topic.id] = topic.name
    if isinstance(record, r.TopicRecord):
        touched.created_topics.add(topic.id)
    else:
        assert isinstance(record, r.PartitionRecord | r.PartitionChangeRecord)
        touched.partitions.add((topic.id, record.partition_id))


Collect: TypeAlias = Callable[[Touched, Image, Any], None]


def _topic(touched: Touched, _image: Image, record: r.TopicRecord) -> None:
    touched.topics[record.topic_id] = record.name
    touched.created_topics.add(record.topic_id)


def _partition(
    touched: Touched, image: Image, record: r.PartitionRecord | r.PartitionChangeRecord
) -> None:
    touched.topics[record.topic_id] = image.topics[record.topic_id].name
    touched.partitions.add((record.topic_id, record.partition_id))


def _remove_topic(touched: Touched, image: Image, record: r.RemoveTopicRecord) -> None:
    topic = image.topics[record.topic_id]
    touched.topics[topic.id] = topic.name
    touched.deleted_topics.add(topic.id)
    touched.partitions.update((topic.id, index) for index in topic.partitions)
    if (configs.TOPIC, topic.name) in image.configs:
        touched.configs.add((configs.TOPIC, topic.name))


def _config(touched: Touched, _image: Image, record: r.ConfigRecord) -> None:
    touched.configs.add((record.resource_type, record.resource_name))


def _client_quota(touched: Touched, _image: Image, record: r.ClientQuotaRecord) -> None:
    touched.client_quotas.add(client_quotas.of_record(record))


def _scram(
    touched: Touched,
    _image: Image,
    record: r.UserScramCredentialRecord | r.RemoveUserScramCredentialRecord,
) -> None:
    touched.scram_credentials.add((record.name, record.mechanism))


def _acl(touched: Touched, _image: Image, record: r.AccessControlEntryRecord) -> None:
    touched.acls.add(acls.of_record(record).resource)


def _remove_acl(touched: Touched, image: Image, record: r.RemoveAccessControlEntryRecord) -> None:
    touched.acls.add(image.acls[record.id].resource)


def _token(
    touched: Touched,
    _image: Image,
    record: r.DelegationTokenRecord | r.RemoveDelegationTokenRecord,
) -> None:
    touched.delegation_tokens.add(record.token_id)


def _broker(
    touched: Touched,
    _image: Image,
    record: r.RegisterBrokerRecord | r.UnregisterBrokerRecord | r.BrokerRegistrationChangeRecord,
) -> None:
    touched.brokers.add(record.broker_id)


def _fence(
    touched: Touched, _image: Image, record: r.FenceBrokerRecord | r.UnfenceBrokerRecord
) -> None:
    touched.brokers.add(record.id)


def _controller(touched: Touched, _image: Image, record: r.RegisterControllerRecord) -> None:
    touched.controllers.add(record.controller_id)


def _feature(touched: Touched, _image: Image, record: r.FeatureLevelRecord) -> None:
    touched.features.add(record.name)


def _producer_ids(touched: Touched, _image: Image, _record: r.ProducerIdsRecord) -> None:
    touched.producer_ids = True


def _migration_state(touched: Touched, _image: Image, _record: r.ZkMigrationStateRecord) -> None:
    touched.migration_state = True


_COLLECT: Final[Mapping[type, Collect]] = MappingProxyType(
    {
        r.TopicRecord: _topic,
        r.PartitionRecord: _partition,
        r.PartitionChangeRecord: _partition,
        r.RemoveTopicRecord: _remove_topic,
        r.ConfigRecord: _config,
        r.ClientQuotaRecord: _client_quota,
        r.UserScramCredentialRecord: _scram,
        r.RemoveUserScramCredentialRecord: _scram,
        r.AccessControlEntryRecord: _acl,
        r.RemoveAccessControlEntryRecord: _remove_acl,
        r.DelegationTokenRecord: _token,
        r.RemoveDelegationTokenRecord: _token,
        r.RegisterBrokerRecord: _broker,
        r.UnregisterBrokerRecord: _broker,
        r.BrokerRegistrationChangeRecord: _broker,
        r.FenceBrokerRecord: _fence,
        r.UnfenceBrokerRecord: _fence,
        r.RegisterControllerRecord: _controller,
        r.FeatureLevelRecord: _feature,
        r.ProducerIdsRecord: _producer_ids,
        r.ZkMigrationStateRecord: _migration_state,
    }
)
