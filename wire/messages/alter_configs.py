"""AlterConfigs (33): replace all dynamic settings of resources.

KIP-133, KIP-482 (v2). Source: AlterConfigsRequest, AlterConfigsResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Bool, Int8, Int16, Int32, String, group, message


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    @group
    class AlterConfigsResource:
        resource_type: Int8 = 0
        resource_name: String = ""
        configs: list[AlterConfigsRequest.AlterableConfig] = []

    @group
    class AlterableConfig:
        name: String = ""
        value: String | None = ""

    resources: list[AlterConfigsResource] = []
    validate_only: Bool = False


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    @group
    class AlterConfigsResourceResponse:
        error_code: Int16 = 0
        error_message: String | None = ""
        resource_type: Int8 = 0
        resource_name: String = ""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = []
