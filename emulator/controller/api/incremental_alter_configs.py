"""IncrementalAlterConfigs (44): change single configs. KIP-339; KIP-714 (client metrics).

Kafka: ControllerApis.handleIncrementalAlterConfigs, ConfigurationControlManager (3.9).

Per resource, in order: UNSUPPORTED_VERSION for an unknown type; INVALID_REQUEST for a resource
given twice and an unknown operation; TOPIC_AUTHORIZATION_FAILED or CLUSTER_AUTHORIZATION_FAILED
without ALTER_CONFIGS on the topic, or CLUSTER for the others; INVALID_CONFIG for APPEND or SUBTRACT
on a config that is not a list; a bad name, an unknown config or a bad value;
UNKNOWN_TOPIC_OR_PARTITION, BROKER_ID_NOT_REGISTERED; POLICY_VIOLATION if the configs would not fit
into their znode (``storable``). The valid resources of a request are altered, all in one batch.
SET of a null value is DELETE: brokers refuse it, the controller does not.
"""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from typing import Final

from emulator.config.java_text import split
from emulator.controller.context import Context
from emulator.controller.registry import handles
from emulator.controller.result import ApiError, Record, Result
from emulator.controller.tables.config_changes import (
    altered,
    changed,
    is_list,
    list_default,
    touches,
)
from emulator.metadata.image import Image
from emulator.seam import Pace, Slices, listed
from wire import messages as m
from wire.errors import ErrorCode

Response = m.IncrementalAlterConfigsResponse
Answer = m.IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
Resource = m.IncrementalAlterConfigsRequest.AlterConfigsResource


class ConfigOperation(IntEnum):
    """An operation on one config (AlterConfigOp.OpType)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_OPERATIONS: Final = frozenset(ConfigOperation)


def refused(
    request: m.IncrementalAlterConfigsRequest, code: ErrorCode, message: str | None
) -> Response:
    """The response with the error for every resource."""
    error = ApiError(code, message)
    return Response(responses=[_answer(resource, error) for resource in request.resources])


@handles(m.IncrementalAlterConfigsRequest, refused=refused, touches=touches)
def incremental_alter_configs(
    image: Image, request: m.IncrementalAlterConfigsRequest, ctx: Context
) -> Slices[Result[Response]]:
    """Apply each resource's operations as a whole or not at all."""
    answers, records = yield from altered(image, request.resources, ctx, _apply)
    response = Response(responses=(yield from listed(lambda one: _answer(*one), answers)))
    return Result(response, () if request.validate_only else tuple(records))


def _apply(image: Image, resource: Resource, ctx: Context) -> Slices[list[Record] | ApiError]:
    kind = resource.resource_type
    current = image.config(kind, resource.resource_name)
    changes: dict[str, str | None] = {}
    pace = Pace()
    for config in resource.configs:
        if pace.over():
            yield
        name, value = config.name, config.value
        if name in changes:
            text = "Error due to duplicate config keys"
            return ApiError(ErrorCode.INVALID_REQUEST, text)
        if config.config_operation == ConfigOperation.DELETE:
            value = None
        if config.config_operation in {ConfigOperation.SET, ConfigOperation.DELETE}:
            changes[name] = value
            continue
        if config.config_operation not in _OPERATIONS:
            text = f"Unknown operation type {config.config_operation}."
            return ApiError(ErrorCode.INVALID_REQUEST, text)
        operation = ConfigOperation(config.config_operation)
        if not is_list(kind, name, ctx.config.release):
            text = f"Can't {operation.name} to key {name} because its type is not LIST."
            return ApiError(ErrorCode.INVALID_CONFIG, text)
        if value is None:
            return ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
        base = current.get(name)
        if base is None:
            base = list_default(kind, name, ctx.config.release)
        changes[name] = edited(base, value, operation)
    return (yield from changed(image, kind, resource.resource_name, changes, ctx))


def edited(base: str, value: str, operation: ConfigOperation) -> str:
    """A comma separated list with entries added, each once, or removed. Blanks belong to entries.

    Source: ConfigurationControlManager.getParts, Kafka 3.9.

    >>> edited("a,,b", "c,a", ConfigOperation.APPEND), edited("a,b", "a", ConfigOperation.SUBTRACT)
    ('a,b,c', 'b')
    """
    parts, entries = [part for part in base.split(",") if part], split(value, ",")
    if operation is ConfigOperation.APPEND:
        known = set(parts)
        return ",".join([*parts, *(one for one in dict.fromkeys(entries) if one not in known)])
    # Of an entry that is there twice, the first goes.
    surplus = Counter(entries)
    left = []
    for part in parts:
        if surplus[part] > 0:
            surplus[part] -= 1
        else:
            left.append(part)
    return ",".join(left)


def _answer(resource: Resource, error: ApiError) -> Answer:
    return Answer(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
