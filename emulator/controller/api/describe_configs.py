"""DescribeConfigs (32): values, sources. KIP-133, KIP-226 (v1), KIP-569 (v3), KIP-919.

Kafka: ControllerApis.handleDescribeConfigsRequest, ConfigHelper (3.9).

INVALID_REQUEST for everything if a type is unknown. Per resource, in order:
TOPIC_AUTHORIZATION_FAILED or CLUSTER_AUTHORIZATION_FAILED without DESCRIBE_CONFIGS;
INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION; INVALID_REQUEST for a node other than this one
and a subscription without name. For a node its own properties are listed, for the empty broker name
only the dynamic configs of all brokers. A read: served before the copy and on a standby.
Documentation texts are not included. A resource named twice is answered once, with the keys asked
for first: what is told of a node is a thousand times as long as its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from emulator.config.java_text import whole
from emulator.controller.context import CLUSTER_NAME, ReadContext
from emulator.controller.registry import handles
from emulator.controller.result import ApiError, Result
from emulator.controller.rules.topics import TOPIC_DENIED
from emulator.controller.tables.config_changes import BROKER_LOGGER
from emulator.controller.tables.config_defs import (
    CLUSTER_SOURCE,
    DEFAULT_SOURCE,
    TOPIC_SOURCE,
    effective_topic_configs,
    topic_configs,
)
from emulator.controller.tables.server_configs import (
    Layers,
    Synonym,
    Type,
    is_sensitive,
    printed,
    server_configs,
    type_of,
)
from emulator.metadata.acls import Operation, ResourceType
from emulator.metadata.configs import BROKER, CLIENT_METRICS, TOPIC
from emulator.metadata.image import Image
from emulator.metadata.topics import name_error
from emulator.seam import Slices
from wire import messages as m
from wire.errors import ErrorCode

Response = m.DescribeConfigsResponse
Answer = m.DescribeConfigsResponse.DescribeConfigsResult
Entry = m.DescribeConfigsResponse.DescribeConfigsResourceResult
Resource = m.DescribeConfigsRequest.DescribeConfigsResource

CLIENT_METRICS_SOURCE: Final = 7
RESOURCES_PER_SLICE: Final = 20
"""A topic has three dozen configs, a node hundreds."""
MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)
UNKNOWN_TOPIC: Final = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
CLUSTER_DENIED: Final = ApiError(
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."
)


def refused(request: m.DescribeConfigsRequest, code: ErrorCode, message: str | None) -> Response:
    """The response with the error for every resource."""
    error = ApiError(code, message)
    return Response(results=[_answer(resource, error) for resource in request.resources])


@handles(m.DescribeConfigsRequest, refused=refused, pre_migration=True, read=True)
def describe_configs(
    image: Image, request: m.DescribeConfigsRequest, ctx: ReadContext
) -> Slices[Result[Response]]:
    """List the configs of each resource, or those of the requested keys."""
    known = {TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS}
    if any(one.resource_type not in known for one in request.resources):
        return Result(refused(request, ErrorCode.INVALID_REQUEST, MALFORMED))
    results = []
    told_of: set[tuple[int, str]] = set()
    for number, resource in enumerate(request.resources, 1):
        if number % RESOURCES_PER_SLICE == 0:
            yield
        which = identity(resource)
        if which in told_of:
            continue
        told_of.add(which)
        told = _denied(image, resource, ctx) or _describe(image, resource, ctx)
        if isinstance(told, ApiError):
            results.append(_answer(resource, told))
            continue
        answer = _answer(resource, ApiError(ErrorCode.NONE, ""))
        answer.configs = [_shaped(entry, request) for entry in told]
        results.append(answer)
    return Result(Response(results=results))


def identity(resource: Resource) -> tuple[int, str]:
    """What is the same for two spellings of one resource; a node's id may have leading zeros."""
    kind, name = resource.resource_type, resource.resource_name
    if kind == BROKER:
        with suppress(ValueError):
            return kind, str(whole(name))
    return kind, name


