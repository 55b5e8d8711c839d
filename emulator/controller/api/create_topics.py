"""CreateTopics (19): new topics with configs. KIP-4, KIP-464 (v4), KIP-525 (v5), KIP-516 (v7).

Kafka: ControllerApis.createTopics, ReplicationControlManager.createTopics (3.9); KIP-599 (v6).

POLICY_VIOLATION for more than 10,000 partitions in all, or as many records. Per topic, in order:
INVALID_REQUEST for a name given twice (none of its entries is used) and for the metadata topic;
TOPIC_AUTHORIZATION_FAILED without CREATE on CLUSTER or the topic (all of these are answered last);
INVALID_TOPIC_EXCEPTION;
TOPIC_ALREADY_EXISTS; INVALID_CONFIG; INVALID_REQUEST, INVALID_REPLICA_ASSIGNMENT for a manual
assignment; INVALID_REPLICATION_FACTOR, INVALID_PARTITIONS otherwise; POLICY_VIOLATION if the topic
would not fit into its znodes (``storable``); THROTTLING_QUOTA_EXCEEDED (v6+). The valid topics of a
request are created, all in one batch. A caller without DESCRIBE_CONFIGS on the topic gets
TOPIC_AUTHORIZATION_FAILED in place of its configs and size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Final

from emulator.controller.context import CLUSTER_NAME, Context, ControllerConfig
from emulator.controller.queue.batches import BATCH_RECORDS_MAX, TOO_LARGE, TOO_MANY_PARTITIONS
from emulator.controller.registry import TOUCHED_MAX, handles
from emulator.controller.result import ApiError, Record, Result
from emulator.controller.rules.placement import PlacementError, place, usable_brokers
from emulator.controller.rules.storable import Room
from emulator.controller.rules.topics import METADATA_TOPIC, NewPartitions
from emulator.controller.tables.config_defs import (
    ConfigRefusedError,
    Effective,
    TopicConfigSources,
    effective_topic_configs,
    inherited_topic_configs,
    validate_topic_configs,
)
from emulator.controller.tables.index import collision_key
from emulator.metadata.acls import Operation, ResourceType
from emulator.metadata.configs import TOPIC
from emulator.metadata.image import Image
from emulator.metadata.topics import name_error
from emulator.seam import ENTRIES_PER_SLICE, Slices, listed
from wire import messages as m
from wire import records as r
from wire.constant import Constant
from wire.errors import ErrorCode

Response = m.CreateTopicsResponse
Answer = m.CreateTopicsResponse.CreatableTopicResult
Entry = m.CreateTopicsResponse.CreatableTopicConfigs
Wanted = m.CreateTopicsRequest.CreatableTopic
FROM_CONTROLLER = -1
TOPICS_PER_SLICE = 100
"""Topics that one slice checks; fewer if they have ``ENTRIES_PER_SLICE`` partitions together."""
STRICT_SINCE = 6
"""First version in which THROTTLING_QUOTA_EXCEEDED is known (KIP-599)."""


def refused(request: m.CreateTopicsRequest, code: ErrorCode, message: str | None) -> Response:
    """The response with the error for every topic, each name once."""
    names = dict.fromkeys(topic.name for topic in request.topics)
    return Response(topics=[_error(name, ApiError(code, message)) for name in names])


def touches(_image: Image, request: m.CreateTopicsRequest) -> Collection[object] | None:
    """The names, and those that collide with them."""
    if len(request.topics) > TOUCHED_MAX:
        return None
    return [collision_key(wanted.name) for wanted in request.topics]


@handles(m.CreateTopicsRequest, refused=refused, touches=touches)
def create_topics(
    image: Image, request: m.CreateTopicsRequest, ctx: Context
) -> Slices[Result[Response]]:
    """Create the valid topics; with validate_only only check."""
    counts = yield from listed(lambda topic: _count(topic, ctx), request.topics)
    if sum(counts) > BATCH_RECORDS_MAX:
        return Result(refused(request, ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS))
    twice = _given_twice([topic.name for topic in request.topics])
    answers: list[Answer] = []
    last: list[Answer] = []
    """Of topics that ControllerApis refuses: the controller's answers come first."""
    records: list[Record] = []
    creation = _Creation(image, ctx)
    any_topic = ctx.allowed(image, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    topics = partitions = 0
    for wanted, count in zip(request.topics, counts, strict=True):
        if topics >= TOPICS_PER_SLICE or partitions >= ENTRIES_PER_SLICE:
            topics = partitions = 0
            yield
        topics, partitions = topics + 1, partitions + count
        if wanted.name in twice:
            continue
        barred = _barred(image, wanted, ctx, any_topic=any_topic)
        if barred is not None:
            last.append(_error(wanted.name, barred))
            continue
        created = yield from _create(creation, wanted)
        if isinstance(created, ApiError):
            answers.append(_error(wanted.name, created))
        else:
            answer, its_records = created
            answers.append(answer)
            records.extend(its_records)
            if len(records) > BATCH_RECORDS_MAX and not request.validate_only:
                return Result(refused(request, ErrorCode.POLICY_VIOLATION, TOO_LARGE))
    duplicate = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    answers.extend(_error(name, duplicate) for name in twice)
    answers.extend(last)
    response = Response(topics=answers, throttle_time_ms=ctx.mutation_quota.throttle_ms)
    kept = () if request.validate_only else tuple(records)
    return Result(response, kept, spent=ctx.mutation_quota.spent)


def _given_twice(names: Sequence[str]) -> Collection[str]:
    """The names that stand there more than once, each once, in their order."""
    if len(set(names)) == len(names):
        return ()
    return dict.fromkeys(name for name, count in Counter(names).items() if count > 1)


def _barred(image: Image, wanted: Wanted, ctx: Context, *, any_topic: bool) -> ApiError | None:
    """Why a topic is refused before anything else is looked at; None: it is not."""
    if wanted.name == METADATA_TOPIC:
        text = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        return ApiError(ErrorCode.INVALID_REQUEST, text)
    if any_topic or _may_create(image, wanted, ctx):
        return None
    return ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")


def _may_create(image: Image, wanted: Wanted, ctx: Context) -> bool:
    return ctx.allowed(image, Operation.CREATE, ResourceType.TOPIC, wanted.name)


def _count(wanted: Wanted, ctx: Context) -> int:
    """Number of partitions a topic would have; 0 if the number is invalid."""
    if wanted.assignments:
        return len(wanted.assignments)
    if wanted.num_partitions == FROM_CONTROLLER:
        return ctx.config.num_partitions
    return max(wanted.num_partitions, 0)


class _Creation:
    """What the topics of one request have in common, found once."""

    def __init__(self, image: Image, ctx: Context) -> None:
        self.image = image
        self.ctx = ctx
        self.names: dict[str, str] = {}
        """Of the topics created so far, by collision key."""
        self.partitions = NewPartitions.of(image)
        self.configs = _in_force(image, ctx.config)
        """Those in force for a topic without its own."""


def _create(creation: _Creation, wanted: Wanted) -> Slices[tuple[Answer, list[Record]] | ApiError]:
    image, ctx = creation.image, creation.ctx
    error = _check_name(image, wanted.name, ctx, creation.names)
    if error is not None:
        return error
    configs = {config.name: config.value for config in wanted.configs}
    values = {name: value for name, value in configs.items() if value is not None}
    if len(values) < len(configs):
        nulls = ",".join(name for name, value in configs.items() if value is None)
        return ApiError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {nulls}"
        )
    try:
        validate_topic_configs(ctx.config, values)
    except ConfigRefusedError as refusal:
        return ApiError(ErrorCode.INVALID_CONFIG, str(refusal))
    topic_id = ctx.random_uuid()
    while topic_id in image.topics:
        topic_id = ctx.random_uuid()
    partitions = yield from (
        _manual(creation.partitions, wanted, topic_id)
        if wanted.assignments
        else _automatic(creation, wanted, topic_id)
    )
    if isinstance(partitions, ApiError):
        return partitions
    topic = r.TopicRecord(name=wanted.name, topic_id=topic_id)
    records: list[Record] = [topic]
    records.extend(
        r.ConfigRecord(resource_type=TOPIC, resource_name=wanted.name, name=name, value=value)
        for name, value in values.items()
    )
    records.extend(partitions)
    why = yield from Room(image, ctx).taking(records)
    if why is not None:
        return ApiError(ErrorCode.POLICY_VIOLATION, why)
    error = ctx.mutation_quota.take(len(partitions), strict=ctx.api_version >= STRICT_SINCE)
    if error is not None:
        return error
    creation.names[collision_key(wanted.name)] = wanted.name
    return _answer(creation, topic, values, partitions), records


