"""ListClientMetricsResources (74): list the names of client metrics settings.

KIP-1000. Source: ListClientMetricsResourcesRequest, ListClientMetricsResourcesResponse, Kafka
3.7-3.9.
"""

from __future__ import annotations

from wire.schema import Int16, Int32, String, group, message


@message(key=74, versions="0", flexible="0+")
class ListClientMetricsResourcesRequest:  # no fields
    pass


@message(key=74, versions="0", flexible="0+")
class ListClientMetricsResourcesResponse:
    @group
    class ClientMetricsResource:
        name: String = ""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_metrics_resources: list[ClientMetricsResource] = []
