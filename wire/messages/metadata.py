"""Metadata (3): ask a broker for the cluster, its topics and their leaders.

KIP-430 (v8), KIP-482 (v9), KIP-516 (v10, v12), KIP-700 (v11). Source: MetadataRequest,
MetadataResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import ZERO_UUID, Bool, Int16, Int32, String, Uuid, field, group, message


@message(key=3, versions="0-12", flexible="9+")
class MetadataRequest:
    @group
    class MetadataRequestTopic:
        topic_id: Uuid = field(ZERO_UUID, versions="10+", ignorable=True)
        name: String | None = field("", nullable="10+")

    topics: list[MetadataRequestTopic] | None = field([], nullable="1+")
    allow_auto_topic_creation: Bool = field(True, versions="4+")
    include_cluster_authorized_operations: Bool = field(False, versions="8-10")
    include_topic_authorized_operations: Bool = field(False, versions="8+")


@message(key=3, versions="0-12", flexible="9+")
class MetadataResponse:
    @group
    class MetadataResponseBroker:
        node_id: Int32 = 0
        host: String = ""
        port: Int32 = 0
        rack: String | None = field(None, versions="1+", ignorable=True)

    @group
    class MetadataResponseTopic:
        error_code: Int16 = 0
        name: String | None = field("", nullable="12+")
        topic_id: Uuid = field(ZERO_UUID, versions="10+", ignorable=True)
        is_internal: Bool = field(False, versions="1+", ignorable=True)
        partitions: list[MetadataResponse.MetadataResponsePartition] = []
        topic_authorized_operations: Int32 = field(-2_147_483_648, versions="8+")

    @group
    class MetadataResponsePartition:
        error_code: Int16 = 0
        partition_index: Int32 = 0
        leader_id: Int32 = 0
        leader_epoch: Int32 = field(-1, versions="7+", ignorable=True)
        replica_nodes: Sequence[Int32] = ()
        isr_nodes: Sequence[Int32] = ()
        offline_replicas: Sequence[Int32] = field((), versions="5+", ignorable=True)

    throttle_time_ms: Int32 = field(0, versions="3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = []
    cluster_id: String | None = field(None, versions="2+", ignorable=True)
    controller_id: Int32 = field(-1, versions="1+", ignorable=True)
    topics: list[MetadataResponseTopic] = []
    cluster_authorized_operations: Int32 = field(-2_147_483_648, versions="8-10")
