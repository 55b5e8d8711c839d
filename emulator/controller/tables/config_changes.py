"""What the two AlterConfigs APIs share: checks of the resource and its new configs.

Source: ConfigurationControlManager, ControllerConfigurationValidator, Kafka 3.9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from emulator.config import java_pattern
from emulator.config.java_text import INT_MAX, INT_MIN, items, split, trim, whole
from emulator.config.passwords import is_password
from emulator.controller.context import CLUSTER_NAME, Context
from emulator.controller.registry import TOUCHED_MAX
from emulator.controller.result import ApiError, Record
from emulator.controller.rules.storable import Room
from emulator.controller.rules.topics import TOPIC_DENIED
from emulator.controller.tables.broker_config_defs import validate_broker_configs
from emulator.controller.tables.config_defs import (
    LIST,
    UNCLEAN,
    ConfigRefusedError,
    topic_configs,
    validate_topic_configs,
)
from emulator.controller.tables.index import collision_key
from emulator.controller.tables.server_configs import Type, server_configs
from emulator.metadata.acls import Operation, ResourceType
from emulator.metadata.configs import BROKER, CLIENT_METRICS, TOPIC
from emulator.metadata.image import Image
from emulator.metadata.topics import name_error
from emulator.seam import Pace, Slices
from wire import records as r
from wire.errors import ErrorCode

# Configs of resources of type CLIENT_METRICS: which metrics clients push. KIP-714.
#
# They are in the log only; ZooKeeper has no znode for them.
#
# Source: ClientMetricsConfigs, Kafka 3.7-3.9.

INTERVAL: Final = "interval.ms"
MATCH: Final = "match"
NAMES: Final = frozenset({"metrics", INTERVAL, MATCH})
INTERVAL_MIN_MS, INTERVAL_MAX_MS = 100, 3_600_000
MATCHED: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
RELEASES_WITHOUT: Final = frozenset({"3.4", "3.5", "3.6"})


def error(name: str, values: Mapping[str, str]) -> ApiError | None:
    """Why a subscription cannot have these configs; None if it can.

    Brokers read ``match`` as a list of their own: an empty one is none, and blanks may surround a
    comma. What either of the two readings refuses is refused.
    """
    if not name:
        return ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for key in values:
        if key not in NAMES:
            text = f"Unknown client metrics configuration: {key}"
            return ApiError(ErrorCode.INVALID_REQUEST, text)
    interval = values.get(INTERVAL)
    if interval is not None and not _good_interval(interval):
        text = (
            f"Invalid value {interval} for {INTERVAL}, interval must be between "
            f"{INTERVAL_MIN_MS} and {INTERVAL_MAX_MS} (1 hour)"
        )
        return ApiError(ErrorCode.INVALID_REQUEST, text)
    match = values.get(MATCH)
    for pattern in () if match is None else dict.fromkeys((*split(match, ","), *items(match))):
        if not _good_pattern(pattern):
            text = f"Illegal client matching pattern: {pattern}"
            return ApiError(ErrorCode.INVALID_CONFIG, text)
    return None


def _good_interval(text: str) -> bool:
    try:
        return INTERVAL_MIN_MS <= whole(text) <= INTERVAL_MAX_MS
    except ValueError:
        return False


def _good_pattern(pattern: str) -> bool:
    parts = split(pattern, "=")
    if len(parts) != 2 or trim(parts[0]) not in MATCHED:
        return False
    try:
        java_pattern.check(trim(parts[1]))
    except ValueError:
        return False
    return True


RESOURCES_PER_SLICE: Final = 100
"""Resources that one slice checks: most have a few configs."""
CHARACTERS_PER_SLICE: Final = 8_000
"""Characters of values that one slice checks, and what the last resource has beyond: about 10 ms of
patterns, which take longest."""
VALUE_BYTES_MAX: Final = 32_767
"""Maximum bytes of a string in a record; APPEND may exceed it."""
BROKER_LOGGER: Final = 8
Changes = Mapping[str, str | None]
"""Config name -> new value, None to unset it."""


class AskedConfig(Protocol):
    """The fields of a config that both requests have."""

    name: str
    value: str | None


class ConfigResource(Protocol):
    """The fields of a resource that both requests have."""

    resource_type: int
    resource_name: str

    @property
    def configs(self) -> Sequence[AskedConfig]:
        """What is asked for."""


ResourceT = TypeVar("ResourceT", bound=ConfigResource)


class ConfigRequest(Protocol):
    """The field that both requests have."""

    @property
    def resources(self) -> Sequence[ConfigResource]:
        """What is to be altered."""


def touches(image: Image, request: ConfigRequest) -> Collection[object] | None:
    """The topics, or subscriptions of metrics.

    None: configs of brokers, which new topics inherit, and whether an election may be unclean,
    which decides what follows from a change of an ISR.
    """
    if len(request.resources) > TOUCHED_MAX:
        return None
    keys: list[object] = []
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        if kind == TOPIC:
            keys.append(collision_key(name))
            asked = [config.name for config in resource.configs]
            if UNCLEAN in asked or UNCLEAN in image.config(kind, name):
                return None
        elif kind == CLIENT_METRICS:
            keys.append((kind, name))
        else:
            return None
    return keys


def altered(
    image: Image,
    resources: Sequence[ResourceT],
    ctx: Context,
    change: Callable[[Image, ResourceT, Context], Slices[list[Record] | ApiError]],
) -> Slices[tuple[list[tuple[ResourceT, ApiError]], list[Record]]]:
    """Change each resource as a whole or not at all, in slices.

    Args:
        image: the newest image.
        resources: as requested; a resource given twice is not changed.
        ctx: the context of the call.
        change: returns the records for one resource, or the error, in slices.

    Returns:
        One answer per resource, and the records.
    """
    times = Counter((one.resource_type, one.resource_name) for one in resources)
    answers: list[tuple[ResourceT, ApiError]] = []
    records: list[Record] = []
    room = Room(image, ctx)
    weight = 0
    for resource in resources:
        if weight >= CHARACTERS_PER_SLICE:
            yield
            weight = 0
        weight += CHARACTERS_PER_SLICE // RESOURCES_PER_SLICE
        weight += sum(len(one.value or "") for one in resource.configs)
        kind, name = resource.resource_type, resource.resource_name
        if (kind, name) not in times:
            continue
        outcome: list[Record] | ApiError
        if not _known(kind, ctx):
            text = f"Unknown resource type {kind}."
            outcome = ApiError(ErrorCode.UNSUPPORTED_VERSION, text)
        elif times.pop((kind, name)) > 1:
            outcome = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate resource.")
        else:
            denied = may_alter(image, kind, name, ctx)
            outcome = denied or (yield from change(image, resource, ctx))
        if not isinstance(outcome, ApiError):
            why = room.take(outcome)
            outcome = outcome if why is None else ApiError(ErrorCode.POLICY_VIOLATION, why)
        if isinstance(outcome, ApiError):
            answers.append((resource, outcome))
        else:
            answers.append((resource, ApiError(ErrorCode.NONE)))
            records.extend(outcome)
    return answers, records


def _known(resource_type: int, ctx: Context) -> bool:
    if resource_type == CLIENT_METRICS:
        return ctx.config.release not in RELEASES_WITHOUT
    return resource_type in {TOPIC, BROKER, BROKER_LOGGER}


def changed(
    image: Image, resource_type: int, name: str, changes: Changes, ctx: Context
) -> Slices[list[Record] | ApiError]:
    """The records of a change, or why it is refused.

    An unchanged value writes no record for a topic. For a broker it does, because the record makes
    the broker reload the value (KAFKA-14136).
    """
    current = image.config(resource_type, name)
    error = _name_error(resource_type, name)
    # What is there under a name that is refused now may be removed.
    removed = resource_type == BROKER and current and set(changes.values()) == {None}
    if error is not None and not removed:
        return error
    wanted = {key: value for key, value in current.items() if key not in changes}
    wanted.update({key: value for key, value in changes.items() if value is not None})
    pace = Pace()
    for key, value in changes.items():
        if pace.over():
            yield
        if value is not None and len(value.encode()) > VALUE_BYTES_MAX:
            text = f"The value of {key} would be longer than {VALUE_BYTES_MAX} bytes."
            return ApiError(ErrorCode.INVALID_CONFIG, text)
    error = _values_error(image, (resource_type, name), wanted, changes, ctx)
    if error is not None:
        return error
    return [
        r.ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
        for key, value in changes.items()
        if resource_type == BROKER or current.get(key) != value
    ]


def _check_passwords(changes: Changes, ctx: Context) -> None:
    """Refuse a password that cannot be written to ZooKeeper, as a ZooKeeper-mode broker does.

    Source: DynamicBrokerConfig.passwordEncoder, Kafka 3.9.
    """
    secret = ctx.config.properties.get("password.encoder.secret")
    if not ctx.config.migration_enabled or secret:
        return
    if any(value is not None and is_password(key) for key, value in changes.items()):
        raise ConfigRefusedError("Password encoder secret not configured")


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
    """Whether a config is a list, so APPEND and SUBTRACT apply to it."""
    if resource_type == TOPIC:
        of_topic = topic_configs(release).get(name)
        return of_topic is not None and of_topic.kind is LIST
    known = server_configs(release).get(name)
    return known is not None and known.type is Type.LIST


def list_default(resource_type: int, name: str, release: str) -> str:
    """The list that APPEND extends when the config is not set."""
    configs = topic_configs if resource_type == TOPIC else server_configs
    known = configs(release).get(name)
    return (known.default if known is not None else None) or ""


def _values_error(
    image: Image,
    resource: tuple[int, str],
    wanted: Mapping[str, str],
    changes: Changes,
    ctx: Context,
) -> ApiError | None:
    """In Kafka's order: a topic's values are checked before existence, a broker's after it."""
    resource_type, name = resource
    try:
        if resource_type == TOPIC:
            validate_topic_configs(ctx.config, wanted)
            if image.topic(name) is None:
                text = f"The topic '{name}' does not exist."
                return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        elif resource_type == CLIENT_METRICS:
            return error(name, wanted)
        else:
            controllers = {ctx.config.node_id, *ctx.config.voters, *image.controllers}
            if name and int(name) not in controllers and int(name) not in image.brokers:
                text = f"No node with id {int(name)} found."
                return ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, text)
            # Not what is there already: it may come from ZooKeeper.
            new = {key: value for key, value in changes.items() if value is not None}
            validate_broker_configs(new)
            _check_passwords(changes, ctx)
    except ConfigRefusedError as refusal:
        return ApiError(ErrorCode.INVALID_CONFIG, str(refusal))
    return None


