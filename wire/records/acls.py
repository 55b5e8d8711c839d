"""Access rules: ids 6, 18, 19. Only the schemas of 3.4 have id 6, and it was never written.

KIP-801.
Source: the records of the same names, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import ZERO_UUID, Int8, String, Uuid, record


@record(key=6, versions="0")
class AccessControlRecord:
    resource_type: Int8 = 0
    resource_name: String | None = ""
    pattern_type: Int8 = 0
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@record(key=18, versions="0")
class AccessControlEntryRecord:
    id: Uuid = ZERO_UUID
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 0
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@record(key=19, versions="0")
class RemoveAccessControlEntryRecord:
    id: Uuid = ZERO_UUID
