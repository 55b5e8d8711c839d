"""What the two AlterConfigs APIs share: does the resource exist, would its configs be valid.

Source: ConfigurationControlManager, ControllerConfigurationValidator, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from emulator.controller.broker_config_defs import BROKER_LISTS, validate_broker_configs
from emulator.controller.config_defs import topic_configs, validate_topic_configs
from emulator.controller.config_types import LIST, ConfigError
from emulator.controller.context import CLUSTER_NAME, Context
from emulator.controller.result import ApiError, Record
from emulator.controller.topics import TOPIC_DENIED, name_error
from emulator.metadata.acls import Operation, ResourceType
from emulator.metadata.configs import BROKER, TOPIC
from emulator.metadata.image import Image
from wire import records as r
from wire.errors import ErrorCode

CLIENT_METRICS: Final = 16
BROKER_ID_MAX: Final = 2**31 - 1
VALUE_BYTES_MAX: Final = 32_767
"""What a record's string can hold; appending to a list may exceed it."""
Changes = Mapping[str, str | None]
"""Config name -> new value, None to unset it."""


def changed(
    image: Image, resource_type: int, name: str, changes: Changes, ctx: Context
) -> list[Record] | ApiError:
    """The records of a change, or why it is refused.

    A value that stays the same writes no record for a topic; for a broker it does, since that
    makes the broker load it again (KAFKA-14136).
    """
    error = _check_resource(image, resource_type, name, ctx)
    if error is not None:
        return error
    current = image.config(resource_type, name)
    wanted = {key: value for key, value in current.items() if key not in changes}
    wanted.update({key: value for key, value in changes.items() if value is not None})
    for key, value in changes.items():
        if value is not None and len(value.encode()) > VALUE_BYTES_MAX:
            text = f"The value of {key} would be longer than {VALUE_BYTES_MAX} bytes."
            return ApiError(ErrorCode.INVALID_CONFIG, text)
    try:
        if resource_type == TOPIC:
            validate_topic_configs(ctx.config, wanted)
        else:
            validate_broker_configs(wanted)
    except ConfigError as refusal:
        return ApiError(ErrorCode.INVALID_CONFIG, str(refusal))
    return [
        r.ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
        for key, value in changes.items()
        if resource_type == BROKER or current.get(key) != value
    ]


def may_alter(image: Image, resource_type: int, name: str, ctx: Context) -> ApiError | None:
    """Why the caller may not alter a resource's configs; None if it may.

    Source: ControllerApis.authorizeAlterResource, Kafka 3.9.
    """
    alter = Operation.ALTER_CONFIGS
    if resource_type == TOPIC:
        if not ctx.allowed(image, alter, ResourceType.TOPIC, name):
            return TOPIC_DENIED
    elif resource_type in {BROKER, CLIENT_METRICS} and not ctx.allowed(
        image, alter, ResourceType.CLUSTER, CLUSTER_NAME
    ):
        text = "Cluster authorization failed."
        return ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, text)
    return None


def is_list(resource_type: int, name: str, release: str) -> bool:
    """Whether APPEND and SUBTRACT make sense for a config."""
    if resource_type == TOPIC:
        known = topic_configs(release).get(name)
        return known is not None and known.kind is LIST
    return name in BROKER_LISTS


def list_default(resource_type: int, name: str, release: str) -> str:
    """What APPEND adds to while nothing is set."""
    known = topic_configs(release).get(name) if resource_type == TOPIC else None
    return known.default if known is not None else BROKER_LISTS.get(name, "")


def _check_resource(image: Image, resource_type: int, name: str, ctx: Context) -> ApiError | None:
    if resource_type == TOPIC:
        return _check_topic(image, name)
    if resource_type == BROKER:
        return _check_broker(image, name, ctx)
    text = f"Unexpected resource type {resource_type}."
    return ApiError(ErrorCode.INVALID_REQUEST, text)


def _check_topic(image: Image, name: str) -> ApiError | None:
    if not name:
        text = "Default topic resources are not allowed."
        return ApiError(ErrorCode.INVALID_REQUEST, text)
    if image.topic(name) is None:
        text = f"The topic '{name}' does not exist."
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    why = name_error(name)
    return None if why is None else ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)


def _check_broker(image: Image, name: str, ctx: Context) -> ApiError | None:
    if not name:
        return None
    if not name.isascii() or not name.removeprefix("-").isdigit():
        text = "Unable to parse broker name as a base 10 number."
        return ApiError(ErrorCode.INVALID_REQUEST, text)
    node_id = int(name)
    if not 0 <= node_id <= BROKER_ID_MAX:
        return ApiError(ErrorCode.INVALID_REQUEST, "Invalid negative broker ID.")
    controllers = {ctx.config.node_id, *ctx.config.voters, *image.controllers}
    if node_id not in image.brokers and node_id not in controllers:
        text = f"No node with id {node_id} found."
        return ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, text)
    return None
