"""DeleteAcls (31): remove access rules that match filters.

KIP-140, KIP-290 (v1), KIP-482 (v2). Source: DeleteAclsRequest, DeleteAclsResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Int8, Int16, Int32, String, field, group, message


@message(key=31, versions="0-3", flexible="2+")
class DeleteAclsRequest:
    @group
    class DeleteAclsFilter:
        resource_type_filter: Int8 = 0
        resource_name_filter: String | None = ""
        pattern_type_filter: Int8 = field(3, versions="1+")
        principal_filter: String | None = ""
        host_filter: String | None = ""
        operation: Int8 = 0
        permission_type: Int8 = 0

    filters: list[DeleteAclsFilter] = []


@message(key=31, versions="0-3", flexible="2+")
class DeleteAclsResponse:
    @group
    class DeleteAclsFilterResult:
        error_code: Int16 = 0
        error_message: String | None = ""
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = []

    @group
    class DeleteAclsMatchingAcl:
        error_code: Int16 = 0
        error_message: String | None = ""
        resource_type: Int8 = 0
        resource_name: String = ""
        pattern_type: Int8 = field(3, versions="1+")
        principal: String = ""
        host: String = ""
        operation: Int8 = 0
        permission_type: Int8 = 0

    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult] = []
