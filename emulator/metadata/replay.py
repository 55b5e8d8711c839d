"""Replay: apply one record to an image. The only way metadata changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

from msgspec.structs import replace
from typing_extensions import override

from emulator.metadata import (
    acls,
    brokers,
    client_quotas,
    configs,
    controllers,
    delegation_tokens,
    features,
    migration_state,
    producer_ids,
    scram,
)
from emulator.metadata.acls import Acl, Resource
from emulator.metadata.configs import TOPIC
from emulator.metadata.delta import Touched, touch, touch_topic
from emulator.metadata.errors import ReplayError
from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.metadata.topics import Partition, Topic, changed_partition, new_partition
from wire import records as r
from wire.text import uuid_text

# Replays runs of records about topics: one new image for many records, not one for each.
#
# The records of a large creation follow each other, and each of them would copy the parts of three
# maps that it changes.
#
# Source: ReplicationControlManager.replay, Kafka 3.9.

OF_TOPICS: Final = (r.TopicRecord, r.PartitionRecord, r.PartitionChangeRecord)
"""The records that are replayed here."""


class TopicChanges:
    """Changes of topics on an image that is not made yet; :meth:`applied` makes it.

    After an error nothing of it may be used.
    """

    def __init__(self, image: Image) -> None:
        self._image = image
        self._topics: dict[bytes, Topic] = {}
        """New ones; their partitions are below."""
        self._ids: dict[str, bytes] = {}
        """Of the new ones, by name."""
        self._partitions: dict[bytes, dict[int, Partition]] = {}
        """New and changed ones, by topic id and number."""

    def replay(self, record: object) -> Topic:
        """Apply one record, of :data:`OF_TOPICS`; returns its topic.

        The partitions in the topic returned need not be the newest.

        Raises:
            ReplayError: the record does not fit.
        """
        match record:
            case r.PartitionRecord():
                topic = self._known(record.topic_id)
                self._put(topic, record.partition_id, new_partition(record))
            case r.PartitionChangeRecord():
                topic = self._known(record.topic_id)
                before = self._partition(topic, record.partition_id)
                self._put(topic, record.partition_id, changed_partition(before, record))
            case _:
                assert isinstance(record, r.TopicRecord)
                topic = self._new(record)
        return topic

    def applied(self, offset: int, epoch: int) -> Image:
        """The image with all changes; the last of them is at that offset, in that epoch."""
        image = self._image
        topics = dict(self._topics)
        for topic_id, changed in self._partitions.items():
            topic = topics.get(topic_id) or image.topics[topic_id]
            topics[topic_id] = Topic(topic.name, topic.id, topic.partitions.update(changed))
        return replace(
            image,
            topics=image.topics.update(topics),
            topic_ids=image.topic_ids.update(self._ids),
            offset=offset,
            epoch=epoch,
        )

    def _new(self, record: r.TopicRecord) -> Topic:
        name, topic_id, image = record.name, record.topic_id, self._image
        held = image.topic_ids.get(name) or self._ids.get(name)
        if held is not None:
            raise ReplayError(f"topic {name} exists with id {uuid_text(held)}")
        if topic_id in self._topics or topic_id in image.topics:
            raise ReplayError(f"topic id {uuid_text(topic_id)} exists under another name")
        topic = self._topics[topic_id] = Topic(name, topic_id)
        self._ids[name] = topic_id
        return topic

    def _known(self, topic_id: bytes) -> Topic:
        topic = self._topics.get(topic_id) or self._image.topics.get(topic_id)
        if topic is None:
            raise ReplayError(f"there is no topic with id {uuid_text(topic_id)}")
        return topic

    def _partition(self, topic: Topic, partition_id: int) -> Partition:
        changed = self._partitions.get(topic.id, _NONE)
        found = changed.get(partition_id) or topic.partitions.get(partition_id)
        if found is None:
            raise ReplayError(f"topic {topic.name} has no partition {partition_id}")
        return found

    def _put(self, topic: Topic, partition_id: int, partition: Partition) -> None:
        changed = self._partitions.get(topic.id)
        if changed is None:
            changed = self._partitions[topic.id] = {}
        changed[partition_id] = partition


_NONE: Final[dict[int, Partition]] = {}


# Replays runs of records of one kind: topics removed, access control entries added or removed.
#
# A run makes one image. Each of its records alone would copy the parts of two or three maps that it
# changes.
#
# Source: ReplicationControlManager.replay, AclControlManager.replay, Kafka 3.9.


class RecordRun(Protocol):
    """Records of one kind, replayed on the image ``before``; after an error it must not be used."""

    before: Image

    def __init__(self, before: Image) -> None: ...

    def replay(self, record: Any) -> None:
        """Apply one record.

        Raises:
            ReplayError: it does not fit.
        """

    def applied(self, offset: int, epoch: int) -> Image:
        """The image with all of them; the last one is at that offset, in that epoch."""


class RemovedTopics(RecordRun):
    """A run of RemoveTopicRecord; the config of a topic goes with it."""

    def __init__(self, before: Image) -> None:
        self.before = before
        self._gone: dict[bytes, str] = {}

    @override
    def replay(self, record: r.RemoveTopicRecord) -> None:
        topic = self.before.topics.get(record.topic_id)
        if topic is None or topic.id in self._gone:
            raise ReplayError(f"there is no topic with id {uuid_text(record.topic_id)}")
        self._gone[topic.id] = topic.name

    @override
    def applied(self, offset: int, epoch: int) -> Image:
        image, names = self.before, tuple(self._gone.values())
        configured = [(TOPIC, name) for name in names if (TOPIC, name) in image.configs]
        return replace(
            image,
            topics=image.topics.without(self._gone),
            topic_ids=image.topic_ids.without(names),
            configs=image.configs.without(configured),
            offset=offset,
            epoch=epoch,
        )


class AddedAcls(RecordRun):
    """A run of AccessControlEntryRecord."""

    def __init__(self, before: Image) -> None:
        self.before = before
        self._new: dict[bytes, Acl] = {}

    @override
    def replay(self, record: r.AccessControlEntryRecord) -> None:
        """An entry may be added twice."""
        acl = acls.of_record(record)
        known = self._new.get(record.id) or self.before.acls.get(record.id)
        if known is not None and known != acl:
            raise ReplayError(f"ACL {uuid_text(record.id)} exists with another content")
        self._new[record.id] = acl

    @override
    def applied(self, offset: int, epoch: int) -> Image:
        image = self.before
        groups: dict[Resource, dict[bytes, Acl]] = {}
        for acl_id, acl in self._new.items():
            groups.setdefault(acl.resource, {})[acl_id] = acl
        of = image.resource_acls
        changed = {resource: of(resource).update(group) for resource, group in groups.items()}
        return replace(
            image,
            acls=image.acls.update(self._new),
            acls_by_resource=image.acls_by_resource.update(changed),
            offset=offset,
            epoch=epoch,
        )


class RemovedAcls(RecordRun):
    """A run of RemoveAccessControlEntryRecord."""

    def __init__(self, before: Image) -> None:
        self.before = before
        self._gone: dict[bytes, Acl] = {}

    @override
    def replay(self, record: r.RemoveAccessControlEntryRecord) -> None:
        acl = self.before.acls.get(record.id)
        if acl is None or record.id in self._gone:
            raise ReplayError(f"there is no ACL {uuid_text(record.id)}")
        self._gone[record.id] = acl

    @override
    def applied(self, offset: int, epoch: int) -> Image:
        image = self.before
        groups: dict[Resource, list[bytes]] = {}
        for acl_id, acl in self._gone.items():
            groups.setdefault(acl.resource, []).append(acl_id)
        of = image.resource_acls
        left = {resource: of(resource).without(ids) for resource, ids in groups.items()}
        emptied = [resource for resource, group in left.items() if not group]
        kept = {resource: group for resource, group in left.items() if group}
        return replace(
            image,
            acls=image.acls.without(self._gone),
            acls_by_resource=image.acls_by_resource.update(kept).without(emptied),
            offset=offset,
            epoch=epoch,
        )


RUNS: Final[Mapping[type, type[RecordRun]]] = MappingProxyType(
    {
        r.RemoveTopicRecord: RemovedTopics,
        r.AccessControlEntryRecord: AddedAcls,
        r.RemoveAccessControlEntryRecord: RemovedAcls,
    }
)
"""The kinds of runs by their record."""


Apply: TypeAlias = Callable[[Image, Any], Image]


def replay(image: Image, record: object, offset: int, epoch: int) -> Image:
    """Return the image after one record.

    Begin and End of a transaction only move the offset; History decides what is visible between
    them.

    Args:
        image: all records before this one, replayed.
        record: an object of ``wire.records``.
        offset: where the record stands in the log; above the image's, or the same inside a
            snapshot.
        epoch: the leader epoch of its batch.

    Raises:
        ReplayError: the record does not fit the image, is of a class that no Kafka writes (such as
            AccessControlRecord), or aborts a transaction, which needs a History.

    Source: the replay methods of QuorumController's managers, Kafka 3.9.
    """
    name = type(record).__name__
    apply = _APPLY.get(type(record))
    if apply is None:
        raise ReplayError(f"offset {offset}: {name}: records of this class are not supported")
    try:
        return replace(apply(image, record), offset=offset, epoch=epoch)
    except ReplayError as error:
        raise _placed(error, record, offset) from None


def _placed(error: ReplayError, record: object, offset: int) -> ReplayError:
    return ReplayError(f"offset {offset}: {type(record).__name__}: {error}")


class Replayer:
    """Replays records one after the other; an image is made only where one is asked for.

    Of a run of records about topics and partitions, none but the last needs one; nor of records of
    another kind that :data:`RUNS` has.
    """

    def __init__(self, image: Image) -> None:
        self._image = image
        self._pending: TopicChanges | RecordRun | None = None
        self._last = (image.offset, image.epoch)

    @property
    def image(self) -> Image:
        """All records replayed so far."""
        self.make()
        return self._image

    def make(self) -> None:
        """Make the image of all records replayed so far; a run of records may go on after it."""
        if self._pending is not None:
            self._image = self._pending.applied(*self._last)
            self._pending = None

    def of_topic(self, record: object, offset: int, epoch: int) -> Topic | None:
        """Replay a record that creates or changes a topic or partition, and return its topic.

        None: it is another record, and nothing was done. The partitions in the topic need not be
        the newest.

        Raises:
            ReplayError: as :func:`replay`.
        """
        if type(record) not in OF_TOPICS:
            return None
        changes = self._pending
        if not isinstance(changes, TopicChanges):
            changes = TopicChanges(self.image)
        try:
            topic = changes.replay(record)
        except ReplayError as error:
            raise _placed(error, record, offset) from None
        self._pending, self._last = changes, (offset, epoch)
        return topic

    def in_run(self, record: object, offset: int, epoch: int) -> Image | None:
        """Replay a record of a kind that :data:`RUNS` has; returns the image before its run.

        None: it is another record, and nothing was done.

        Raises:
            ReplayError: as :func:`replay`.
        """
        kind = RUNS.get(type(record))
        if kind is None:
            return None
        run = self._pending
        if run is None or isinstance(run, TopicChanges) or type(run) is not kind:
            run = kind(self.image)
        try:
            run.replay(record)
        except ReplayError as error:
            raise _placed(error, record, offset) from None
        self._pending, self._last = run, (offset, epoch)
        return run.before

    def other(self, record: object, offset: int, epoch: int) -> None:
        """Replay any other record.

        Raises:
            ReplayError: as :func:`replay`.
        """
        self._image = replay(self.image, record, offset, epoch)

    def take(self, record: object, offset: int, epoch: int, touched: Touched) -> None:
        """Replay a record of any kind, and collect what it names.

        Raises:
            ReplayError: as :func:`replay`.
        """
        topic = self.of_topic(record, offset, epoch)
        if topic is not None:
            touch_topic(touched, topic, record)
            return
        before = self.in_run(record, offset, epoch)
        if before is None:
            before = self.image
            self.other(record, offset, epoch)
        touch(touched, before, record)


def _of_topics(image: Image, record: object) -> Image:
    changes = TopicChanges(image)
    changes.replay(record)
    return changes.applied(image.offset, image.epoch)


def _in_run(image: Image, record: object) -> Image:
    run = RUNS[type(record)](image)
    run.replay(record)
    return run.applied(image.offset, image.epoch)


def _register_broker(image: Image, record: r.RegisterBrokerRecord) -> Image:
    return replace(image, brokers=brokers.register(image.brokers, record))


def _unregister_broker(image: Image, record: r.UnregisterBrokerRecord) -> Image:
    return replace(image, brokers=brokers.unregister(image.brokers, record))


def _fence_broker(image: Image, record: r.FenceBrokerRecord) -> Image:
    return replace(image, brokers=brokers.fence(image.brokers, record))


def _unfence_broker(image: Image, record: r.UnfenceBrokerRecord) -> Image:
    return replace(image, brokers=brokers.unfence(image.brokers, record))


def _registration_change(image: Image, record: r.BrokerRegistrationChangeRecord) -> Image:
    return replace(image, brokers=brokers.change_registration(image.brokers, record))


def _register_controller(image: Image, record: r.RegisterControllerRecord) -> Image:
    return replace(image, controllers=controllers.register(image.controllers, record))


def _config(image: Image, record: r.ConfigRecord) -> Image:
    return replace(image, configs=configs.alter(image.configs, record))


def _client_quota(image: Image, record: r.ClientQuotaRecord) -> Image:
    return replace(image, client_quotas=client_quotas.alter(image.client_quotas, record))


def _scram(image: Image, record: r.UserScramCredentialRecord) -> Image:
    return replace(image, scram_credentials=scram.upsert(image.scram_credentials, record))


def _remove_scram(image: Image, record: r.RemoveUserScramCredentialRecord) -> Image:
    return replace(image, scram_credentials=scram.remove(image.scram_credentials, record))


def _token(image: Image, record: r.DelegationTokenRecord) -> Image:
    return replace(image, delegation_tokens=delegation_tokens.put(image.delegation_tokens, record))


def _remove_token(image: Image, record: r.RemoveDelegationTokenRecord) -> Image:
    return replace(
        image, delegation_tokens=delegation_tokens.remove(image.delegation_tokens, record)
    )


def _producer_ids(image: Image, record: r.ProducerIdsRecord) -> Image:
    return replace(image, producer_ids=producer_ids.allocate(image.producer_ids, record))


def _feature_level(image: Image, record: r.FeatureLevelRecord) -> Image:
    return replace(image, features=features.finalise(image.features, record))


def _migration_state(image: Image, record: r.ZkMigrationStateRecord) -> Image:
    # A mark belongs to the state in which it was left.
    state = migration_state.enter(image.migration_state, record)
    return replace(image, migration_state=state, mark=None)


def _no_op(image: Image, record: r.NoOpRecord) -> Image:
    if image.migration_state is not MigrationState.MIGRATION:
        return image
    mark = migration_state.of_record(record)
    return image if mark is None else replace(image, mark=mark)


def _nothing(image: Image, _record: object) -> Image:
    return image


def _abort(_image: Image, _record: r.AbortTransactionRecord) -> Image:
    raise ReplayError("only a History knows what the transaction began with")


_APPLY: Final[Mapping[type, Apply]] = MappingProxyType(
    {
        **dict.fromkeys(OF_TOPICS, _of_topics),
        **dict.fromkeys(RUNS, _in_run),
        r.RegisterBrokerRecord: _register_broker,
        r.UnregisterBrokerRecord: _unregister_broker,
        r.FenceBrokerRecord: _fence_broker,
        r.UnfenceBrokerRecord: _unfence_broker,
        r.BrokerRegistrationChangeRecord: _registration_change,
        r.RegisterControllerRecord: _register_controller,
        r.ConfigRecord: _config,
        r.ClientQuotaRecord: _client_quota,
        r.UserScramCredentialRecord: _scram,
        r.RemoveUserScramCredentialRecord: _remove_scram,
        r.DelegationTokenRecord: _token,
        r.RemoveDelegationTokenRecord: _remove_token,
        r.ProducerIdsRecord: _producer_ids,
        r.FeatureLevelRecord: _feature_level,
        r.ZkMigrationStateRecord: _migration_state,
        r.NoOpRecord: _no_op,
        r.BeginTransactionRecord: _nothing,
        r.EndTransactionRecord: _nothing,
        r.AbortTransactionRecord: _abort,
    }
)
