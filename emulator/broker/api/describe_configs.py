"""DescribeConfigs (32): of topics, of this broker, of all brokers, of client metrics.

The answer holds what the controller's handler answers for a node, here for this broker; see there
for the errors. This broker has no loggers: BROKER_LOGGER is INVALID_REQUEST.
"""

from __future__ import annotations

from typing import Final

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, serves
from emulator.broker.serving.in_parts import Division, Pieces, runs
from emulator.broker.serving.reading import reading
from emulator.controller.api import describe_configs as shared
from emulator.seam import Pace, Slices
from wire import messages as m
from wire.schema import replace

RESOURCES_IN_PART: Final = 20
"""A topic has three dozen configs, a broker hundreds."""


def _pieces(request: m.DescribeConfigsRequest, _version: int) -> Pieces | None:
    return None if len(request.resources) <= RESOURCES_IN_PART else _cut(request)


def _cut(request: m.DescribeConfigsRequest) -> Pieces:
    wanted, pace = dict[tuple[int, str], shared.Resource](), Pace()
    for one in request.resources:
        if pace.over():
            yield None
        wanted.setdefault(shared.identity(one), one)
    for run in runs(wanted.values(), RESOURCES_IN_PART, _name):
        yield replace(request, resources=run)


def _name(resource: shared.Resource) -> str:
    return resource.resource_name


@serves(m.DescribeConfigsRequest, refused=shared.refused, division=Division(_pieces, "results"))
def describe_configs(
    cluster: KnownCluster, request: m.DescribeConfigsRequest, asked: Asked
) -> Slices[m.DescribeConfigsResponse]:
    """List the configs of each resource, or those of the requested keys."""
    caller = reading(cluster, request, asked)
    result = yield from shared.describe_configs(caller.image, request, caller)
    return result.response
