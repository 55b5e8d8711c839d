"""DescribeCluster (60): the controllers, on a controller listener. KIP-700, KIP-919 (v1).

Kafka: ControllerApis.handleDescribeCluster, AuthHelper.computeDescribeClusterResponse (3.9).

In order: UNSUPPORTED_VERSION below metadata.version 3.7-IV0; CLUSTER_AUTHORIZATION_FAILED without
ALTER on CLUSTER; INVALID_REQUEST (v0), UNSUPPORTED_ENDPOINT_TYPE or MISMATCHED_ENDPOINT_TYPE (v1)
unless controllers are asked for. The operations that the caller may do on the cluster (KIP-430) are
shown to callers who may DESCRIBE it. A read: served before the copy and on a standby.
"""

from __future__ import annotations

from typing import Final

from emulator.controller.context import CLUSTER_NAME, Context
from emulator.controller.registry import handles
from emulator.controller.result import ApiError, Result
from emulator.controller.rules.authorizer import not_authorized
from emulator.metadata.acls import Operation, ResourceType
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import Feature
from wire import messages as m
from wire.errors import ErrorCode

Response = m.DescribeClusterResponse
BROKERS: Final = 1
CONTROLLERS: Final = 2
NOT_ASKED: Final = -(2**31)
MISMATCH: Final = (
    "The request was sent to an endpoint of type {}, but we wanted an endpoint of type {}"
)
ON_CLUSTER: Final = (
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)
"""The operations of the cluster resource (AclEntry.supportedOperations)."""


def refused(request: m.DescribeClusterRequest, code: ErrorCode, message: str | None) -> Response:
    """The response with the error and its text."""
    return Response(error_code=code, error_message=message, endpoint_type=request.endpoint_type)


@handles(m.DescribeClusterRequest, refused=refused, pre_migration=True, read=True)
def describe_cluster(
    image: Image, request: m.DescribeClusterRequest, ctx: Context
) -> Result[Response]:
    """List the registered controllers that have the caller's listener."""
    error = check(image, request, ctx)
    if error is not None:
        return Result(refused(request, error.code, error.message))
    nodes = [
        m.DescribeClusterResponse.DescribeClusterBroker(
            broker_id=controller.id, host=endpoint.host, port=endpoint.port
        )
        for controller in image.controllers.values()
        for endpoint in controller.endpoints
        if endpoint.name == ctx.call.listener
    ]
    known = {node.broker_id for node in nodes}
    return Result(
        Response(
            endpoint_type=CONTROLLERS,
            cluster_id=ctx.config.cluster_id,
            # A controller that is not registered has no known address.
            controller_id=ctx.leader_id if ctx.leader_id in known else -1,
            brokers=nodes,
            cluster_authorized_operations=_operations(image, request, ctx),
        )
    )


def _operations(image: Image, request: m.DescribeClusterRequest, ctx: Context) -> int:
    """One bit per operation the caller may do on the cluster; the default if not requested."""
    if not request.include_cluster_authorized_operations:
        return NOT_ASKED
    cluster = ResourceType.CLUSTER
    if not ctx.allowed(image, Operation.DESCRIBE, cluster, CLUSTER_NAME):
        return 0
    return sum(1 << one for one in ON_CLUSTER if ctx.allowed(image, one, cluster, CLUSTER_NAME))


def check(image: Image, request: m.DescribeClusterRequest, ctx: Context) -> ApiError | None:
    """Why the request is refused, in Kafka's order of precedence; None if it is valid."""
    if not image.metadata_version.supports(Feature.CONTROLLER_REGISTRATION):
        return ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "Controllers are not registered at this metadata.version "
            f"({image.metadata_version.name}).",
        )
    if not ctx.allowed(image, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, not_authorized(ctx.call))
    asked = request.endpoint_type
    if asked != CONTROLLERS:
        if asked == BROKERS:
            code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
            text = MISMATCH.format("CONTROLLER", "BROKER")
        else:
            code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            text = f"Unsupported endpoint type {asked}"
        return ApiError(ErrorCode.INVALID_REQUEST if ctx.api_version == 0 else code, text)
    return None
