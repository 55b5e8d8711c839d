"""DeleteTopics (20): remove topics by name or, from v6, by id. KIP-4, KIP-516 (v6).

Kafka: ControllerApis.deleteTopics, ReplicationControlManager.deleteTopic (3.9).

TOPIC_DELETION_DISABLED (v3+) or INVALID_REQUEST for everything when delete.topic.enable is off.
Per entry: INVALID_REQUEST for a name and an id together, for neither, for one given twice (once
per name or id) and for a topic given by name and by id, which is not deleted;
UNKNOWN_TOPIC_OR_PARTITION for a name, UNKNOWN_TOPIC_ID for an id; TOPIC_AUTHORIZATION_FAILED
without DELETE on CLUSTER or the topic, and without DESCRIBE also for a name that does not exist;
THROTTLING_QUOTA_EXCEEDED (v5+, KIP-599).
One RemoveTopic record per topic; it also removes the topic's configs.
"""

from __future__ import annotations

from collections import Counter

from emulator.controller.context import CLUSTER_NAME, Context
from emulator.controller.registry import handles
from emulator.controller.result import ApiError, Record, Result
from emulator.controller.topics import TOPIC_DENIED
from emulator.metadata.acls import Operation, ResourceType
from emulator.metadata.image import Image
from emulator.metadata.topics import Topic
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode
from wire.schema import ZERO_UUID

Response = m.DeleteTopicsResponse
Answer = m.DeleteTopicsResponse.DeletableTopicResult
DISABLED_SINCE = 3
STRICT_SINCE = 5
"""First version in which THROTTLING_QUOTA_EXCEEDED is known (KIP-599)."""
NO_SUCH_TOPIC = "This server does not host this topic-partition."
NO_SUCH_ID = "This server does not host this topic ID."


def refused(request: m.DeleteTopicsRequest, code: ErrorCode, message: str | None) -> Response:
    """The response with the error for every name and id."""
    error = ApiError(code, message)
    return Response(
        responses=[
            *(_answer(name, ZERO_UUID, error) for name in request.topic_names),
            *(_answer(topic.name, topic.topic_id, error) for topic in request.topics),
        ]
    )


@handles(m.DeleteTopicsRequest, refused=refused)
def delete_topics(image: Image, request: m.DeleteTopicsRequest, ctx: Context) -> Result[Response]:
    """Remove the topics that exist; every other entry gets its own error."""
    if not ctx.config.delete_topic_enable:
        text = "Topic deletion is disabled."
        if ctx.api_version < DISABLED_SINCE:
            return Result(refused(request, ErrorCode.INVALID_REQUEST, text))
        return Result(refused(request, ErrorCode.TOPIC_DELETION_DISABLED, text))
    answers, names, ids = _sorted_out(request)
    records: list[Record] = []
    any_topic = ctx.allowed(image, Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME)
    named = {image.topic_ids[name] for name in names if name in image.topic_ids}
    for topic_id, count in ids.items():
        topic = image.topics.get(topic_id)
        if count > 1:
            continue
        if topic is None:
            error = ApiError(ErrorCode.UNKNOWN_TOPIC_ID, NO_SUCH_ID)
            answers.append(_answer(None, topic_id, error))
        elif not (any_topic or _may(image, Operation.DELETE, topic.name, ctx)):
            # A caller without DESCRIBE must not learn the topic's name from its id.
            told = topic.name if _may(image, Operation.DESCRIBE, topic.name, ctx) else None
            answers.append(_answer(told, topic_id, TOPIC_DENIED))
        elif topic_id not in named:
            answers.append(_answer(topic.name, topic_id, _delete(topic, ctx, records)))
    for name in names:
        topic = image.topic(name)
        if not (any_topic or _may(image, Operation.DESCRIBE, name, ctx)):
            answers.append(_answer(name, ZERO_UUID, TOPIC_DENIED))
        elif topic is None:
            error = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_SUCH_TOPIC)
            answers.append(_answer(name, ZERO_UUID, error))
        elif not (any_topic or _may(image, Operation.DELETE, name, ctx)):
            answers.append(_answer(name, ZERO_UUID, TOPIC_DENIED))
        elif topic.id in ids:
            text = "The provided topic name maps to an ID that was already supplied."
            answers.append(_answer(name, topic.id, ApiError(ErrorCode.INVALID_REQUEST, text)))
        else:
            answers.append(_answer(name, topic.id, _delete(topic, ctx, records)))
    response = Response(responses=answers, throttle_time_ms=ctx.mutation_quota.throttle_ms)
    return Result(response, tuple(records), spent=ctx.mutation_quota.spent)


def _delete(topic: Topic, ctx: Context, records: list[Record]) -> ApiError:
    """Add the record that removes the topic, unless the quota throttles the caller."""
    count = len(topic.partitions)
    error = ctx.mutation_quota.take(count, strict=ctx.api_version >= STRICT_SINCE)
    if error is None:
        records.append(r.RemoveTopicRecord(topic_id=topic.id))
    return error or ApiError(ErrorCode.NONE)


def _may(image: Image, operation: Operation, name: str, ctx: Context) -> bool:
    return ctx.allowed(image, operation, ResourceType.TOPIC, name)


def _sorted_out(
    request: m.DeleteTopicsRequest,
) -> tuple[list[Answer], list[str], Counter[bytes]]:
    """(answers to malformed entries, names to delete, count of each id given)."""
    answers: list[Answer] = []
    names: Counter[str] = Counter(request.topic_names)
    ids: Counter[bytes] = Counter()
    for topic in request.topics:
        if topic.name is None and topic.topic_id == ZERO_UUID:
            text = "Neither topic name nor id were specified."
            answers.append(_answer(None, ZERO_UUID, ApiError(ErrorCode.INVALID_REQUEST, text)))
        elif topic.name is None:
            ids[topic.topic_id] += 1
        elif topic.topic_id == ZERO_UUID:
            names[topic.name] += 1
        else:
            text = "You may not specify both topic name and topic id."
            error = ApiError(ErrorCode.INVALID_REQUEST, text)
            answers.append(_answer(topic.name, topic.topic_id, error))
    for name, count in names.items():
        if count > 1:
            error = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            answers.append(_answer(name, ZERO_UUID, error))
    for topic_id, count in ids.items():
        if count > 1:
            error = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
            answers.append(_answer(None, topic_id, error))
    return answers, [name for name, count in names.items() if count == 1], ids


def _answer(name: str | None, topic_id: bytes, error: ApiError) -> Answer:
    return Answer(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)
