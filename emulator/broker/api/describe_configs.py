"""DescribeConfigs (32): of topics, of this broker, of all brokers, of client metrics.

What is told is what the controller's handler tells of a node, here of this broker; see there for
the errors. This broker has no loggers: BROKER_LOGGER is INVALID_REQUEST.
"""

from __future__ import annotations

from emulator.broker.cluster import KnownCluster
from emulator.broker.reading import reading
from emulator.broker.registry import Asked, serves
from emulator.controller.api import describe_configs as shared
from wire import messages as m


@serves(m.DescribeConfigsRequest, refused=shared.refused)
def describe_configs(
    cluster: KnownCluster, request: m.DescribeConfigsRequest, asked: Asked
) -> m.DescribeConfigsResponse:
    """List the configs of each resource, or those of the requested keys."""
    caller = reading(cluster, request, asked)
    return shared.describe_configs(caller.image, request, caller).response
