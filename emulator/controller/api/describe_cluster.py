"""DescribeCluster (60): the controllers, as seen from a controller listener. KIP-700, KIP-919 (v1).

Kafka: ControllerApis.handleDescribeCluster, AuthHelper.computeDescribeClusterResponse (3.9).

INVALID_REQUEST (v0), UNSUPPORTED_ENDPOINT_TYPE or MISMATCHED_ENDPOINT_TYPE (v1) unless controllers
are asked for; UNSUPPORTED_VERSION below metadata.version 3.7-IV0. Needs ALTER on CLUSTER. A read:
served before the copy and on a standby.
"""

from __future__ import annotations

from typing import Final

from emulator.controller.context import Context
from emulator.controller.registry import handles
from emulator.controller.result import ApiError, Result
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import Feature
from wire import messages as m
from wire.errors import ErrorCode

Response = m.DescribeClusterResponse
BROKERS: Final = 1
CONTROLLERS: Final = 2


def refused(request: m.DescribeClusterRequest, code: ErrorCode, message: str | None) -> Response:
    """One error with its text."""
    return Response(error_code=code, error_message=message, endpoint_type=request.endpoint_type)


@handles(m.DescribeClusterRequest, refused=refused, pre_migration=True, read=True)
def describe_cluster(
    image: Image, request: m.DescribeClusterRequest, ctx: Context
) -> Result[Response]:
    """List the registered controllers that have the caller's listener."""
    error = check(image, request, ctx.api_version)
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
    return Result(
        Response(
            endpoint_type=CONTROLLERS,
            cluster_id=ctx.config.cluster_id,
            controller_id=ctx.leader_id,
            brokers=nodes,
        )
    )


def check(image: Image, request: m.DescribeClusterRequest, api_version: int) -> ApiError | None:
    """Why the question is refused; None if it is not."""
    asked = request.endpoint_type
    if asked != CONTROLLERS:
        if asked == BROKERS:
            code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
            text = "The request was sent to an endpoint of type controller, but we wanted brokers."
        else:
            code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            text = f"Unsupported endpoint type {asked}"
        return ApiError(ErrorCode.INVALID_REQUEST if api_version == 0 else code, text)
    if not image.metadata_version.supports(Feature.CONTROLLER_REGISTRATION):
        return ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "Controllers are not registered at this metadata.version "
            f"({image.metadata_version.name}).",
        )
    return None
