"""ApiVersions (18): which APIs and features the peer speaks; its response header never has tags.

KIP-35, KIP-511 (v3), KIP-584 (tags 0-2), KIP-866 (tag 3). Source: ApiVersionsRequest,
ApiVersionsResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import Bool, Int16, Int32, Int64, String, field, group, message


@message(key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest:
    client_software_name: String = field("", versions="3+", ignorable=True)
    client_software_version: String = field("", versions="3+", ignorable=True)


@message(key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse:
    @group
    class ApiVersion:
        api_key: Int16 = 0
        min_version: Int16 = 0
        max_version: Int16 = 0

    @group
    class SupportedFeatureKey:
        name: String = ""
        min_version: Int16 = 0
        max_version: Int16 = 0

    @group
    class FinalizedFeatureKey:
        name: String = ""
        max_version_level: Int16 = 0
        min_version_level: Int16 = 0

    error_code: Int16 = 0
    api_keys: list[ApiVersion] = []
    throttle_time_ms: Int32 = field(0, versions="1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = field([], versions="3+", tag=0, ignorable=True)
    finalized_features_epoch: Int64 = field(-1, versions="3+", tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field([], versions="3+", tag=2, ignorable=True)
    zk_migration_ready: Bool = field(False, versions="3+", tag=3, ignorable=True)
