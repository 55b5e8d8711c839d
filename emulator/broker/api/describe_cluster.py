"""DescribeCluster (60): the brokers, on a broker's listener. KIP-700, KIP-919 (v1).

Kafka: KafkaApis.handleDescribeCluster, AuthHelper.computeDescribeClusterResponse (3.9).

INVALID_REQUEST (v0), UNSUPPORTED_ENDPOINT_TYPE or MISMATCHED_ENDPOINT_TYPE (v1) unless brokers are
asked for. Every caller may ask; the operations that the caller may do on the cluster (KIP-430) are
shown to callers who may DESCRIBE it. The controller shown is a broker, as in Metadata.
"""

from __future__ import annotations

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, serves
from emulator.broker.serving.reading import reading
from emulator.controller.api.describe_cluster import BROKERS, CONTROLLERS, MISMATCH, NOT_ASKED
from emulator.controller.result import one_error
from wire import messages as m
from wire.errors import ErrorCode

Response = m.DescribeClusterResponse
refused = one_error(Response)


@serves(m.DescribeClusterRequest, refused=refused)
def describe_cluster(
    cluster: KnownCluster, request: m.DescribeClusterRequest, asked: Asked
) -> m.DescribeClusterResponse:
    """List the brokers that are alive and have the caller's listener."""
    if request.endpoint_type != BROKERS:
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        text = f"Unsupported endpoint type {request.endpoint_type}"
        if request.endpoint_type == CONTROLLERS:
            code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
            text = MISMATCH.format("BROKER", "CONTROLLER")
        return refused(request, ErrorCode.INVALID_REQUEST if asked.api_version == 0 else code, text)
    operations = NOT_ASKED
    if request.include_cluster_authorized_operations:
        operations = reading(cluster, request, asked).operations_on_cluster()
    return Response(
        endpoint_type=BROKERS,
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id(asked.rng),
        brokers=[
            Response.DescribeClusterBroker(
                broker_id=node.id, host=node.host, port=node.port, rack=node.rack
            )
            for node in cluster.alive(asked.listener)
        ],
        cluster_authorized_operations=operations,
    )
