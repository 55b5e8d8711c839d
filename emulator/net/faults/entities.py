"""Requests that are answered entity by entity: which part is about a topic, and its error.

A request is divided into what a fault strikes and the rest. The rest is executed; its answer gets
the errors of what was struck. So an errored part has no effect, and the answer says what is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from wire import messages as m
from wire.errors import ErrorCode
from wire.schema import ZERO_UUID, replace
from wire.text import uuid_text

TOPIC_RESOURCE: Final = 2
"""Kafka's ConfigResource.Type of a topic."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Partitions below a topic.

    ``asked``: field of the list in the request; ``number``: field of the index, "" if the list
    holds plain numbers; ``answered`` and ``answered_number`` the same in the response; ``kind``:
    class of an entry there.
    """

    asked: str
    number: str
    answered: str
    answered_number: str
    kind: type


@dataclass(frozen=True, slots=True)
class Entities:
    """One API.

    ``asked``: field of the list in the request; ``answered``: in the response; ``kind``: class of
    an entry there; ``copied``: fields of an entry of the request that identify it, and their names
    in the response; ``names``: the texts that name an entry; ``parts``: its partitions, if errors
    are reported for each of them.
    """

    response: type
    asked: str
    answered: str
    kind: type
    copied: tuple[tuple[str, str], ...]
    names: Callable[[Any], Iterable[str | None]]
    parts: Parts | None = None
    alone_from: int | None = None
    """The version from which a request for no entity asks for what else its response holds."""


def _names(*fields: str) -> Callable[[Any], Iterable[str | None]]:
    def named(entry: Any) -> Iterable[str | None]:
        for field in fields:
            value = getattr(entry, field)
            if isinstance(value, bytes):
                yield uuid_text(value) if value != ZERO_UUID else None
            else:
                yield value or None

    return named


def _of_topic(entry: Any) -> Iterable[str | None]:
    """The name of a resource that is a topic."""
    yield entry.resource_name if entry.resource_type == TOPIC_RESOURCE else None


_RESOURCE: Final = (("resource_type", "resource_type"), ("resource_name", "resource_name"))
_NAME: Final = (("name", "name"),)

ENTITIES: Final = MappingProxyType(
    {
        0: Entities(
            m.ProduceResponse,
            *("topic_data", "responses", m.ProduceResponse.TopicProduceResponse),
            *(_NAME, _names("name")),
            Parts(
                *("partition_data", "index", "partition_responses", "index"),
                m.ProduceResponse.PartitionProduceResponse,
            ),
        ),
        2: Entities(
            m.ListOffsetsResponse,
            *("topics", "topics", m.ListOffsetsResponse.ListOffsetsTopicResponse),
            *(_NAME, _names("name")),
            Parts(
                *("partitions", "partition_index", "partitions", "partition_index"),
                m.ListOffsetsResponse.ListOffsetsPartitionResponse,
            ),
        ),
        3: Entities(
            m.MetadataResponse,
            *("topics", "topics", m.MetadataResponse.MetadataResponseTopic),
            (*_NAME, ("topic_id", "topic_id")),
            _names("name", "topic_id"),
            alone_from=1,
        ),
        19: Entities(
            m.CreateTopicsResponse,
            *("topics", "topics", m.CreateTopicsResponse.CreatableTopicResult),
            *(_NAME, _names("name")),
        ),
        20: Entities(
            m.DeleteTopicsResponse,
            *("topics", "responses", m.DeleteTopicsResponse.DeletableTopicResult),
            (*_NAME, ("topic_id", "topic_id")),
            _names("name", "topic_id"),
        ),
        32: Entities(
            m.DescribeConfigsResponse,
            *("resources", "results", m.DescribeConfigsResponse.DescribeConfigsResult),
            *(_RESOURCE, _of_topic),
        ),
        33: Entities(
            m.AlterConfigsResponse,
            *("resources", "responses", m.AlterConfigsResponse.AlterConfigsResourceResponse),
            *(_RESOURCE, _of_topic),
        ),
        37: Entities(
            m.CreatePartitionsResponse,
            *("topics", "results", m.CreatePartitionsResponse.CreatePartitionsTopicResult),
            *(_NAME, _names("name")),
        ),
        43: Entities(
            m.ElectLeadersResponse,
            *("topic_partitions", "replica_election_results"),
            m.ElectLeadersResponse.ReplicaElectionResult,
            (("topic", "topic"),),
            _names("topic"),
            Parts(
                *("partitions", "", "partition_result", "partition_id"),
                m.ElectLeadersResponse.PartitionResult,
            ),
        ),
        44: Entities(
            m.IncrementalAlterConfigsResponse,
            *("resources", "responses"),
            m.IncrementalAlterConfigsResponse.AlterConfigsResourceResponse,
            *(_RESOURCE, _of_topic),
        ),
        45: Entities(
            m.AlterPartitionReassignmentsResponse,
            *("topics", "responses"),
            m.AlterPartitionReassignmentsResponse.ReassignableTopicResponse,
            *(_NAME, _names("name")),
            Parts(
                *("partitions", "partition_index", "partitions", "partition_index"),
                m.AlterPartitionReassignmentsResponse.ReassignablePartitionResponse,
            ),
        ),
        56: Entities(
            m.AlterPartitionResponse,
            *("topics", "topics", m.AlterPartitionResponse.TopicData),
            (("topic_name", "topic_name"), ("topic_id", "topic_id")),
            _names("topic_name", "topic_id"),
            Parts(
                *("partitions", "partition_index", "partitions", "partition_index"),
                m.AlterPartitionResponse.PartitionData,
            ),
        ),
    }
)
"""By API key. A request for all topics (a null list) names none of them."""


@dataclass(frozen=True, slots=True)
class Divided:
    """A request in two parts.

    ``rest``: the request without what is struck; ``left``: whether it asks for anything;
    ``errors``: entries of its response for what is struck.
    """

    shape: Entities
    rest: Any
    left: bool
    errors: list[Any]

    def alone(self) -> Any:
        """The response when nothing was executed."""
        return self.shape.response(**{self.shape.answered: self.errors})

    def merged(self, answer: Any) -> Any:
        """The response to the rest, with the errors; unchanged if all of it was refused."""
        shape = self.shape
        if getattr(answer, "error_code", 0):
            return answer
        entries = list(getattr(answer, shape.answered))
        for error in self.errors:
            same = None
            if shape.parts is not None:
                same = next((i for i, e in enumerate(entries) if _same(shape, e, error)), None)
            if same is None or shape.parts is None:
                entries.append(error)
            else:
                listed = shape.parts.answered
                both = [*getattr(entries[same], listed), *getattr(error, listed)]
                entries[same] = replace(entries[same], **{listed: both})
        return replace(answer, **{shape.answered: entries})


@dataclass(frozen=True, slots=True)
class Aim:
    """What is struck, and its error.

    ``chosen``: whether the name or id of a topic is; ``partition``: only this one, None for all of
    the topic; ``text``: the message beside the error, where the response has a place for one.
    """

    chosen: Callable[[str], bool]
    partition: int | None
    code: ErrorCode
    text: str | None


def divide(key: int, version: int, request: Any, aim: Aim) -> Divided | None:
    """Divide a request of an API in :data:`ENTITIES`; None if nothing of it is struck."""
    shape = ENTITIES[key]
    kept: list[Any] = []
    errors: list[Any] = []
    entries = _entries(key, request)
    for entry in entries or ():
        if not any(name is not None and aim.chosen(name) for name in shape.names(entry)):
            kept.append(entry)
            continue
        identity = {answered: getattr(entry, asked) for asked, answered in shape.copied}
        if shape.parts is None:
            errors.append(_error(shape.kind, identity, aim))
            continue
        struck, left = _parts(shape.parts, entry, aim.partition)
        if struck:
            listed = [
                _error(shape.parts.kind, {shape.parts.answered_number: number}, aim)
                for number in struck
            ]
            errors.append(shape.kind(**identity, **{shape.parts.answered: listed}))
        if left or not struck:
            kept.append(replace(entry, **{shape.parts.asked: left}))
    if not errors:
        return None
    asks_more = shape.alone_from is not None and version >= shape.alone_from
    return Divided(shape, _with(key, request, kept), bool(kept) or asks_more, errors)


def _entries(key: int, request: Any) -> Sequence[Any] | None:
    if key == 20 and request.topic_names:
        state = m.DeleteTopicsRequest.DeleteTopicState
        return [state(name=name) for name in request.topic_names]
    entries: Sequence[Any] | None = getattr(request, ENTITIES[key].asked)
    return entries


def _with(key: int, request: Any, kept: list[Any]) -> Any:
    if key == 20 and request.topic_names:
        return replace(request, topic_names=tuple(entry.name for entry in kept))
    return replace(request, **{ENTITIES[key].asked: kept})


def _parts(parts: Parts, entry: Any, partition: int | None) -> tuple[list[int], list[Any]]:
    """Numbers of the partitions that are struck, and the entries of the others."""
    struck, left = [], []
    for one in getattr(entry, parts.asked):
        number = getattr(one, parts.number) if parts.number else one
        if partition is None or number == partition:
            struck.append(number)
        else:
            left.append(one)
    return struck, left


def _error(kind: type, identity: dict[str, Any], aim: Aim) -> Any:
    fields = {**identity, "error_code": aim.code}
    if "error_message" in kind.__struct_fields__:  # type: ignore[attr-defined]  # msgspec: every message is a struct
        fields["error_message"] = aim.text
    return kind(**fields)


def _same(shape: Entities, one: Any, other: Any) -> bool:
    return all(getattr(one, name) == getattr(other, name) for _, name in shape.copied)
