"""InitProducerId (22): get a producer id, and fence older users of a transactional id.

KIP-98, KIP-482 (v2), KIP-360 (v3), KIP-588 (v4), KIP-890 (v5). Source: InitProducerIdRequest,
InitProducerIdResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Int16, Int32, Int64, String, field, message


@message(key=22, versions="0-5", flexible="2+")
class InitProducerIdRequest:
    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Int64 = field(-1, versions="3+")
    producer_epoch: Int16 = field(-1, versions="3+")


@message(key=22, versions="0-5", flexible="2+")
class InitProducerIdResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
