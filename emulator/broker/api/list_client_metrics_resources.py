"""ListClientMetricsResources (74): the names of the subscriptions of client metrics. KIP-714.

CLUSTER_AUTHORIZATION_FAILED without DESCRIBE_CONFIGS on the cluster.
Kafka: KafkaApis.handleListClientMetricsResources (3.9).
"""

from __future__ import annotations

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, serves
from emulator.broker.serving.reading import reading
from emulator.controller.result import one_error
from emulator.metadata.acls import Operation
from emulator.metadata.configs import CLIENT_METRICS
from emulator.seam import Slices, listed
from wire import messages as m
from wire.errors import ErrorCode

Response = m.ListClientMetricsResourcesResponse
refused = one_error(Response)


@serves(m.ListClientMetricsResourcesRequest, refused=refused)
def list_client_metrics_resources(
    cluster: KnownCluster, request: m.ListClientMetricsResourcesRequest, asked: Asked
) -> Slices[m.ListClientMetricsResourcesResponse]:
    """List the names."""
    if not reading(cluster, request, asked).may_on_cluster(Operation.DESCRIBE_CONFIGS):
        return refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    # No other kind of resource has a higher number.
    named = cluster.image.configs.since((CLIENT_METRICS, ""))
    found = yield from listed(lambda one: Response.ClientMetricsResource(name=one[1]), named)
    return Response(client_metrics_resources=found)
