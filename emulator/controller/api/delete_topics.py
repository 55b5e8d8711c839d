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
from collections.abc import Collection, Container, Sequence

from emulator.controller.context import CLUSTER_NAME, Context
from emulator.controller.registry import TOUCHED_MAX, handles
from emulator.controller.result import ApiError, Record, Result
from emulator.controller.rules.topics import TOPIC_DENIED, whole_topics
from emulator.metadata.acls import Operation, ResourceType
from emulator.metadata.image import Image
from emulator.metadata.topics import Topic
from emulator.seam import ENTRIES_PER_SLICE, Pace, Slices
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


def touches(image: Image, request: m.DeleteTopicsRequest) -> Collection[object] | None:
    """The topics; an id without a topic is nobody's in this step."""
    names = [*request.topic_names]
    if len(names) + len(request.topics) > TOUCHED_MAX:
        return None
    for asked in request.topics:
        topic = image.topics.get(asked.topic_id)
        if asked.name is not None:
            names.append(asked.name)
        if topic is not None:
            names.append(topic.name)
    return whole_topics(image, names)


@handles(m.DeleteTopicsRequest, refused=refused, touches=touches)
def delete_topics(
    image: Image, request: m.DeleteTopicsRequest, ctx: Context
) -> Slices[Result[Response]]:
    """Remove the topics that exist; every other entry gets its own error."""
    if not ctx.config.delete_topic_enable:
        text = "Topic deletion is disabled."
        if ctx.api_version < DISABLED_SINCE:
            return Result(refused(request, ErrorCode.INVALID_REQUEST, text))
        return Result(refused(request, ErrorCode.TOPIC_DELETION_DISABLED, text))
    answers, names, ids = yield from _sorted_out(request)
    deletion = _Deletion(image, ctx, names, ids)
    for number, (topic_id, count) in enumerate(ids.items(), 1):
        if number % ENTRIES_PER_SLICE == 0:
            yield
        if count == 1:
            answers += deletion.by_id(topic_id)
    for number, name in enumerate(names, 1):
        if number % ENTRIES_PER_SLICE == 0:
            yield
        answers.append(deletion.by_name(name))
    response = Response(responses=answers, throttle_time_ms=ctx.mutation_quota.throttle_ms)
    return Result(response, tuple(deletion.records), spent=ctx.mutation_quota.spent)


class _Deletion:
    """One request: ``names`` and ``ids`` are what it names; ``records`` remove topics."""

    def __init__(
        self, image: Image, ctx: Context, names: Sequence[str], ids: Container[bytes]
    ) -> None:
        self.records: list[Record] = []
        self._image = image
        self._ctx = ctx
        self._ids = ids
        self._named = {image.topic_ids[name] for name in names if name in image.topic_ids}
        self._any_topic = ctx.allowed(image, Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME)

    def by_id(self, topic_id: bytes) -> list[Answer]:
        """Remove a topic that is given by its id, unless its name is given too."""
        image, ctx = self._image, self._ctx
        topic = image.topics.get(topic_id)
        if topic is None:
            error = ApiError(ErrorCode.UNKNOWN_TOPIC_ID, NO_SUCH_ID)
            return [_answer(None, topic_id, error)]
        if not (self._any_topic or _may(image, Operation.DELETE, topic.name, ctx)):
            # A caller without DESCRIBE must not learn the topic's name from its id.
            told = topic.name if _may(image, Operation.DESCRIBE, topic.name, ctx) else None
            return [_answer(told, topic_id, TOPIC_DENIED)]
        if topic_id in self._named:
            return []
        return [_answer(topic.name, topic_id, self._delete(topic))]

    def by_name(self, name: str) -> Answer:
        """Remove a topic that is given by its name."""
        image, ctx = self._image, self._ctx
        topic = image.topic(name)
        if not (self._any_topic or _may(image, Operation.DESCRIBE, name, ctx)):
            return _answer(name, ZERO_UUID, TOPIC_DENIED)
        if topic is None:
            error = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_SUCH_TOPIC)
            return _answer(name, ZERO_UUID, error)
        if not (self._any_topic or _may(image, Operation.DELETE, name, ctx)):
            return _answer(name, ZERO_UUID, TOPIC_DENIED)
        if topic.id in self._ids:
            text = "The provided topic name maps to an ID that was already supplied."
            return _answer(name, topic.id, ApiError(ErrorCode.INVALID_REQUEST, text))
        return _answer(name, topic.id, self._delete(topic))

    def _delete(self, topic: Topic) -> ApiError:
        """Add the record that removes the topic, unless the quota throttles the caller."""
        count = len(topic.partitions)
        strict = self._ctx.api_version >= STRICT_SINCE
        error = self._ctx.mutation_quota.take(count, strict=strict)
        if error is None:
            self.records.append(r.RemoveTopicRecord(topic_id=topic.id))
        return error or ApiError(ErrorCode.NONE)


def _may(image: Image, operation: Operation, name: str, ctx: Context) -> bool:
    return ctx.allowed(image, operation, ResourceType.TOPIC, name)


def _sorted_out(
    request: m.DeleteTopicsRequest,
) -> Slices[tuple[list[Answer], list[str], Counter[bytes]]]:
    """(answers to malformed entries, names to delete, count of each id given)."""
    answers: list[Answer] = []
    names: Counter[str] = Counter(request.topic_names)
    ids: Counter[bytes] = Counter()
    pace = Pace()
    for topic in request.topics:
        if pace.over():
            yield
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
    if pace.over(len(names)):
        yield
    for name in [name for name, count in names.items() if count > 1]:
        error = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        answers.append(_answer(name, ZERO_UUID, error))
    if pace.over(len(ids)):
        yield
    for topic_id in [topic_id for topic_id, count in ids.items() if count > 1]:
        error = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
        answers.append(_answer(None, topic_id, error))
    return answers, [name for name, count in names.items() if count == 1], ids


def _answer(name: str | None, topic_id: bytes, error: ApiError) -> Answer:
    return Answer(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)
