"""DescribeTransactions (65): show transactions by transactional id.

KIP-664. Source: DescribeTransactionsRequest, DescribeTransactionsResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Int16, Int32, Int64, String, group, message


@message(key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest:
    transactional_ids: Sequence[String] = ()


@message(key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse:
    @group
    class TransactionState:
        error_code: Int16 = 0
        transactional_id: String = ""
        transaction_state: String = ""
        transaction_timeout_ms: Int32 = 0
        transaction_start_time_ms: Int64 = 0
        producer_id: Int64 = 0
        producer_epoch: Int16 = 0
        topics: list[DescribeTransactionsResponse.TopicData] = []

    @group
    class TopicData:
        topic: String = ""
        partitions: Sequence[Int32] = ()

    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState] = []
