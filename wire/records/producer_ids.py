"""The next producer id to hand out: id 15.

KIP-730.
Source: ProducerIdsRecord, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Int32, Int64, record


@record(key=15, versions="0")
class ProducerIdsRecord:
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    next_producer_id: Int64 = 0
