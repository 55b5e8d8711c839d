"""The initial copy: a ZooKeeper tree as metadata records.

Pure: a tree in, pages of records out. Pages are made one by one, since no step may take longer than
5 ms. They are appended inside one metadata transaction where metadata.version has transactions (13
and above). Below that level, the records of an unfinished copy are removed from the log first, so
that the copy can start again (Kafka 3.4-3.6 duplicates records then).

A broker that is not registered can neither be sent requests nor be fenced. So the copy removes it
from ISRs and elects another member for the partitions it leads (:func:`led_by_the_present`).

Order, as in Kafka: per topic its TopicRecord, ConfigRecords, PartitionRecords; then the other
classes in the order of ``znodes.entities``. Source: KIP-866 "Initial Data Migration";
ZkMigrationClient.readAllMetadata, ZkTopicMigrationClient.iterateTopics, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, TypeAlias

from emulator.metadata import configs as config_types
from emulator.metadata.brokers import Brokers
from emulator.metadata.image import Image
from emulator.metadata.leader_election import PartitionChange
from emulator.metadata.metadata_version import Feature, MetadataVersion
from emulator.metadata.topics import NO_LEADER, Partition, changed_partition
from emulator.znodes import configs, topics
from emulator.znodes.entities import ENTITIES_WITHOUT_SECRETS
from emulator.znodes.entity import Entities
from emulator.znodes.reader import Tree
from wire import records as r

Record: TypeAlias = object
PAGE_RECORDS_MAX: Final = 1_000
"""A page is cut inside a topic only above this size."""
TRANSACTION_NAME: Final = "ZK Migration"


def pages(
    tree: Tree,
    image: Image,
    min_batch_size: int,
    entities: Entities = ENTITIES_WITHOUT_SECRETS,
    brokers: Callable[[], Brokers] | None = None,
) -> Iterator[list[Record]]:
    """Yield the records that change ``image`` to the content of ``tree``, in pages.

    Args:
        tree: read after the claim, so that no other client writes to it; every entity in it is
            supported and well formed (checked by ``preconditions``).
        image: the newest stable image; not empty only after an unfinished copy below
            metadata.version 13.
        min_batch_size: ``zookeeper.metadata.migration.min.batch.size``: minimum records of a page,
            except the last one.
        entities: the classes beside topics.
        brokers: those registered when a page is made; a broker that leaves later is handled by
            fencing as usual. None: no broker is treated as gone.

    Yields:
        Pages of at least ``min_batch_size`` and, inside one topic, at most :data:`PAGE_RECORDS_MAX`
        records.

    Raises:
        ZnodeError: a znode changed into something unreadable since it was checked.
    """
    page: list[Record] = []
    for one in _each(tree, image, entities, brokers):
        for record in one:
            page.append(record)
            if len(page) >= PAGE_RECORDS_MAX:
                yield page
                page = []
        if len(page) >= min_batch_size:
            yield page
            page = []
    if page:
        yield page


def begin(version: MetadataVersion) -> list[Record]:
    """The batch that begins the copy; empty below metadata.version 13."""
    if not version.supports(Feature.TRANSACTIONS):
        return []
    return [r.BeginTransactionRecord(name=TRANSACTION_NAME)]


def complete(version: MetadataVersion) -> list[Record]:
    """The last batch of the copy: from it on the log says MIGRATION."""
    state: list[Record] = [r.ZkMigrationStateRecord(zk_migration_state=1)]
    if version.supports(Feature.TRANSACTIONS):
        state.append(r.EndTransactionRecord())
    return state


def abort(reason: str) -> list[Record]:
    """The batch that aborts everything since :func:`begin`."""
    return [r.AbortTransactionRecord(reason=reason)]


def leftovers(image: Image, entities: Entities = ENTITIES_WITHOUT_SECRETS) -> Iterator[Record]:
    """Yield the records that remove an unfinished copy from the log; none if there is none."""
    for topic_id in image.topics:
        yield r.RemoveTopicRecord(topic_id=topic_id)
    for (resource_type, name), config in image.configs.items():
        if resource_type == config_types.TOPIC and image.topic(name) is None:
            for key in config:
                yield r.ConfigRecord(
                    resource_type=resource_type, resource_name=name, name=key, value=None
                )
    for entity in entities:
        yield from entity.leftovers(image)


def topic_records(
    tree: Tree,
    name: str,
    version: MetadataVersion,
    brokers: Callable[[], Brokers] | None = None,
) -> Iterator[Record]:
    """Yield the records of one topic: the topic, its configs, its partitions.

    A missing state znode stands for a partition that no controller has seen yet: all replicas in
    sync, led by the first, epochs 0 (ZkTopicMigrationClient logs the same as a warning).
    """
    topic = topics.read_topic(tree, name)
    yield r.TopicRecord(name=name, topic_id=topic.topic_id)
    yield from config_records(config_types.TOPIC, name, configs.read_topic_config(tree, name))
    for partition_id, replicas in sorted(topic.partitions.items()):
        state = topics.read_state(tree, name, partition_id)
        if state is None:
            isr, leader, leader_epoch, recovery, epoch = replicas, replicas[0], 0, 0, 0
        else:
            isr, leader, leader_epoch = state.isr, state.leader, state.leader_epoch
            recovery, epoch = state.leader_recovery_state, state.version
        partition = Partition(
            replicas=replicas,
            isr=isr,
            adding_replicas=topic.adding_replicas.get(partition_id, ()),
            removing_replicas=topic.removing_replicas.get(partition_id, ()),
            leader=leader,
            leader_recovery_state=recovery,
            leader_epoch=leader_epoch,
            partition_epoch=epoch,
        )
        if brokers is not None:
            partition = led_by_the_present(partition, brokers(), version)
        yield _partition_record(topic.topic_id, partition_id, partition)


def led_by_the_present(
    partition: Partition, brokers: Brokers, version: MetadataVersion
) -> Partition:
    """The partition with unregistered brokers removed from leadership and ISR.

    Both epochs rise with the change, so that its brokers notice. If no other replica is in sync,
    the ISR stays and there is no leader: the missing broker may come back, and no other has all of
    the data.

    A partition without a leader gets one if a broker of its ISR is unfenced. Later an unfencing
    elects, and that broker is unfenced already.
    """
    named = {*partition.isr, partition.leader} - {NO_LEADER}
    may_lead = partial(_active, brokers)
    waits = partition.leader == NO_LEADER and any(map(may_lead, partition.isr))
    if not waits and all(member in brokers for member in named):
        return partition
    change = PartitionChange(
        topic_id=topics.NO_ID,
        partition_id=0,
        partition=partition,
        may_lead=may_lead,
        metadata_version=version,
        migrating=True,
        target_isr=tuple(member for member in partition.isr if member in brokers),
    ).build()
    return partition if change is None else changed_partition(partition, change)


def _active(brokers: Brokers, broker_id: int) -> bool:
    return broker_id in brokers and brokers[broker_id].active


def _partition_record(topic_id: bytes, index: int, partition: Partition) -> r.PartitionRecord:
    return r.PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        adding_replicas=partition.adding_replicas,
        removing_replicas=partition.removing_replicas,
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
    )


def config_records(
    resource_type: int, name: str, config: Iterable[tuple[str, str]]
) -> Iterator[Record]:
    """Yield one ConfigRecord per key."""
    for key, value in config:
        yield r.ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)


def migrated_topics(tree: Tree) -> list[str]:
    """Names of the topics to copy, without those pending deletion (D01)."""
    pending = set(tree.children("/admin/delete_topics"))
    return [name for name in sorted(tree.children("/brokers/topics")) if name not in pending]


def _each(
    tree: Tree, image: Image, entities: Entities, brokers: Callable[[], Brokers] | None
) -> Iterator[Iterable[Record]]:
    for record in leftovers(image, entities):
        yield (record,)
    for name in migrated_topics(tree):
        yield topic_records(tree, name, image.metadata_version, brokers)
    for entity in entities:
        yield from entity.records(tree, image)
