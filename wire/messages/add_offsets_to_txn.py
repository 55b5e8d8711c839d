"""AddOffsetsToTxn (25): bring a group's positions into a transaction.

KIP-98, KIP-588 (v2), KIP-482 (v3), KIP-890 (v4). Source: AddOffsetsToTxnRequest,
AddOffsetsToTxnResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Int16, Int32, Int64, String, message


@message(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


@message(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
