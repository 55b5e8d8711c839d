"""UnregisterBroker (64): remove a broker's registration.

KIP-631. Source: UnregisterBrokerRequest, UnregisterBrokerResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Int16, Int32, String, message


@message(key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest:
    broker_id: Int32 = 0


@message(key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
