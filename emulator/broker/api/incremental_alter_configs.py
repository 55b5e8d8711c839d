"""IncrementalAlterConfigs (44): change single configs of topics, brokers or client metrics.

Answered here, before the controller is asked about the rest: INVALID_REQUEST for a resource or a
config given twice, a null value, an unknown type of resource, another broker's id, and dynamic
configs that this broker refuses; CLUSTER_AUTHORIZATION_FAILED for its loggers without ALTER_CONFIGS
on the cluster, and INVALID_REQUEST, as this broker has no loggers that can be changed.
Kafka: KafkaApis.handleIncrementalAlterConfigsRequest, ConfigAdminManager.preprocess (3.9).
"""

from __future__ import annotations

from typing import Final

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, Served, serves
from emulator.broker.serving.config_requests import another_node, answered, broker_error, invalid
from emulator.broker.serving.reading import BrokerReading, reading
from emulator.controller.api.incremental_alter_configs import ConfigOperation, edited, refused
from emulator.controller.result import ApiError
from emulator.controller.tables.config_changes import BROKER_LOGGER, is_list, list_default
from emulator.metadata.acls import Operation
from emulator.metadata.configs import BROKER, CLIENT_METRICS, TOPIC
from emulator.seam import Slices
from wire import messages as m
from wire.errors import ErrorCode

Resource = m.IncrementalAlterConfigsRequest.AlterConfigsResource
NO_LOGGERS: Final = "This node has no loggers."


@serves(m.IncrementalAlterConfigsRequest, refused=refused)
def incremental_alter_configs(
    cluster: KnownCluster, request: m.IncrementalAlterConfigsRequest, asked: Asked
) -> Slices[Served]:
    """Answer what is decided here; the controller decides the rest."""
    caller = reading(cluster, request, asked)
    return (yield from answered(request, m.IncrementalAlterConfigsResponse, caller, _check))


def _check(resource: Resource, caller: BrokerReading) -> ApiError | None:
    delete = ConfigOperation.DELETE
    nulls = [
        config.name
        for config in resource.configs
        if config.config_operation != delete and config.value is None
    ]
    if nulls:
        return invalid(f"Null value not supported for : {', '.join(nulls)}")
    name = resource.resource_name
    if resource.resource_type == BROKER_LOGGER:
        if not caller.may_on_cluster(Operation.ALTER_CONFIGS):
            text = "Cluster authorization failed."
            return ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, text)
        return another_node(name, caller) or invalid(NO_LOGGERS)
    if resource.resource_type == BROKER:
        changes = _changes(resource, caller)
        if isinstance(changes, ApiError):
            return another_node(name, caller) or changes if name else changes
        return broker_error(name, changes, caller)
    if resource.resource_type in {TOPIC, CLIENT_METRICS}:
        return None
    return invalid(f"Unknown resource type {resource.resource_type}")


def _changes(resource: Resource, caller: BrokerReading) -> dict[str, str | None] | ApiError:
    release, name = caller.config.release, resource.resource_name
    current = caller.image.config(BROKER, name)
    changes: dict[str, str | None] = {}
    for config in resource.configs:
        key, value = config.name, config.value
        if config.config_operation not in list(ConfigOperation):
            return invalid(f"Unknown operation type {config.config_operation}.")
        operation = ConfigOperation(config.config_operation)
        if operation in {ConfigOperation.APPEND, ConfigOperation.SUBTRACT}:
            assert value is not None, "nulls are refused before"
            if not is_list(BROKER, key, release):
                text = f"Can't {operation.name} to key {key} because its type is not LIST."
                return ApiError(ErrorCode.INVALID_CONFIG, text)
            base = current.get(key, list_default(BROKER, key, release))
            value = edited(base, value, operation)
        changes[key] = None if operation is ConfigOperation.DELETE else value
    return changes