def _name_error(resource_type: int, name: str) -> ApiError | None:
    if resource_type == CLIENT_METRICS:
        return None
    if resource_type == TOPIC:
        if not name:
            text = "Default topic resources are not allowed."
            return ApiError(ErrorCode.INVALID_REQUEST, text)
        why = name_error(name)
        return None if why is None else ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
    if resource_type == BROKER:
        return broker_name_error(name) if name else None
    text = f"Unexpected resource type {resource_type}."
    return ApiError(ErrorCode.INVALID_REQUEST, text)


def broker_name_error(name: str) -> ApiError | None:
    """Why a name is not that of a broker.

    Kafka also takes other texts of a number, as ``007``. No broker in KRaft mode reads the configs
    of such a resource, and in ZooKeeper it is no znode of a broker.
    """
    try:
        number = whole(name, INT_MIN, INT_MAX)
    except ValueError:
        text = "Unable to parse broker name as a base 10 number."
        return ApiError(ErrorCode.INVALID_REQUEST, text)
    if number < 0:
        return ApiError(ErrorCode.INVALID_REQUEST, "Invalid negative broker ID.")
    if name != str(number):
        text = f"The name of a broker is written without sign and zeros before it: {number}."
        return ApiError(ErrorCode.INVALID_REQUEST, text)
    return None
