"""DescribeClientQuotas (48): show quotas that match a filter.

KIP-546, KIP-482 (v1). Source: DescribeClientQuotasRequest, DescribeClientQuotasResponse, Kafka
3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Bool, Float64, Int8, Int16, Int32, String, group, message


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    @group
    class ComponentData:
        entity_type: String = ""
        match_type: Int8 = 0
        match: String | None = ""

    components: list[ComponentData] = []
    strict: Bool = False


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    @group
    class EntryData:
        entity: list[DescribeClientQuotasResponse.EntityData] = []
        values: list[DescribeClientQuotasResponse.ValueData] = []

    @group
    class EntityData:
        entity_type: String = ""
        entity_name: String | None = ""

    @group
    class ValueData:
        key: String = ""
        value: Float64 = 0.0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    entries: list[EntryData] | None = []
