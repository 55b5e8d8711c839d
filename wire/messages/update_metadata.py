"""UpdateMetadata (6): the controller tells a ZooKeeper-mode broker what its clients may ask for.

KIP-380 (v5), KIP-482 (v6), KIP-516 (v7), KIP-866 (v8). Source: UpdateMetadataRequest,
UpdateMetadataResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import (
    ZERO_UUID,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Uuid,
    field,
    group,
    message,
)


@message(key=6, versions="0-8", flexible="6+")
class UpdateMetadataRequest:
    @group
    class UpdateMetadataPartitionState:
        topic_name: String = field("", versions="0-4", ignorable=True)
        partition_index: Int32 = 0
        controller_epoch: Int32 = 0
        leader: Int32 = 0
        leader_epoch: Int32 = 0
        isr: Sequence[Int32] = ()
        zk_version: Int32 = 0
        replicas: Sequence[Int32] = ()
        offline_replicas: Sequence[Int32] = field((), versions="4+", ignorable=True)

    @group
    class UpdateMetadataTopicState:
        topic_name: String = ""
        topic_id: Uuid = field(ZERO_UUID, versions="7+", ignorable=True)
        partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState] = []

    @group
    class UpdateMetadataBroker:
        id: Int32 = 0
        v0_host: String = field("", versions="0", ignorable=True)
        v0_port: Int32 = field(0, versions="0", ignorable=True)
        endpoints: list[UpdateMetadataRequest.UpdateMetadataEndpoint] = field(
            [], versions="1+", ignorable=True
        )
        rack: String | None = field("", versions="2+", ignorable=True)

    @group
    class UpdateMetadataEndpoint:
        port: Int32 = 0
        host: String = ""
        listener: String = field("", versions="3+", ignorable=True)
        security_protocol: Int16 = 0

    controller_id: Int32 = 0
    is_kraft_controller: Bool = field(False, versions="8+")
    type: Int8 = field(0, versions="8+", tag=0)
    controller_epoch: Int32 = 0
    broker_epoch: Int64 = field(-1, versions="5+", ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field([], versions="0-4")
    topic_states: list[UpdateMetadataTopicState] = field([], versions="5+")
    live_brokers: list[UpdateMetadataBroker] = []


@message(key=6, versions="0-8", flexible="6+")
class UpdateMetadataResponse:
    error_code: Int16 = 0