def _check_name(
    image: Image, name: str, ctx: Context, new_names: Mapping[str, str]
) -> ApiError | None:
    why = name_error(name)
    if why is None:
        # Two names of one request can collide too: the later one is refused.
        other = ctx.index.colliding(name) or new_names.get(collision_key(name))
        if other is not None:
            why = f"Topic '{name}' collides with existing topic: {other}"
    if why is not None:
        return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
    if image.topic(name) is not None:
        return ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    return None


def _manual(
    new: NewPartitions, wanted: Wanted, topic_id: bytes
) -> Slices[list[r.PartitionRecord] | ApiError]:
    given = "A manual partition assignment was specified, but"
    if wanted.replication_factor != FROM_CONTROLLER:
        return ApiError(ErrorCode.INVALID_REQUEST, f"{given} replication factor was not set to -1.")
    if wanted.num_partitions != FROM_CONTROLLER:
        return ApiError(ErrorCode.INVALID_REQUEST, f"{given} numPartitions was not set to -1.")
    partitions: dict[int, r.PartitionRecord] = {}
    replication_factor: int | None = None
    accepted: Sequence[int] | None = None
    for number, assignment in enumerate(wanted.assignments, 1):
        if number % ENTRIES_PER_SLICE == 0:
            yield
        index, replicas = assignment.partition_index, assignment.broker_ids
        if index in partitions:
            text = f"Found multiple manual partition assignments for partition {index}"
            return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        if replicas != accepted:
            error = new.error(index, replicas, replication_factor)
            if error is not None:
                return error
            replication_factor, accepted = len(replicas), replicas
        record = new.record(topic_id, index, replicas)
        assert record is not None, "an accepted assignment has an active replica"
        partitions[index] = record
    if sorted(partitions) != list(range(len(partitions))):
        return ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return [partitions[index] for index in sorted(partitions)]


