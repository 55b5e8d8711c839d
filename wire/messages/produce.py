"""Produce (0): append batches of records to partitions.

KIP-467 (v8), KIP-482 (v9), KIP-951 (v10). Source: ProduceRequest, ProduceResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import EMPTY, Int16, Int32, Int64, Records, String, field, group, message


@message(key=0, versions="0-11", flexible="9+")
class ProduceRequest:
    @group
    class TopicProduceData:
        name: String = ""
        partition_data: list[ProduceRequest.PartitionProduceData] = []

    @group
    class PartitionProduceData:
        index: Int32 = 0
        records: Records | None = b""

    transactional_id: String | None = field(None, versions="3+")
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = []


@message(key=0, versions="0-11", flexible="9+")
class ProduceResponse:
    @group
    class TopicProduceResponse:
        name: String = ""
        partition_responses: list[ProduceResponse.PartitionProduceResponse] = []

    @group
    class PartitionProduceResponse:
        index: Int32 = 0
        error_code: Int16 = 0
        base_offset: Int64 = 0
        log_append_time_ms: Int64 = field(-1, versions="2+", ignorable=True)
        log_start_offset: Int64 = field(-1, versions="5+", ignorable=True)
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = field(
            [], versions="8+", ignorable=True
        )
        error_message: String | None = field(None, versions="8+", ignorable=True)
        current_leader: ProduceResponse.LeaderIdAndEpoch = field(EMPTY, versions="10+", tag=0)

    @group
    class BatchIndexAndErrorMessage:
        batch_index: Int32 = 0
        batch_index_error_message: String | None = None

    @group
    class LeaderIdAndEpoch:
        leader_id: Int32 = -1
        leader_epoch: Int32 = -1

    @group
    class NodeEndpoint:
        node_id: Int32 = 0
        host: String = ""
        port: Int32 = 0
        rack: String | None = None

    responses: list[TopicProduceResponse] = []
    throttle_time_ms: Int32 = field(0, versions="1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = field([], versions="10+", tag=0)
