"""DescribeAcls (29): show access rules that match a filter.

KIP-140, KIP-290 (v1), KIP-482 (v2). Source: DescribeAclsRequest, DescribeAclsResponse, Kafka
3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Int8, Int16, Int32, String, field, group, message


@message(key=29, versions="0-3", flexible="2+")
class DescribeAclsRequest:
    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Int8 = field(3, versions="1+")
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@message(key=29, versions="0-3", flexible="2+")
class DescribeAclsResponse:
    @group
    class DescribeAclsResource:
        resource_type: Int8 = 0
        resource_name: String = ""
        pattern_type: Int8 = field(3, versions="1+")
        acls: list[DescribeAclsResponse.AclDescription] = []

    @group
    class AclDescription:
        principal: String = ""
        host: String = ""
        operation: Int8 = 0
        permission_type: Int8 = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    resources: list[DescribeAclsResource] = []