def _automatic(
    creation: _Creation, wanted: Wanted, topic_id: bytes
) -> Slices[list[r.PartitionRecord] | ApiError]:
    ctx, new = creation.ctx, creation.partitions
    if wanted.replication_factor < FROM_CONTROLLER or wanted.replication_factor == 0:
        return ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if wanted.num_partitions < FROM_CONTROLLER or wanted.num_partitions == 0:
        return ApiError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    count, factor = wanted.num_partitions, wanted.replication_factor
    count = ctx.config.num_partitions if count == FROM_CONTROLLER else count
    factor = ctx.config.default_replication_factor if factor == FROM_CONTROLLER else factor
    failed = f"Unable to replicate the partition {factor} time(s): "
    try:
        placed = yield from place(usable_brokers(creation.image, ctx), count, factor, ctx.rng)
    except PlacementError as refusal:
        return ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, f"{failed}{refusal}")
    partitions = []
    for index, replicas in enumerate(placed):
        if (index + 1) % ENTRIES_PER_SLICE == 0:
            yield
        record = new.record(topic_id, index, replicas)
        if record is None:
            text = f"{failed}All brokers are currently fenced or in controlled shutdown."
            return ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
        partitions.append(record)
    return partitions


def _answer(
    creation: _Creation,
    topic: r.TopicRecord,
    configs: Mapping[str, str],
    partitions: list[r.PartitionRecord],
) -> Answer:
    image, ctx = creation.image, creation.ctx
    if not ctx.allowed(image, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name):
        # The topic is created, but its configs and its size are not shown.
        return Answer(
            name=topic.name,
            topic_id=topic.topic_id,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
    return Answer(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=(
            [_entry(one) for one in effective_topic_configs(image, ctx.config, configs)]
            if configs
            else creation.configs
        ),
    )


_IN_FORCE: Final[list[tuple[object, ControllerConfig, Constant[Entry]]]] = []
"""The configs of the image of the last creation, those of the controller, and what follows."""


def _in_force(image: Image, config: ControllerConfig) -> Constant[Entry]:
    """The configs of a topic without its own: known, as long as no config of anything changes."""
    known = _IN_FORCE[0] if _IN_FORCE else None
    if known is None or known[0] is not image.configs or known[1] is not config:
        known = (image.configs, config, _inherited(TopicConfigSources.of(image, config)))
        _IN_FORCE[:] = [known]
    return known[2]


@lru_cache(maxsize=8)
def _inherited(sources: TopicConfigSources) -> Constant[Entry]:
    """Encoded once, as long as these are in force."""
    return Constant(_entry(one) for one in inherited_topic_configs(sources))


def _entry(config: Effective) -> Entry:
    return Entry(
        name=config.name,
        value=config.value,
        read_only=False,
        config_source=config.source,
        is_sensitive=False,
    )


def _error(name: str, error: ApiError) -> Answer:
    return Answer(name=name, error_code=error.code, error_message=error.message)
