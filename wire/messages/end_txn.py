"""EndTxn (26): commit or abort a transaction.

KIP-98, KIP-588 (v2), KIP-482 (v3), KIP-890 (v4). Source: EndTxnRequest, EndTxnResponse, Kafka
3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Bool, Int16, Int32, Int64, String, message


@message(key=26, versions="0-4", flexible="3+")
class EndTxnRequest:
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


@message(key=26, versions="0-4", flexible="3+")
class EndTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
