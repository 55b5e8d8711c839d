"""AlterConfigs (33): replace all configs of topics or brokers. KIP-133, KIP-226.

Kafka: ControllerApis.handleLegacyAlterConfigs, ConfigurationControlManager (3.9).

Per resource, in order: UNSUPPORTED_VERSION for an unknown type; INVALID_REQUEST for a resource
given twice; TOPIC_AUTHORIZATION_FAILED or CLUSTER_AUTHORIZATION_FAILED without ALTER_CONFIGS on the
topic, or CLUSTER for the others; INVALID_CONFIG for a bad name, an unknown config or a bad value;
UNKNOWN_TOPIC_OR_PARTITION, BROKER_ID_NOT_REGISTERED; POLICY_VIOLATION if the configs would not fit
into their znode (``storable``). The valid resources of a request are altered, all in one batch. A
config with a null value is removed: brokers refuse it, the controller does not.
"""

from __future__ import annotations

from emulator.controller.context import Context
from emulator.controller.registry import handles
from emulator.controller.result import ApiError, Record, Result
from emulator.controller.tables.config_changes import altered, changed, touches
from emulator.metadata.image import Image
from emulator.seam import Slices, listed
from wire import messages as m
from wire.errors import ErrorCode

Response = m.AlterConfigsResponse
Answer = m.AlterConfigsResponse.AlterConfigsResourceResponse
Resource = m.AlterConfigsRequest.AlterConfigsResource


def refused(request: m.AlterConfigsRequest, code: ErrorCode, message: str | None) -> Response:
    """The response with the error for every resource."""
    error = ApiError(code, message)
    return Response(responses=[_answer(resource, error) for resource in request.resources])


@handles(m.AlterConfigsRequest, refused=refused, touches=touches)
def alter_configs(
    image: Image, request: m.AlterConfigsRequest, ctx: Context
) -> Slices[Result[Response]]:
    """Set the listed configs and remove all others."""
    answers, records = yield from altered(image, request.resources, ctx, _replace)
    response = Response(responses=(yield from listed(lambda one: _answer(*one), answers)))
    return Result(response, () if request.validate_only else tuple(records))


def _replace(image: Image, resource: Resource, ctx: Context) -> Slices[list[Record] | ApiError]:
    changes: dict[str, str | None] = {config.name: config.value for config in resource.configs}
    current = image.config(resource.resource_type, resource.resource_name)
    changes.update({name: None for name in current if name not in changes})
    kind, name = resource.resource_type, resource.resource_name
    return (yield from changed(image, kind, name, changes, ctx))


def _answer(resource: Resource, error: ApiError) -> Answer:
    return Answer(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
