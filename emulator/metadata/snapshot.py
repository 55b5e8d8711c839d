"""A snapshot is the records of an image: replayed from an empty image they give the same image."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from emulator.metadata import (
    acls,
    client_quotas,
    controllers,
    delegation_tokens,
    migration_state,
    scram,
)
from emulator.metadata.brokers import Broker, registration
from emulator.metadata.errors import ReplayError
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import (
    FEATURE_NAME,
    MINIMUM_BOOTSTRAP,
    Feature,
    MetadataVersion,
)
from emulator.metadata.producer_ids import ProducerIds
from emulator.metadata.replay import Replayer
from emulator.metadata.topics import MIGRATING, RECOVERED, Partition, Topic
from emulator.seam import RECORDS_PER_SLICE, Slices, whole
from wire import records as r


def to_records(image: Image) -> Iterator[tuple[object, int]]:
    """Write an image as records, each in the version for its metadata.version.

    metadata.version comes first, because the rest is read by it; then by entity, by ascending key.

    Yields:
        (record, record version).

    Raises:
        ValueError: the image holds something that its metadata.version cannot express.

    Source: MetadataImage.write, Kafka 3.9.
    """
    version = image.metadata_version
    for record in _records(image, version):
        yield record, version.record_version(type(record))


def from_records(records: Iterable[object], offset: int, epoch: int) -> Image:
    """Read a snapshot's records back at once; as :func:`read_back`."""
    return whole(read_back(records, offset, epoch))


def read_back(records: Iterable[object], offset: int, epoch: int) -> Slices[Image]:
    """Read a snapshot's records back, in slices.

    Args:
        records: all data records of the snapshot, in order.
        offset: of the last record of the log that the snapshot contains (its end offset less one).
        epoch: leader epoch of that record.

    Raises:
        ReplayError: a record does not fit, or belongs to a transaction.
    """
    replayer = Replayer(Image(offset, epoch))
    for number, record in enumerate(records, 1):
        if number % RECORDS_PER_SLICE == 0:
            # The image so far is made now, or the last slice would make it of all records.
            replayer.make()
            yield
        if replayer.of_topic(record, offset, epoch) is not None:
            continue
        if replayer.in_run(record, offset, epoch) is not None:
            continue
        if isinstance(record, r.BeginTransactionRecord | r.EndTransactionRecord):
            raise ReplayError(f"{type(record).__name__} cannot appear within a snapshot")
        replayer.other(record, offset, epoch)
    return replayer.image


def _records(image: Image, version: MetadataVersion) -> Iterator[object]:
    yield from _features(image, version)
    for broker in image.brokers.values():
        yield _broker(broker, version)
    for controller in image.controllers.values():
        yield controllers.registration(controller)
    for topic in image.topics.values():
        yield r.TopicRecord(name=topic.name, topic_id=topic.id)
        for index, partition in topic.partitions.items():
            yield _partition(topic, index, partition, version)
    for (resource_type, name), config in image.configs.items():
        for key, value in config.items():
            yield r.ConfigRecord(
                resource_type=resource_type, resource_name=name, name=key, value=value
            )
    for entity, limits in image.client_quotas.items():
        for key, limit in limits.items():
            yield client_quotas.record_of(entity, key, limit)
    ids = image.producer_ids
    if ids != ProducerIds():
        yield r.ProducerIdsRecord(
            broker_id=ids.broker_id,
            broker_epoch=ids.broker_epoch,
            next_producer_id=ids.next_producer_id,
        )
    yield from _security(image, version)
    if image.mark is not None:
        yield migration_state.record_of(image.mark)


def _features(image: Image, version: MetadataVersion) -> Iterator[object]:
    if version.level >= MINIMUM_BOOTSTRAP.level:
        yield r.FeatureLevelRecord(name=FEATURE_NAME, feature_level=version.level)
    elif image.features:
        raise ValueError(f"feature levels cannot be kept at {FEATURE_NAME} {version.level}")
    for name, level in image.features.items():
        if name != FEATURE_NAME:
            yield r.FeatureLevelRecord(name=name, feature_level=level)
    if version.supports(Feature.MIGRATION):
        yield r.ZkMigrationStateRecord(zk_migration_state=int(image.migration_state))
    else:
        _only_empty(version, migration_state=int(image.migration_state))


def _security(image: Image, version: MetadataVersion) -> Iterator[object]:
    for acl_id, acl in image.acls.items():
        yield acls.record_of(acl_id, acl)
    if not version.supports(Feature.SCRAM):
        _only_empty(version, scram_credentials=image.scram_credentials)
    for key, credential in image.scram_credentials.items():
        yield scram.record_of(key, credential)
    if not version.supports(Feature.DELEGATION_TOKENS):
        _only_empty(version, delegation_tokens=image.delegation_tokens)
    for token in image.delegation_tokens.values():
        yield delegation_tokens.record_of(token)


def _broker(broker: Broker, version: MetadataVersion) -> object:
    if not version.supports(Feature.CONTROLLED_SHUTDOWN_STATE):
        _only_empty(version, in_controlled_shutdown=broker.in_controlled_shutdown)
    if not version.supports(Feature.MIGRATION):
        _only_empty(version, is_migrating_zk_broker=broker.is_migrating_zk_broker)
    if not version.supports(Feature.DIRECTORIES):
        _only_empty(version, log_dirs=broker.log_dirs)
    return registration(broker)


def _partition(topic: Topic, index: int, partition: Partition, version: MetadataVersion) -> object:
    if not version.supports(Feature.LEADER_RECOVERY_STATE):
        _only_empty(version, leader_recovery_state=partition.leader_recovery_state != RECOVERED)
    directories = partition.directories
    if not version.supports(Feature.DIRECTORIES):
        _only_empty(version, directories=any(one != MIGRATING for one in directories))
        directories = ()
    return r.PartitionRecord(
        partition_id=index,
        topic_id=topic.id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=directories,
    )


def _only_empty(version: MetadataVersion, **values: object) -> None:
    for name, value in values.items():
        if value:
            raise ValueError(f"{name} cannot be kept at {FEATURE_NAME} {version.level}")
