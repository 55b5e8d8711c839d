"""Builds LeaderAndIsr, UpdateMetadata and StopReplica for ZooKeeper-mode brokers.

Pure functions from images to requests; ``propagator.py`` decides when and in which order they are
sent.

Source: KIP-866 "Controller RPCs"; MigrationPropagator, ControllerBrokerRequestBatch and
AbstractControllerBrokerRequestBatch, Kafka 3.9; versions at metadata.version 8 and above:
LeaderAndIsr 7, UpdateMetadata 8, StopReplica 4. The epochs, which are four different numbers:

* request ``controller_epoch``: the ZooKeeper epoch of ``/controller_epoch``, above every former one
  (L05);
* partition ``controller_epoch``: the KRaft leader epoch of the image;
* request ``broker_epoch``: the epoch handed out at the KRaft registration, not the czxid of the
  broker's znode;
* ``leader_epoch`` and ``partition_epoch`` (UpdateMetadata: ``zk_version``): the partition's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from emulator.metadata.brokers import Broker, Brokers
from emulator.metadata.image import Image
from emulator.metadata.topics import Partition, Topic
from emulator.migration.propagation.channels import Peer
from emulator.net.control import TYPE_FULL
from emulator.seam import Pace, Slices
from wire import messages as m
from wire.constant import Constant

UpdateTopic = m.UpdateMetadataRequest.UpdateMetadataTopicState
LeaderTopic = m.LeaderAndIsrRequest.LeaderAndIsrTopicState
LEADER_DURING_DELETE: Final = -2
EPOCH_DURING_DELETE: Final = -2
PARTITIONS_PER_STEP: Final = 250
ZERO_UUID: Final = bytes(16)


class Sender(msgspec.Struct, frozen=True):
    """What every request of one controller term carries."""

    node_id: int
    zk_epoch: int
    """Value of ``/controller_epoch`` as claimed."""
    listener: str
    """``inter.broker.listener.name``: where brokers listen for controller and each other."""


class PartitionAt(msgspec.Struct, frozen=True, gc=False):
    """A partition with the topic it belongs to."""

    topic: Topic
    partition_id: int
    partition: Partition


class Leaders(msgspec.Struct, frozen=True, gc=False):
    """The content of a LeaderAndIsr, without its epochs."""

    topics: Constant[LeaderTopic]
    live: Constant[m.LeaderAndIsrRequest.LeaderAndIsrLiveLeader]


class LeadersForAll(msgspec.Struct, frozen=True, gc=False):
    """The same for brokers that host all partitions of a change: those of ``hosts``."""

    hosts: AbstractSet[int]
    leaders: Leaders


def peers(image: Image, listener: str) -> dict[int, Peer]:
    """The brokers that get requests: registered, migrating, unfenced (U05).

    A broker without the listener ``listener`` gets none; registration refuses such a broker.
    """
    result = {}
    for broker_id, broker in image.brokers.items():
        if broker.fenced or not broker.is_migrating_zk_broker:
            continue
        endpoint = broker.endpoint(listener)
        if endpoint is not None:
            result[broker_id] = Peer(broker_id, broker.epoch, endpoint.host, endpoint.port)
    return result


def live_brokers(image: Image) -> Constant[m.UpdateMetadataRequest.UpdateMetadataBroker]:
    """List every registered broker, fenced or not, with all its listeners.

    The list replaces the list that a broker has, so a broker left out of it is hidden from clients
    until the next request.
    """
    request = m.UpdateMetadataRequest
    return Constant(
        request.UpdateMetadataBroker(
            id=broker_id,
            endpoints=[
                request.UpdateMetadataEndpoint(
                    port=e.port,
                    host=e.host,
                    listener=e.name,
                    security_protocol=e.security_protocol,
                )
                for e in broker.endpoints
            ],
            rack=broker.rack,
        )
        for broker_id, broker in sorted(image.brokers.items())
    )


def all_partitions(image: Image) -> Iterator[PartitionAt]:
    """Every partition of every topic."""
    for topic in image.topics.values():
        for partition_id, partition in topic.partitions.items():
            yield PartitionAt(topic, partition_id, partition)


def by_host(partitions: Iterable[PartitionAt]) -> Slices[dict[int, list[PartitionAt]]]:
    """Broker id -> those of the partitions that have a replica there, in pieces."""
    found: dict[int, list[PartitionAt]] = {}
    pace = Pace(PARTITIONS_PER_STEP)
    for at in partitions:
        for broker_id in at.partition.replicas:
            found.setdefault(broker_id, []).append(at)
        if pace.over():
            yield
    return found


def update_metadata_topics(
    image: Image, partitions: Iterable[PartitionAt]
) -> Iterator[list[UpdateTopic] | None]:
    """Build the topic states of an UpdateMetadata that names ``partitions`` of ``image``.

    Yields:
        None after each :data:`PARTITIONS_PER_STEP` partitions, the states at the end.
    """
    request = m.UpdateMetadataRequest
    by_topic: dict[bytes, UpdateTopic] = {}
    offline = _Offline(image.brokers)
    for done, at in enumerate(partitions, 1):
        if done % PARTITIONS_PER_STEP == 0:
            yield None
        state = by_topic.get(at.topic.id)
        if state is None:
            state = request.UpdateMetadataTopicState(
                topic_name=at.topic.name, topic_id=at.topic.id, partition_states=[]
            )
            by_topic[at.topic.id] = state
        p = at.partition
        state.partition_states.append(
            request.UpdateMetadataPartitionState(
                partition_index=at.partition_id,
                controller_epoch=image.epoch,
                leader=p.leader,
                leader_epoch=p.leader_epoch,
                isr=p.isr,
                zk_version=p.partition_epoch,
                replicas=p.replicas,
                offline_replicas=offline[p.replicas],
            )
        )
    yield list(by_topic.values())


def deleted_topics(
    sender: Sender, image: Image, topics: Iterable[Topic]
) -> list[m.UpdateMetadataRequest.UpdateMetadataTopicState]:
    """Topic states that make brokers remove ``topics``: zero id, leader -2."""
    request = m.UpdateMetadataRequest
    offline = _Offline(image.brokers)
    return [
        request.UpdateMetadataTopicState(
            topic_name=topic.name,
            topic_id=ZERO_UUID,
            partition_states=[
                request.UpdateMetadataPartitionState(
                    partition_index=partition_id,
                    controller_epoch=sender.zk_epoch,
                    leader=LEADER_DURING_DELETE,
                    leader_epoch=0,
                    isr=p.isr,
                    zk_version=0,
                    replicas=p.replicas,
                    offline_replicas=offline[p.replicas],
                )
                for partition_id, p in topic.partitions.items()
            ],
        )
        for topic in topics
    ]


def update_metadata(
    sender: Sender,
    peer: Peer,
    topics: list[m.UpdateMetadataRequest.UpdateMetadataTopicState],
    live: list[m.UpdateMetadataRequest.UpdateMetadataBroker],
    request_type: int,
) -> m.UpdateMetadataRequest:
    """Build one UpdateMetadata; ``topics`` and ``live`` may be shared between brokers."""
    assert sender.node_id >= 0, "a negative controller id leaves a broker without any controller"
    return m.UpdateMetadataRequest(
        controller_id=sender.node_id,
        is_kraft_controller=True,
        type=request_type,
        controller_epoch=sender.zk_epoch,
        broker_epoch=peer.epoch,
        topic_states=topics,
        live_brokers=live,
    )


def leader_and_isr(
    sender: Sender,
    peer: Peer,
    image: Image,
    partitions: Iterable[PartitionAt],
    request_type: int,
) -> Iterator[m.LeaderAndIsrRequest | None]:
    """Build one LeaderAndIsr of those ``partitions`` that have a replica on ``peer``.

    Yields:
        None after each :data:`PARTITIONS_PER_STEP` partitions; the request at the end, unless no
        partition is on ``peer``. A FULL request is sent even then: the broker may have been offline
        when its last topic was deleted, and removes only replicas that a FULL request does not
        name.
    """
    building = _LeadersBuilding(image)
    for done, at in enumerate(partitions, 1):
        if done % PARTITIONS_PER_STEP == 0:
            yield None
        if peer.broker_id in at.partition.replicas:
            building.add(at)
    if building.by_topic or request_type == TYPE_FULL:
        yield leader_request(sender, peer, building.done(sender), request_type)


def leaders_for_all(
    sender: Sender, image: Image, partitions: Iterable[PartitionAt]
) -> Iterator[LeadersForAll | None]:
    """Build the content of a LeaderAndIsr to the brokers that host every one of ``partitions``.

    Yields:
        None after each :data:`PARTITIONS_PER_STEP` partitions; the result at the end.
    """
    building = _LeadersBuilding(image)
    hosts: frozenset[int] = frozenset()
    seen: tuple[int, ...] | None = None
    for done, at in enumerate(partitions, 1):
        if done % PARTITIONS_PER_STEP == 0:
            yield None
        replicas = at.partition.replicas
        if replicas != seen:
            hosts = frozenset(replicas) if seen is None else hosts.intersection(replicas)
            seen = replicas
            if not hosts:
                break
        building.add(at)
    yield LeadersForAll(hosts, building.done(sender))


def leader_request(
    sender: Sender, peer: Peer, leaders: Leaders, request_type: int
) -> m.LeaderAndIsrRequest:
    """Build one LeaderAndIsr; ``leaders`` may be shared between brokers."""
    return m.LeaderAndIsrRequest(
        controller_id=sender.node_id,
        is_kraft_controller=True,
        controller_epoch=sender.zk_epoch,
        broker_epoch=peer.epoch,
        type=request_type,
        topic_states=leaders.topics,
        live_leaders=leaders.live,
    )


def stop_replica(
    sender: Sender, peer: Peer, stopped: Iterable[tuple[str, int, int]]
) -> m.StopReplicaRequest:
    """Build one StopReplica that deletes replicas on ``peer``.

    Args:
        sender: the values of this controller.
        peer: the broker that deletes.
        stopped: topic name, partition, leader epoch (-2: the topic is deleted).
    """
    request = m.StopReplicaRequest
    by_topic: dict[str, m.StopReplicaRequest.StopReplicaTopicState] = {}
    for name, partition_id, leader_epoch in stopped:
        state = by_topic.setdefault(
            name, request.StopReplicaTopicState(topic_name=name, partition_states=[])
        )
        state.partition_states.append(
            request.StopReplicaPartitionState(
                partition_index=partition_id, leader_epoch=leader_epoch, delete_partition=True
            )
        )
    return request(
        controller_id=sender.node_id,
        is_kraft_controller=True,
        controller_epoch=sender.zk_epoch,
        broker_epoch=peer.epoch,
        topic_states=list(by_topic.values()),
    )


class _LeadersBuilding:
    """The parts of a LeaderAndIsr that come from the partitions, one partition after the other.

    ``is_new`` is true in all, as every Kafka release sends it from a KRaft controller.
    """

    def __init__(self, image: Image) -> None:
        self.by_topic: dict[bytes, LeaderTopic] = {}
        self._image = image
        self._leaders: set[int] = set()

    def add(self, at: PartitionAt) -> None:
        """Name a partition."""
        request, topic, p = m.LeaderAndIsrRequest, at.topic, at.partition
        state = self.by_topic.get(topic.id)
        if state is None:
            state = self.by_topic[topic.id] = request.LeaderAndIsrTopicState(
                topic_name=topic.name, topic_id=topic.id, partition_states=[]
            )
        self._leaders.add(p.leader)
        state.partition_states.append(
            request.LeaderAndIsrPartitionState(
                partition_index=at.partition_id,
                controller_epoch=self._image.epoch,
                leader=p.leader,
                leader_epoch=p.leader_epoch,
                isr=p.isr,
                partition_epoch=p.partition_epoch,
                replicas=p.replicas,
                adding_replicas=p.adding_replicas,
                removing_replicas=p.removing_replicas,
                is_new=True,
                leader_recovery_state=p.leader_recovery_state,
            )
        )

    def done(self, sender: Sender) -> Leaders:
        """All that was named, and where the leaders are."""
        live = _live_leaders(sender, self._image.brokers, self._leaders)
        return Leaders(Constant(self.by_topic.values()), Constant(live))


class _Offline(dict[tuple[int, ...], tuple[int, ...]]):
    """Replicas -> those on brokers that are not registered: many partitions have equal replicas."""

    def __init__(self, brokers: Brokers) -> None:
        super().__init__()
        self._brokers = brokers

    def __missing__(self, replicas: tuple[int, ...]) -> tuple[int, ...]:
        found = self[replicas] = tuple(r for r in replicas if r not in self._brokers)
        return found


def _live_leaders(
    sender: Sender, brokers: Mapping[int, Broker], leaders: set[int]
) -> list[m.LeaderAndIsrRequest.LeaderAndIsrLiveLeader]:
    result = []
    for leader in sorted(leaders):
        broker = brokers.get(leader)
        endpoint = broker.endpoint(sender.listener) if broker is not None else None
        if endpoint is not None:
            result.append(
                m.LeaderAndIsrRequest.LeaderAndIsrLiveLeader(
                    broker_id=leader, host_name=endpoint.host, port=endpoint.port
                )
            )
    return result
