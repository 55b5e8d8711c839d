"""ListTransactions (66): list transactions a broker coordinates.

KIP-664, KIP-994 (v1). Source: ListTransactionsRequest, ListTransactionsResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Int16, Int32, Int64, String, field, group, message


@message(key=66, versions="0-1", flexible="0+")
class ListTransactionsRequest:
    state_filters: Sequence[String] = ()
    producer_id_filters: Sequence[Int64] = ()
    duration_filter: Int64 = field(-1, versions="1+")


@message(key=66, versions="0-1", flexible="0+")
class ListTransactionsResponse:
    @group
    class TransactionState:
        transactional_id: String = ""
        producer_id: Int64 = 0
        transaction_state: String = ""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: Sequence[String] = ()
    transaction_states: list[TransactionState] = []
