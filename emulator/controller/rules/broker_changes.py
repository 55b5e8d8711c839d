"""Records for a broker's registration, fencing, unfencing, shutdown and removal.

Shared by heartbeats, the session timer and unregistration. Their order is Kafka's. As in Kafka they
are one batch only if they fit into one: a broker may hold more than 10,000 partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from emulator.controller.context import ControllerConfig
from emulator.controller.result import Record
from emulator.controller.rules.topics import default_directory, replica_online
from emulator.controller.tables.config_defs import unclean_election_allowed
from emulator.controller.tables.index import TipIndex
from emulator.controller.tables.partition_set import PartitionKey
from emulator.metadata.brokers import FENCE, IN_CONTROLLED_SHUTDOWN, UNFENCE, Broker
from emulator.metadata.image import Image
from emulator.metadata.leader_election import PartitionChange, is_active
from emulator.metadata.metadata_version import Feature
from emulator.metadata.migration_state import MigrationState
from emulator.metadata.topics import Partition
from emulator.seam import ENTRIES_PER_SLICE, Pace, Slices
from wire import records as r

PASSED_OVER_PER_ENTRY: Final = 10
"""Partitions that are passed over in the time in which one is looked at."""
Moves: TypeAlias = Slices[tuple[Record, ...]]
"""Records of one change, made in slices: a broker may hold thousands of partitions."""


def migrating(image: Image, config: ControllerConfig) -> bool:
    """Whether ZooKeeper-mode brokers may register (FeatureControl and zkRegistrationAllowed).

    Not after the final record, whatever the flag says; Kafka 3.9 asks the flag alone.
    """
    if image.migration_state is MigrationState.POST_MIGRATION:
        return False
    return config.migration_enabled and image.metadata_version.supports(Feature.MIGRATION)


def partition_change(
    image: Image,
    config: ControllerConfig,
    key: PartitionKey,
    *,
    without: int = -1,
    joining: int = -1,
) -> PartitionChange:
    """A change of one partition that never elects ``without`` and may elect ``joining``.

    ``joining`` counts as active although the image still shows it fenced. A replica in an
    offline directory never leads.

    Source: ReplicationControlManager.LeaderAcceptor, Kafka 3.9.
    """
    topic_id, partition_id = key
    topic = image.topics[topic_id]
    partition = topic.partitions[partition_id]

    def may_lead(replica: int) -> bool:
        alive = replica == joining or is_active(image, replica)
        return replica != without and alive and replica_online(image, partition, replica)

    return PartitionChange(
        topic_id=topic_id,
        partition_id=partition_id,
        partition=partition,
        may_lead=may_lead,
        metadata_version=image.metadata_version,
        migrating=migrating(image, config),
        unclean_allowed=lambda: unclean_election_allowed(image, config, topic.name),
        default_directory=lambda replica: default_directory(image, replica),
    )


def leave_isr(
    image: Image, config: ControllerConfig, keys: Iterable[PartitionKey], broker_id: int
) -> Moves:
    """Remove a broker from ISRs and elect other leaders for the partitions it leads.

    Source: ReplicationControlManager.generateLeaderAndIsrUpdates, Kafka 3.9.
    """
    records: list[Record] = []
    for number, key in enumerate(keys, 1):
        if number % ENTRIES_PER_SLICE == 0:
            yield
        change = partition_change(image, config, key, without=broker_id)
        isr = change.partition.isr
        change.target_isr = tuple(member for member in isr if member != broker_id)
        record = change.build()
        if record is not None:
            records.append(record)
    return tuple(records)


def lead_again(image: Image, config: ControllerConfig, index: TipIndex, broker_id: int) -> Moves:
    """Elect leaders for partitions without one that a returning broker may lead.

    While many brokers are fenced, most partitions have no replica that could lead: they are passed
    over, at a tenth of the cost.
    """
    records: list[Record] = []
    hope = _Hope(image, config, broker_id)
    pace = Pace(ENTRIES_PER_SLICE * PASSED_OVER_PER_ENTRY)
    for key in index.leaderless():
        partition = image.topics[key[0]].partitions[key[1]]
        moves = partition.adding_replicas or partition.removing_replicas
        weight = 1
        if moves or hope.of(key[0], partition):
            weight = PASSED_OVER_PER_ENTRY
            record = partition_change(image, config, key, joining=broker_id).build()
            if record is not None:
                records.append(record)
        if pace.over(weight):
            yield
    return tuple(records)


class _Hope:
    """Whether a partition without a leader may get one; what is asked again is remembered."""

    def __init__(self, image: Image, config: ControllerConfig, joining: int) -> None:
        self._image = image
        self._config = config
        self._alive = {joining: True}
        """Broker id -> whether it is active, or the one that returns."""
        self._unclean: dict[bytes, bool] = {}

    def of(self, topic_id: bytes, partition: Partition) -> bool:
        """False: no live replica is in the ISR, nor may one be elected that is not."""
        live = [replica for replica in partition.replicas if self._lives(replica)]
        if not live:
            return False
        return any(replica in partition.isr for replica in live) or self._allows(topic_id)

    def _lives(self, broker_id: int) -> bool:
        found = self._alive.get(broker_id)
        if found is None:
            found = self._alive[broker_id] = is_active(self._image, broker_id)
        return found

    def _allows(self, topic_id: bytes) -> bool:
        found = self._unclean.get(topic_id)
        if found is None:
            name = self._image.topics[topic_id].name
            found = unclean_election_allowed(self._image, self._config, name)
            self._unclean[topic_id] = found
        return found


def fence(image: Image, config: ControllerConfig, index: TipIndex, broker: Broker) -> Moves:
    """Fence a broker: remove it from every ISR first, then change its registration.

    Source: ReplicationControlManager.handleBrokerFenced, Kafka 3.9.
    """
    moves = yield from leave_isr(image, config, index.in_isr(broker.id), broker.id)
    if image.metadata_version.supports(Feature.REGISTRATION_CHANGE):
        change: Record = r.BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, fenced=FENCE
        )
    else:
        change = r.FenceBrokerRecord(id=broker.id, epoch=broker.epoch)
    return (*moves, change)


def abdicate(image: Image, config: ControllerConfig, broker: Broker) -> Moves:
    """Elect other leaders for partitions led by a broker that was fenced before they were copied.

    Visits every partition. Kafka's timer does not fence before the copy; there both happen after
    it.
    """
    keys = [
        (topic_id, partition_id)
        for topic_id, topic in image.topics.items()
        for partition_id, partition in topic.partitions.items()
        if partition.leader == broker.id
    ]
    return (yield from leave_isr(image, config, keys, broker.id))


def unfence(image: Image, config: ControllerConfig, index: TipIndex, broker: Broker) -> Moves:
    """Unfence a broker, then elect it for partitions without a leader.

    Source: ReplicationControlManager.handleBrokerUnfenced, Kafka 3.9.
    """
    if image.metadata_version.supports(Feature.REGISTRATION_CHANGE):
        change: Record = r.BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, fenced=UNFENCE
        )
    else:
        change = r.UnfenceBrokerRecord(id=broker.id, epoch=broker.epoch)
    moves = yield from lead_again(image, config, index, broker.id)
    return (change, *moves)


def begin_controlled_shutdown(
    image: Image, config: ControllerConfig, index: TipIndex, broker: Broker
) -> Moves:
    """Mark a broker as shutting down, then move its leaderships and ISR entries.

    Source: ReplicationControlManager.handleBrokerInControlledShutdown, Kafka 3.9.
    """
    moves = yield from leave_isr(image, config, index.in_isr(broker.id), broker.id)
    if broker.in_controlled_shutdown or not image.metadata_version.supports(
        Feature.CONTROLLED_SHUTDOWN_STATE
    ):
        return moves
    change = r.BrokerRegistrationChangeRecord(
        broker_id=broker.id,
        broker_epoch=broker.epoch,
        in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN,
    )
    return (change, *moves)


def unregister(image: Image, config: ControllerConfig, index: TipIndex, broker: Broker) -> Moves:
    """Unregister a broker: remove it from every ISR first, then remove its registration.

    Source: ReplicationControlManager.handleBrokerUnregistered, Kafka 3.9.
    """
    moves = yield from leave_isr(image, config, index.in_isr(broker.id), broker.id)
    return (*moves, r.UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch))


def lose_directories(
    image: Image,
    config: ControllerConfig,
    index: TipIndex,
    broker: Broker,
    offline: frozenset[bytes],
) -> Moves:
    """Log directories of a broker went offline: take their replicas out of the ISR.

    The change of the registration lists the remaining directories. An empty list cannot be
    expressed in that record (readers ignore it), so it is left out then.

    Source: ReplicationControlManager.handleDirectoriesOffline, Kafka 3.9.
    """
    lost = [
        key
        for key in index.in_isr(broker.id)
        if image.topics[key[0]].partitions[key[1]].directory(broker.id) in offline
    ]
    moves = yield from leave_isr(image, config, lost, broker.id)
    remaining = tuple(directory for directory in broker.log_dirs if directory not in offline)
    if not remaining:
        return moves
    change = r.BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=remaining
    )
    return (*moves, change)
