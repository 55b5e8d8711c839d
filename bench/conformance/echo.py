"""What an answer may hold, given its request, whatever the API: names, entries, values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from bench.conformance.case import Violation, printed
from wire.schema import ZERO_UUID

_TOPIC: Final = ("name", "topic", "topic_name")
_PARTITION: Final = ("partition_index", "partition", "index", "partition_id")
_OWNERS: Final = ("group_id", "transactional_id")
_SAYS: Final = {"error_message", "throttle_time_ms", "unknown_tags", "current_leader"}
"""What a refusal may say: why, and who leads."""
_NO_VALUE: Final[Mapping[str, int]] = {
    "base_offset": -1,
    "high_watermark": -1,
    "low_watermark": -1,
    "committed_offset": -1,
    "node_id": -1,
    "port": -1,
}
"""What Kafka writes for no value, where the schema's default is 0.

Source: ProduceResponse.INVALID_OFFSET, FetchResponse.INVALID_HIGH_WATERMARK,
DeleteRecordsResponse.INVALID_LOW_WATERMARK, OffsetFetchResponse.INVALID_OFFSET, Node.noNode.
"""


class Named(NamedTuple):
    """A partition. ``topic`` is empty, or ``topic_id`` zeros, where a version has the other."""

    topic: str
    topic_id: bytes
    partition: int

    def means(self, other: Named) -> bool:
        """Whether two are the same; one without name and id may be any."""
        if self.partition != other.partition:
            return False
        if self.topic:
            return self.topic == other.topic
        return self.topic_id in {ZERO_UUID, other.topic_id}


def partitions(message: Any) -> Iterator[Named]:
    """Each partition of a topic in a message, in order."""
    topic = next((getattr(message, one) for one in _TOPIC if hasattr(message, one)), None)
    topic_id = getattr(message, "topic_id", ZERO_UUID)
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if isinstance(value, msgspec.Struct):
            yield from partitions(value)
        elif isinstance(value, list | tuple):
            for one in value:
                index = next((getattr(one, name) for name in _PARTITION if hasattr(one, name)), one)
                if isinstance(index, int) and (topic is not None or topic_id != ZERO_UUID):
                    yield Named(topic or "", topic_id, index)
                elif isinstance(one, msgspec.Struct):
                    yield from partitions(one)


def _structs(message: Any) -> Iterator[Any]:
    """A message and each struct in it."""
    yield message
    for name in message.__struct_fields__:
        value = getattr(message, name)
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, msgspec.Struct):
                yield from _structs(one)


def _values(message: Any) -> Iterator[tuple[str, Any]]:
    """Name and value of each number, text and bytes in a message; those of lists one by one."""
    for owner in _structs(message):
        for name in owner.__struct_fields__:
            value = getattr(owner, name)
            for one in value if isinstance(value, list | tuple) else (value,):
                if isinstance(one, int | float | str | bytes):
                    yield name, one


def strangers(request: Any, answer: Any) -> None:
    """Demand that an answer names no partition, group or transactional id that was not asked for.

    A request that names none may ask for all.

    Raises:
        Violation: it does.
    """
    asked = [*partitions(request)]
    for one in partitions(answer) if asked else ():
        if not any(one.means(each) for each in asked):
            named = printed([each[::2] for each in asked])
            raise Violation("partitions of the answer", f"of {named}", printed(one))
    for owner in _OWNERS:
        kind = owner.removesuffix("_id")
        # A static member's group_instance_id names no group.
        fields = [each for each in _values(request) if "instance" not in each[0]]
        names = {value for name, value in fields if kind in name and value}
        told = {value for name, value in _values(answer) if name == owner and value}
        if names and not told <= names:
            raise Violation(f"{owner} of the answer", f"of {printed(names)}", printed(told))


def once(request: Any, answer: Any) -> None:
    """Demand that no list of an answer has a name twice, but as often as the request has it.

    Raises:
        Violation: one has.
    """
    asked = Counter(_texts(request))
    for owner in _structs(answer):
        for name in owner.__struct_fields__:
            value = getattr(owner, name)
            entries = value if isinstance(value, list | tuple) else ()
            named = [one for one in entries if _is_named(one)]
            told = Counter(map(repr, named))
            for one in named if len(told) < len(named) else ():
                count = told[repr(one)]
                if count > max([1, *(asked[text] for text in _texts(one))]):
                    raise Violation(f"an entry of {name}", "once", f"{count} times")


def _texts(message: Any) -> list[str | bytes]:
    """Each text and bytes in a message that is not empty, nor an id of zeros."""
    values = [one for _, one in _values(message) if isinstance(one, str | bytes)]
    return [one for one in values if one and one != ZERO_UUID]


def _is_named(one: Any) -> bool:
    """Whether an entry is a struct with a name or an id; others are told apart by their place."""
    if not isinstance(one, msgspec.Struct):
        return False
    values = (getattr(one, name) for name in one.__struct_fields__ if name not in _SAYS)
    return any(value and isinstance(value, str | bytes) for value in values)


def bare(request: Any, answer: Any) -> int:
    """Demand that what is refused has no values but its partition and texts of the request.

    Returns how much is refused: structs with an error.

    Raises:
        Violation: it has.
    """
    texts, refused = {*_texts(request)}, 0
    for one in _structs(answer):
        if not any(getattr(one, name) for name in one.__struct_fields__ if _is_error(name)):
            continue
        refused += 1
        for owner, name, value in _own(one):
            none = _NO_VALUE.get(name, getattr(type(owner)(), name))
            if isinstance(value, str | bytes):
                right = not value or value == none or value in texts
            else:
                right = value == none or name in _PARTITION
            if not right:
                raise Violation(f"{name} of what is refused", repr(none), printed(value))
    return refused


def _is_error(name: str) -> bool:
    return name.endswith("error_code")


def _own(one: Any) -> Iterator[tuple[Any, str, Any]]:
    """(struct, field, value) of what a struct holds itself, not in lists."""
    for name in one.__struct_fields__:
        if name in _SAYS or _is_error(name):
            continue
        value = getattr(one, name)
        if isinstance(value, msgspec.Struct):
            yield from _own(value)
        elif isinstance(value, int | float | str | bytes):
            yield one, name, value
