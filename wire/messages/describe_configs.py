"""DescribeConfigs (32): show settings with where each comes from.

KIP-133, KIP-226 (v1), KIP-569 (v3), KIP-482 (v4). Source: DescribeConfigsRequest,
DescribeConfigsResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import Bool, Int8, Int16, Int32, String, field, group, message


@message(key=32, versions="0-4", flexible="4+")
class DescribeConfigsRequest:
    @group
    class DescribeConfigsResource:
        resource_type: Int8 = 0
        resource_name: String = ""
        configuration_keys: Sequence[String] | None = ()

    resources: list[DescribeConfigsResource] = []
    include_synonyms: Bool = field(False, versions="1+")
    include_documentation: Bool = field(False, versions="3+")


@message(key=32, versions="0-4", flexible="4+")
class DescribeConfigsResponse:
    @group
    class DescribeConfigsResult:
        error_code: Int16 = 0
        error_message: String | None = ""
        resource_type: Int8 = 0
        resource_name: String = ""
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = []

    @group
    class DescribeConfigsResourceResult:
        name: String = ""
        value: String | None = ""
        read_only: Bool = False
        is_default: Bool = field(False, versions="0")
        config_source: Int8 = field(-1, versions="1+", ignorable=True)
        is_sensitive: Bool = False
        synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = field(
            [], versions="1+", ignorable=True
        )
        config_type: Int8 = field(0, versions="3+", ignorable=True)
        documentation: String | None = field("", versions="3+", ignorable=True)

    @group
    class DescribeConfigsSynonym:
        name: String = ""
        value: String | None = ""
        source: Int8 = 0

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = []
