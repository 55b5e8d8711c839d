"""The messages that are measured: large and rare ones, small and frequent ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from wire import codec
from wire import messages as m
from wire import records as r
from wire.releases import controller_ranges
from wire.schema import spec

TOPICS: Final = 1_000
PARTITIONS_PER_TOPIC: Final = 10


@dataclass(frozen=True, slots=True)
class Sample:
    """One message to measure, with its bytes."""

    name: str
    message: Any
    version: int
    data: bytes

    @property
    def java_class(self) -> str:
        """Kafka's class of it."""
        record = spec(type(self.message)).kind == "record"
        package, ending = ("metadata", "") if record else ("message", "Data")
        return f"org.apache.kafka.common.{package}.{type(self.message).__name__}{ending}"


def sample(name: str, message: Any, version: int) -> Sample:
    """A sample with its bytes."""
    return Sample(name, message, version, codec.encode(message, version))


def topic_ids() -> list[bytes]:
    """One id per topic."""
    return [number.to_bytes(16, "big") for number in range(1, TOPICS + 1)]


def replicas(partition: int) -> tuple[int, ...]:
    """Three of five brokers."""
    return tuple((partition + step) % 5 for step in range(3))


def leader_and_isr() -> m.LeaderAndIsrRequest:
    """Ten thousand partitions, all in sync."""
    request = m.LeaderAndIsrRequest
    topics = [
        request.LeaderAndIsrTopicState(
            topic_name=f"topic-{number}",
            topic_id=topic_id,
            partition_states=[
                request.LeaderAndIsrPartitionState(
                    partition_index=p,
                    controller_epoch=7,
                    leader=replicas(p)[0],
                    leader_epoch=3,
                    isr=replicas(p),
                    partition_epoch=4,
                    replicas=replicas(p),
                )
                for p in range(PARTITIONS_PER_TOPIC)
            ],
        )
        for number, topic_id in enumerate(topic_ids())
    ]
    leaders = [
        request.LeaderAndIsrLiveLeader(broker_id=i, host_name=f"broker-{i}", port=9092)
        for i in range(5)
    ]
    return request(
        controller_id=3000,
        is_kraft_controller=True,
        controller_epoch=7,
        broker_epoch=99,
        type=2,
        topic_states=topics,
        live_leaders=leaders,
    )


def update_metadata() -> m.UpdateMetadataRequest:
    """The same partitions for clients."""
    request = m.UpdateMetadataRequest
    topics = [
        request.UpdateMetadataTopicState(
            topic_name=f"topic-{number}",
            topic_id=topic_id,
            partition_states=[
                request.UpdateMetadataPartitionState(
                    partition_index=p,
                    controller_epoch=7,
                    leader=replicas(p)[0],
                    leader_epoch=3,
                    isr=replicas(p),
                    zk_version=4,
                    replicas=replicas(p),
                )
                for p in range(PARTITIONS_PER_TOPIC)
            ],
        )
        for number, topic_id in enumerate(topic_ids())
    ]
    return request(
        controller_id=3000,
        is_kraft_controller=True,
        controller_epoch=7,
        broker_epoch=99,
        topic_states=topics,
    )


def metadata() -> m.MetadataResponse:
    """A thousand topics of ten partitions, as a client sees them."""
    response = m.MetadataResponse
    topics = [
        response.MetadataResponseTopic(
            name=f"topic-{number}",
            topic_id=topic_id,
            partitions=[
                response.MetadataResponsePartition(
                    partition_index=p,
                    leader_id=replicas(p)[0],
                    leader_epoch=3,
                    replica_nodes=replicas(p),
                    isr_nodes=replicas(p),
                )
                for p in range(PARTITIONS_PER_TOPIC)
            ],
        )
        for number, topic_id in enumerate(topic_ids())
    ]
    brokers = [
        response.MetadataResponseBroker(node_id=i, host=f"broker-{i}", port=9092) for i in range(5)
    ]
    return response(brokers=brokers, cluster_id="c" * 22, controller_id=3000, topics=topics)


def api_versions() -> m.ApiVersionsResponse:
    """What a 3.9 controller answers."""
    response = m.ApiVersionsResponse
    keys = [
        response.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in controller_ranges("3.9").items()
    ]
    feature = response.SupportedFeatureKey(name="metadata.version", min_version=1, max_version=21)
    return response(api_keys=keys, supported_features=[feature], zk_migration_ready=True)


def samples() -> list[Sample]:
    """Everything that is measured, large messages first."""
    partition = r.PartitionRecord(
        partition_id=3,
        topic_id=topic_ids()[0],
        replicas=replicas(0),
        isr=replicas(0),
        leader=0,
        leader_epoch=3,
        partition_epoch=4,
        directories=tuple(topic_ids()[:3]),
    )
    heartbeat = m.BrokerHeartbeatRequest(broker_id=1, broker_epoch=5, current_metadata_offset=900)
    envelope = m.EnvelopeRequest(
        request_data=bytes(120), request_principal=bytes(18), client_host_address=bytes(4)
    )
    return [
        sample("LeaderAndIsr v7, 10k partitions", leader_and_isr(), 7),
        sample("UpdateMetadata v8, 10k partitions", update_metadata(), 8),
        sample("Metadata v12, 1k topics x 10", metadata(), 12),
        sample("ApiVersions v3 response", api_versions(), 3),
        sample("BrokerHeartbeat v1", heartbeat, 1),
        sample("Envelope v0", envelope, 0),
        sample("PartitionRecord v1", partition, 1),
    ]
