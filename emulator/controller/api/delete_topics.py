"""DeleteTopics (20): remove topics by name or, from v6, by id. KIP-4, KIP-516 (v6).

Kafka: ControllerApis.deleteTopics, ReplicationControlManager.deleteTopic (3.9).

TOPIC_DELETION_DISABLED (v3+) or INVALID_REQUEST for everything when delete.topic.enable is off.
Per entry: INVALID_REQUEST for a name and an id together, for neither, for one given twice (once
per name or id) and for a name whose id was given too; UNKNOWN_TOPIC_OR_PARTITION for a name,
UNKNOWN_TOPIC_ID for an id. Needs DELETE on the topic. One RemoveTopic record; configs go with it.
"""

from __future__ import annotations

from collections import Counter

from emulator.controller.context import Context
from emulator.controller.registry import handles
from emulator.controller.result import ApiError, Record, Result
from emulator.metadata.image import Image
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode
from wire.schema import ZERO_UUID

Response = m.DeleteTopicsResponse
Answer = m.DeleteTopicsResponse.DeletableTopicResult
DISABLED_SINCE = 3
NO_SUCH_TOPIC = "This server does not host this topic-partition."
NO_SUCH_ID = "This server does not host this topic ID."


def refused(request: m.DeleteTopicsRequest, code: ErrorCode, message: str | None) -> Response:
    """Every name and id with the error."""
    error = ApiError(code, message)
    return Response(
        responses=[
            *(_answer(name, ZERO_UUID, error) for name in request.topic_names),
            *(_answer(topic.name, topic.topic_id, error) for topic in request.topics),
        ]
    )


@handles(m.DeleteTopicsRequest, refused=refused)
def delete_topics(image: Image, request: m.DeleteTopicsRequest, ctx: Context) -> Result[Response]:
    """Remove what exists; the rest is answered one by one."""
    if not ctx.config.delete_topic_enable:
        text = "Topic deletion is disabled."
        if ctx.api_version < DISABLED_SINCE:
            return Result(refused(request, ErrorCode.INVALID_REQUEST, text))
        return Result(refused(request, ErrorCode.TOPIC_DELETION_DISABLED, text))
    answers, names, ids = _sorted_out(request)
    records: list[Record] = []
    for topic_id in ids:
        topic = image.topics.get(topic_id)
        if topic is None:
            error = ApiError(ErrorCode.UNKNOWN_TOPIC_ID, NO_SUCH_ID)
            answers.append(_answer(None, topic_id, error))
        else:
            answers.append(_answer(topic.name, topic_id, ApiError(ErrorCode.NONE)))
            records.append(r.RemoveTopicRecord(topic_id=topic_id))
    for name in names:
        topic = image.topic(name)
        if topic is None:
            error = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_SUCH_TOPIC)
            answers.append(_answer(name, ZERO_UUID, error))
        elif topic.id in ids:
            text = "The provided topic name maps to an ID that was already supplied."
            answers.append(_answer(name, topic.id, ApiError(ErrorCode.INVALID_REQUEST, text)))
        else:
            answers.append(_answer(name, topic.id, ApiError(ErrorCode.NONE)))
            records.append(r.RemoveTopicRecord(topic_id=topic.id))
    return Result(Response(responses=answers), tuple(records))


def _sorted_out(
    request: m.DeleteTopicsRequest,
) -> tuple[list[Answer], list[str], list[bytes]]:
    """(answers to malformed entries, names to delete, ids to delete)."""
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
    return (
        answers,
        [name for name, count in names.items() if count == 1],
        [topic_id for topic_id, count in ids.items() if count == 1],
    )


def _answer(name: str | None, topic_id: bytes, error: ApiError) -> Answer:
    return Answer(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)
