"""AddPartitionsToTxn (24): bring partitions into a transaction.

KIP-98, KIP-588 (v2), KIP-482 (v3), KIP-890 (v4, v5). Source: AddPartitionsToTxnRequest,
AddPartitionsToTxnResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Bool, Int16, Int32, Int64, String, field, group, message


@message(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    @group
    class AddPartitionsToTxnTransaction:
        transactional_id: String = ""
        producer_id: Int64 = 0
        producer_epoch: Int16 = 0
        verify_only: Bool = False
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = []

    @group
    class AddPartitionsToTxnTopic:
        name: String = ""
        partitions: Sequence[Int32] = ()

    transactions: list[AddPartitionsToTxnTransaction] = field([], versions="4+")
    v3_and_below_transactional_id: String = field("", versions="0-3")
    v3_and_below_producer_id: Int64 = field(0, versions="0-3")
    v3_and_below_producer_epoch: Int16 = field(0, versions="0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field([], versions="0-3")


@message(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    @group
    class AddPartitionsToTxnResult:
        transactional_id: String = ""
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = []

    @group
    class AddPartitionsToTxnTopicResult:
        name: String = ""
        results_by_partition: list[
            AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult
        ] = []

    @group
    class AddPartitionsToTxnPartitionResult:
        partition_index: Int32 = 0
        partition_error_code: Int16 = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(0, versions="4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field([], versions="4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field([], versions="0-3")
