"""AlterClientQuotas (49): set or remove quotas.

KIP-546, KIP-482 (v1). Source: AlterClientQuotasRequest, AlterClientQuotasResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Bool, Float64, Int16, Int32, String, group, message


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    @group
    class EntryData:
        entity: list[AlterClientQuotasRequest.EntityData] = []
        ops: list[AlterClientQuotasRequest.OpData] = []

    @group
    class EntityData:
        entity_type: String = ""
        entity_name: String | None = ""

    @group
    class OpData:
        key: String = ""
        value: Float64 = 0.0
        remove: Bool = False

    entries: list[EntryData] = []
    validate_only: Bool = False


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    @group
    class EntryData:
        error_code: Int16 = 0
        error_message: String | None = ""
        entity: list[AlterClientQuotasResponse.EntityData] = []

    @group
    class EntityData:
        entity_type: String = ""
        entity_name: String | None = ""

    throttle_time_ms: Int32 = 0
    entries: list[EntryData] = []
