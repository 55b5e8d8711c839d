"""CreatePartitions (37): more partitions for existing topics. KIP-195.

Kafka: ControllerApis.createPartitions, ReplicationControlManager.createPartitions (3.9).

POLICY_VIOLATION for more than 10,000 new partitions in all.
Per topic, in order: INVALID_REQUEST for a name given twice; TOPIC_AUTHORIZATION_FAILED without
ALTER on the topic; UNKNOWN_TOPIC_OR_PARTITION; INVALID_PARTITIONS unless the count grows;
INVALID_PARTITIONS if the topic's partition ids are not 0 to n - 1 (Kafka then fails with
UNKNOWN_SERVER_ERROR, or writes a new partition over an old one);
THROTTLING_QUOTA_EXCEEDED (v3+, KIP-599); INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR;
POLICY_VIOLATION if the topic would not fit into its znode (``storable``).
New partitions have the replication factor of partition 0; in Kafka, of the first of a hash table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from operator import attrgetter

from emulator.controller.context import Context
from emulator.controller.queue.batches import BATCH_RECORDS_MAX, TOO_MANY_PARTITIONS
from emulator.controller.registry import handles
from emulator.controller.result import ApiError, Record, Result
from emulator.controller.rules.placement import PlacementError, place, usable_brokers
from emulator.controller.rules.storable import Room
from emulator.controller.rules.topics import NewPartitions, whole_topics
from emulator.metadata.acls import Operation, ResourceType
from emulator.metadata.image import Image
from emulator.metadata.topics import Topic, first_gap
from emulator.seam import ENTRIES_PER_SLICE, Slices, listed
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

Response = m.CreatePartitionsResponse
Answer = m.CreatePartitionsResponse.CreatePartitionsTopicResult
Wanted = m.CreatePartitionsRequest.CreatePartitionsTopic
Assignment = m.CreatePartitionsRequest.CreatePartitionsAssignment
STRICT_SINCE = 3
"""First version in which THROTTLING_QUOTA_EXCEEDED is known (KIP-599)."""


def refused(request: m.CreatePartitionsRequest, code: ErrorCode, message: str | None) -> Response:
    """The response with the error for every topic, each name once."""
    names = dict.fromkeys(topic.name for topic in request.topics)
    return Response(
        results=[Answer(name=name, error_code=code, error_message=message) for name in names]
    )


def touches(image: Image, request: m.CreatePartitionsRequest) -> Collection[object] | None:
    """The topics."""
    return whole_topics(image, [wanted.name for wanted in request.topics])


@handles(m.CreatePartitionsRequest, refused=refused, touches=touches)
def create_partitions(
    image: Image, request: m.CreatePartitionsRequest, ctx: Context
) -> Slices[Result[Response]]:
    """Add partitions to the valid topics; with validate_only only check."""
    added = yield from listed(lambda topic: _added(image, topic), request.topics)
    if sum(added) > BATCH_RECORDS_MAX:
        return Result(refused(request, ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS))
    times = Counter(map(attrgetter("name"), request.topics))
    many = [name for name, count in times.items() if count > 1]
    answers = yield from listed(_named_twice, many)
    records: list[Record] = []
    room = Room(image, ctx)
    entries = 0
    for wanted, more in zip(request.topics, added, strict=True):
        if entries >= ENTRIES_PER_SLICE:
            entries = 0
            yield
        entries += 1 + more
        if times[wanted.name] > 1:
            continue
        if not ctx.allowed(image, Operation.ALTER, ResourceType.TOPIC, wanted.name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            answers.append(Answer(name=wanted.name, error_code=code))
            continue
        grown = yield from _grow(image, wanted, ctx, room)
        if isinstance(grown, ApiError):
            answers.append(
                Answer(name=wanted.name, error_code=grown.code, error_message=grown.message)
            )
        else:
            answers.append(Answer(name=wanted.name))
            records.extend(grown)
    response = Response(results=answers, throttle_time_ms=ctx.mutation_quota.throttle_ms)
    kept = () if request.validate_only else tuple(records)
    return Result(response, kept, spent=ctx.mutation_quota.spent)


def _named_twice(name: str) -> Answer:
    text = "Duplicate topic name."
    return Answer(name=name, error_code=ErrorCode.INVALID_REQUEST, error_message=text)


def _added(image: Image, wanted: Wanted) -> int:
    topic = image.topic(wanted.name)
    return 0 if topic is None else max(wanted.count - len(topic.partitions), 0)


def _grow(
    image: Image, wanted: Wanted, ctx: Context, room: Room
) -> Slices[list[r.PartitionRecord] | ApiError]:
    topic = image.topic(wanted.name)
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    have = len(topic.partitions)
    if wanted.count == have:
        text = f"Topic already has {have} partition(s)."
        return ApiError(ErrorCode.INVALID_PARTITIONS, text)
    if wanted.count < have:
        text = (
            f"The topic {topic.name} currently has {have} partition(s); "
            f"{wanted.count} would not be an increase."
        )
        return ApiError(ErrorCode.INVALID_PARTITIONS, text)
    missing = first_gap(topic.partitions)
    if missing is not None:
        text = (
            f"The topic {topic.name} has {have} partition(s), but none with id {missing}: it "
            "cannot grow."
        )
        return ApiError(ErrorCode.INVALID_PARTITIONS, text)
    added = wanted.count - have
    if wanted.assignments is not None and len(wanted.assignments) != added:
        text = (
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(wanted.assignments)} assignment(s) were specified."
        )
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    error = ctx.mutation_quota.take(added, strict=ctx.api_version >= STRICT_SINCE)
    if error is not None:
        return error
    if wanted.assignments is None:
        partitions = yield from _automatic(image, topic, added, ctx)
    else:
        partitions = yield from _manual(image, topic, wanted.assignments)
    if isinstance(partitions, ApiError):
        return partitions
    why = yield from room.taking([*partitions])
    return partitions if why is None else ApiError(ErrorCode.POLICY_VIOLATION, why)


def _manual(
    image: Image, topic: Topic, assignments: list[Assignment]
) -> Slices[list[r.PartitionRecord] | ApiError]:
    new = NewPartitions.of(image)
    partitions = []
    for index, assignment in enumerate(assignments, len(topic.partitions)):
        if (index + 1) % ENTRIES_PER_SLICE == 0:
            yield
        error = new.error(index, assignment.broker_ids, _replication_factor(topic))
        if error is not None:
            return error
        record = new.record(topic.id, index, assignment.broker_ids)
        assert record is not None, "an accepted assignment has an active replica"
        partitions.append(record)
    return partitions


def _automatic(
    image: Image, topic: Topic, count: int, ctx: Context
) -> Slices[list[r.PartitionRecord] | ApiError]:
    factor = _replication_factor(topic)
    failed = f"Unable to replicate the partition {factor} time(s): "
    try:
        placed = yield from place(usable_brokers(image, ctx), count, factor, ctx.rng)
    except PlacementError as refusal:
        return ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, f"{failed}{refusal}")
    new = NewPartitions.of(image)
    partitions = []
    for index, replicas in enumerate(placed, len(topic.partitions)):
        if (index + 1) % ENTRIES_PER_SLICE == 0:
            yield
        record = new.record(topic.id, index, replicas)
        if record is None:
            text = f"{failed}All brokers are currently fenced or in controlled shutdown."
            return ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
        partitions.append(record)
    return partitions


def _replication_factor(topic: Topic) -> int:
    return len(topic.partitions[0].replicas)
