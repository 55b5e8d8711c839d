"""CreateAcls (30): add access rules.

KIP-140, KIP-290 (v1), KIP-482 (v2). Source: CreateAclsRequest, CreateAclsResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Int8, Int16, Int32, String, field, group, message


@message(key=30, versions="0-3", flexible="2+")
class CreateAclsRequest:
    @group
    class AclCreation:
        resource_type: Int8 = 0
        resource_name: String = ""
        resource_pattern_type: Int8 = field(3, versions="1+")
        principal: String = ""
        host: String = ""
        operation: Int8 = 0
        permission_type: Int8 = 0

    creations: list[AclCreation] = []


@message(key=30, versions="0-3", flexible="2+")
class CreateAclsResponse:
    @group
    class AclCreationResult:
        error_code: Int16 = 0
        error_message: String | None = ""

    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult] = []
