"""WriteTxnMarkers (27): a coordinator writes commit or abort markers to partitions.

KIP-98, KIP-482 (v1). Source: WriteTxnMarkersRequest, WriteTxnMarkersResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Bool, Int16, Int32, Int64, String, group, message


@message(key=27, versions="0-1", flexible="1+")
class WriteTxnMarkersRequest:
    @group
    class WritableTxnMarker:
        producer_id: Int64 = 0
        producer_epoch: Int16 = 0
        transaction_result: Bool = False
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = []
        coordinator_epoch: Int32 = 0

    @group
    class WritableTxnMarkerTopic:
        name: String = ""
        partition_indexes: Sequence[Int32] = ()

    markers: list[WritableTxnMarker] = []


@message(key=27, versions="0-1", flexible="1+")
class WriteTxnMarkersResponse:
    @group
    class WritableTxnMarkerResult:
        producer_id: Int64 = 0
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = []

    @group
    class WritableTxnMarkerTopicResult:
        name: String = ""
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = []

    @group
    class WritableTxnMarkerPartitionResult:
        partition_index: Int32 = 0
        error_code: Int16 = 0

    markers: list[WritableTxnMarkerResult] = []
