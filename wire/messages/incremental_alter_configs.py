"""IncrementalAlterConfigs (44): set, delete, append to or subtract from single dynamic settings.

KIP-339, KIP-482 (v1). Source: IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Bool, Int8, Int16, Int32, String, group, message


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    @group
    class AlterConfigsResource:
        resource_type: Int8 = 0
        resource_name: String = ""
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = []

    @group
    class AlterableConfig:
        name: String = ""
        config_operation: Int8 = 0
        value: String | None = ""

    resources: list[AlterConfigsResource] = []
    validate_only: Bool = False


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    @group
    class AlterConfigsResourceResponse:
        error_code: Int16 = 0
        error_message: String | None = ""
        resource_type: Int8 = 0
        resource_name: String = ""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = []
