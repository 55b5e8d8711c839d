"""Client quotas: id 14.

KIP-631, KIP-546.
Source: ClientQuotaRecord, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Bool, Float64, String, group, record


@record(key=14, versions="0")
class ClientQuotaRecord:
    @group
    class EntityData:
        entity_type: String = ""
        entity_name: String | None = ""

    entity: list[EntityData] = []
    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False
