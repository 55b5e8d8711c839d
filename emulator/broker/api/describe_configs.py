"""DescribeConfigs (32): of topics, of this broker, of all brokers, of client metrics.

What is told is what the controller's handler tells of a node, here of this broker; see there for
the errors. This broker has no loggers: BROKER_LOGGER is INVALID_REQUEST.
"""

from __future__ import annotations

from typing import Final

from emulator.broker.cluster import KnownCluster
from emulator.broker.in_parts import Division, runs
from emulator.broker.reading import reading
from emulator.broker.registry import Asked, serves
from emulator.controller.api import describe_configs as shared
from emulator.slices import Slices
from wire import messages as m
from wire.schema import replace

RESOURCES_IN_PART: Final = 20
"""A topic has three dozen configs, a broker hundreds."""


def _pieces(request: m.DescribeConfigsRequest, _version: int) -> list[m.DescribeConfigsRequest]:
    if len(request.resources) <= RESOURCES_IN_PART:
        return []
    once = {shared.identity(one): one for one in reversed(request.resources)}
    wanted = [one for one in request.resources if once[shared.identity(one)] is one]
    return [replace(request, resources=run) for run in runs(wanted, RESOURCES_IN_PART, _name)]


def _name(resource: m.DescribeConfigsRequest.DescribeConfigsResource) -> str:
    return resource.resource_name


@serves(m.DescribeConfigsRequest, refused=shared.refused, division=Division(_pieces, "results"))
def describe_configs(
    cluster: KnownCluster, request: m.DescribeConfigsRequest, asked: Asked
) -> Slices[m.DescribeConfigsResponse]:
    """List the configs of each resource, or those of the requested keys."""
    caller = reading(cluster, request, asked)
    result = yield from shared.describe_configs(caller.image, request, caller)
    return result.response