def _denied(image: Image, resource: Resource, ctx: ReadContext) -> ApiError | None:
    describe = Operation.DESCRIBE_CONFIGS
    if resource.resource_type == TOPIC:
        allowed = ctx.allowed(image, describe, ResourceType.TOPIC, resource.resource_name)
        return None if allowed else TOPIC_DENIED
    allowed = ctx.allowed(image, describe, ResourceType.CLUSTER, CLUSTER_NAME)
    return None if allowed else CLUSTER_DENIED


def _describe(image: Image, resource: Resource, ctx: ReadContext) -> list[Entry] | ApiError:
    name = resource.resource_name
    keys = set(resource.configuration_keys or ())
    if resource.resource_type == TOPIC:
        why = name_error(name)
        if why is not None:
            return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
        return UNKNOWN_TOPIC if image.topic(name) is None else _topic(image, name, keys, ctx)
    if resource.resource_type == BROKER:
        return _node_error(name, ctx) or _broker(image, keys, ctx, everything=bool(name))
    if resource.resource_type == CLIENT_METRICS:
        if not name:
            text = "Client metrics subscription name must not be empty"
            return ApiError(ErrorCode.INVALID_REQUEST, text)
        return [
            Entry(name=key, value=value, config_source=CLIENT_METRICS_SOURCE, documentation="")
            for key, value in image.config(CLIENT_METRICS, name).items()
        ]
    return ApiError(ErrorCode.INVALID_REQUEST, "This node has no loggers.")


def _topic(image: Image, topic: str, keys: set[str], ctx: ReadContext) -> list[Entry]:
    layers, overrides = Layers(image, ctx.config), image.config(TOPIC, topic)
    entries = []
    for effective in effective_topic_configs(image, ctx.config, overrides):
        name = effective.name
        if keys and name not in keys:
            continue
        known = topic_configs(ctx.config.release)[name]
        kind = Type[known.kind.name.upper()]
        value = printed(effective.value, kind)
        synonyms = [Synonym(name, value, TOPIC_SOURCE)] if name in overrides else []
        if known.synonyms:
            synonyms += layers.synonyms(known.synonyms[0][0])
        entries.append(_entry(name, value, kind, synonyms))
    return entries


def _node_error(name: str, ctx: ReadContext) -> ApiError | None:
    if not name:
        return None
    try:
        node_id = whole(name)
    except ValueError:
        text = f"Broker id must be an integer, but it is: {name}"
        return ApiError(ErrorCode.INVALID_REQUEST, text)
    if node_id == ctx.config.node_id:
        return None
    text = (
        f"Unexpected broker id, expected {ctx.config.node_id} or empty string, but received {name}"
    )
    return ApiError(ErrorCode.INVALID_REQUEST, text)


def _broker(image: Image, keys: set[str], ctx: ReadContext, *, everything: bool) -> list[Entry]:
    layers, release = Layers(image, ctx.config), ctx.config.release
    known = server_configs(release)
    entries = []
    for name in layers.names() if everything else sorted(layers.cluster):
        if keys and name not in keys:
            continue
        synonyms = [
            one for one in layers.synonyms(name) if everything or one.source == CLUSTER_SOURCE
        ]
        value = layers.value(name) if everything else layers.cluster[name]
        entry = _entry(name, value, type_of(name, release), synonyms)
        entry.read_only = name not in known or not known[name].dynamic
        entries.append(entry)
    return entries


def _entry(name: str, value: str | None, kind: Type, synonyms: Iterable[Synonym]) -> Entry:
    sensitive = is_sensitive(kind)
    told = [
        m.DescribeConfigsResponse.DescribeConfigsSynonym(
            name=one.name, value=None if sensitive else one.value, source=one.source
        )
        for one in synonyms
    ]
    return Entry(
        name=name,
        value=None if sensitive else value,
        config_source=told[0].source if told else DEFAULT_SOURCE,
        is_sensitive=sensitive,
        synonyms=told,
        config_type=kind,
        documentation=None,
    )


def _shaped(entry: Entry, request: m.DescribeConfigsRequest) -> Entry:
    if not request.include_synonyms:
        entry.synonyms = []
    # `is_default` of version 0 stays false, as Kafka's servers have it since sources are told.
    return entry


def _answer(resource: Resource, error: ApiError) -> Answer:
    return Answer(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
