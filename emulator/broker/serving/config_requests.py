"""What a broker decides itself about AlterConfigs and IncrementalAlterConfigs.

A resource that is wrong in itself, and what only this broker can validate or change, is answered
here. The rest is forwarded in one request, and the two parts of the answer are joined in the order
of the client's resources.

Source: ConfigAdminManager, DynamicBrokerConfig.validateConfigs, Kafka 3.9; KIP-226, KIP-412.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from emulator.broker.registry import PassOn, Served
from emulator.broker.serving.reading import BrokerReading
from emulator.controller.result import ApiError
from emulator.controller.tables.broker_config_defs import validate_broker_configs
from emulator.controller.tables.config_defs import ConfigRefusedError
from emulator.controller.tables.server_configs import server_configs
from emulator.metadata.configs import BROKER
from emulator.seam import Pace, Slices, listed
from wire.errors import UNEXPECTED, ErrorCode

Local = dict[int, ApiError]
"""Position of a resource in the request -> its answer from this broker."""
Check = Callable[[Any, BrokerReading], ApiError | None]
"""The answer for one resource with its configs, or None: the controller decides."""

_SSL_FILES: Final = frozenset(
    f"ssl.{name}"
    for name in (
        "keystore.type keystore.location keystore.password key.password truststore.type "
        "truststore.location truststore.password keystore.certificate.chain keystore.key "
        "truststore.certificates"
    ).split()
)
"""May be set for one listener only."""
_OF_ONE_BROKER: Final = _SSL_FILES | {
    "advertised.listeners",
    "listeners",
    "listener.security.protocol.map",
    "principal.builder.class",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.server.callback.handler.class",
}
"""Cannot be set for all brokers."""
_SMALL_SET: Final = 4
"""Scala's sets up to this size have classes of their own."""
_CODES: Final = frozenset(int(code) for code in ErrorCode)
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,10}")
_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")


def scala_set(names: Sequence[str]) -> str:
    """Names as Kafka's broker prints a set of them.

    >>> scala_set(["broker.rack"])
    'Set(broker.rack)'
    """
    kind = "Set" if len(names) <= _SMALL_SET else "HashSet"
    return f"{kind}({', '.join(names)})"


def invalid(text: str) -> ApiError:
    """INVALID_REQUEST with a text."""
    return ApiError(ErrorCode.INVALID_REQUEST, text)


def answered(request: Any, response: Any, caller: BrokerReading, check: Check) -> Slices[Served]:
    """The response if all is decided here; else what the controller is asked, and how to join.

    Args:
        request: an AlterConfigs or IncrementalAlterConfigs request.
        response: the class of its response.
        caller: the client, and what is configured now.
        check: for a resource that is named once, and no config of it twice.
    """
    local = yield from _preprocessed(request.resources, caller, check)

    def told(one: Any, error: ApiError) -> Any:
        return response.AlterConfigsResourceResponse(
            error_code=error.code,
            error_message=error.message,
            resource_type=one.resource_type,
            resource_name=one.resource_name,
        )

    def join(answer: Any) -> Slices[Any]:
        errors = yield from _joined(request.resources, local, answer.responses)
        pairs = zip(request.resources, errors, strict=True)
        responses = yield from listed(lambda pair: told(*pair), pairs)
        return response(throttle_time_ms=answer.throttle_time_ms, responses=responses)

    rest = [one for at, one in enumerate(request.resources) if at not in local]
    if rest and not local:
        return PassOn(request, join)
    if not rest:
        return (yield from join(response()))
    return PassOn(type(request)(resources=rest, validate_only=request.validate_only), join)


def _preprocessed(resources: Sequence[Any], caller: BrokerReading, check: Check) -> Slices[Local]:
    """The answers that this broker gives itself."""
    local: Local = {}
    times = Counter((one.resource_type, one.resource_name) for one in resources)
    pace = Pace()
    for at, resource in enumerate(resources):
        if pace.over(1 + len(resource.configs)):
            yield
        if times[resource.resource_type, resource.resource_name] > 1:
            local[at] = invalid("Each resource must appear at most once.")
            continue
        names = [config.name for config in resource.configs]
        error = invalid("Error due to duplicate config keys")
        found = error if len(set(names)) != len(names) else check(resource, caller)
        if found is not None:
            local[at] = found
    return local


def _joined(
    resources: Sequence[Any], local: Local, answers: Sequence[Any]
) -> Slices[list[ApiError]]:
    """One result for each resource of the client's request.

    Args:
        resources: as the client sent them.
        local: the errors that this broker found.
        answers: the answers of the controller for the others.
    """

    def found(one: Any) -> tuple[tuple[int, str], ApiError]:
        error = ApiError(_code(one.error_code), one.error_message)
        return (one.resource_type, one.resource_name), error

    answered = dict((yield from listed(found, answers)))
    lost = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED)
    return [
        local[at] if at in local else answered.get((one.resource_type, one.resource_name), lost)
        for at, one in enumerate(resources)
    ]


def another_node(name: str, caller: BrokerReading) -> ApiError | None:
    """Why the name is not this broker's id; None if it is."""
    own = caller.config.node_id
    number = int(name) if _NUMBER.fullmatch(name) else None
    if number is None:
        return invalid(f"Node id must be an integer, but it is: {name}")
    return None if number == own else invalid(f"Unexpected broker id, expected {own}, not {name}")


def broker_error(
    name: str, changes: Mapping[str, str | None], caller: BrokerReading
) -> ApiError | None:
    """Why new dynamic configs of a broker, or of all (an empty name), are refused.

    Args:
        name: the resource's.
        changes: config -> new value, None to unset it.
        caller: the client, and what is configured now.
    """
    error = another_node(name, caller) if name else None
    if error is not None:
        return error
    values = {**caller.image.config(BROKER, name)}
    for key, value in changes.items():
        values.pop(key, None)
        if value is not None:
            values[key] = value
    known = server_configs(caller.config.release)
    fixed = sorted(key for key in values if key in known and not known[key].dynamic)
    if fixed:
        return invalid(f"Cannot update these configs dynamically: {scala_set(fixed)}")
    files = sorted(_SSL_FILES.intersection(values))
    if files:
        return invalid(
            "These security configs can be dynamically updated only per-listener using the "
            f"listener prefix: {scala_set(files)}"
        )
    try:
        validate_broker_configs(values)
    except ConfigRefusedError as refusal:
        return invalid(str(refusal))
    single = [] if name else sorted(key for key in values if _of_one_broker(key))
    if single:
        return invalid(
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"{scala_set(single)}"
        )
    return None


def _code(number: int) -> ErrorCode:
    return ErrorCode(number) if number in _CODES else ErrorCode.UNKNOWN_SERVER_ERROR


def _of_one_broker(key: str) -> bool:
    return key in _OF_ONE_BROKER or _LISTENER.fullmatch(key) is not None
