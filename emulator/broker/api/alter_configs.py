"""AlterConfigs (33): replace the configs of topics or brokers.

Answered here, before the controller is asked about the rest: INVALID_REQUEST for a resource or a
config given twice, a null value, another broker's id, and dynamic configs that this broker refuses.
Kafka: KafkaApis.handleAlterConfigsRequest, ConfigAdminManager.preprocess (3.9).
"""

from __future__ import annotations

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, Served, serves
from emulator.broker.serving.config_requests import answered, broker_error, invalid
from emulator.broker.serving.reading import BrokerReading, reading
from emulator.controller.api.alter_configs import refused
from emulator.controller.result import ApiError
from emulator.metadata.configs import BROKER
from emulator.seam import Slices
from wire import messages as m

Resource = m.AlterConfigsRequest.AlterConfigsResource


@serves(m.AlterConfigsRequest, refused=refused)
def alter_configs(
    cluster: KnownCluster, request: m.AlterConfigsRequest, asked: Asked
) -> Slices[Served]:
    """Answer what is decided here; the controller decides the rest."""
    caller = reading(cluster, request, asked)
    return (yield from answered(request, m.AlterConfigsResponse, caller, _check))


def _check(resource: Resource, caller: BrokerReading) -> ApiError | None:
    nulls = [config.name for config in resource.configs if config.value is None]
    if nulls:
        return invalid(f"Null value not supported for : {', '.join(nulls)}")
    if resource.resource_type != BROKER:
        return None
    name = resource.resource_name
    changes: dict[str, str | None] = dict.fromkeys(caller.image.config(BROKER, name))
    changes.update({config.name: config.value for config in resource.configs})
    return broker_error(name, changes, caller)
