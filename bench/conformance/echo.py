"""Which topics and partitions a message names, whatever its fields are called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from bench.conformance.case import Violation, printed
from wire.schema import ZERO_UUID

_TOPIC: Final = ("name", "topic", "topic_name")
_PARTITION: Final = ("partition_index", "partition", "index", "partition_id")


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


def strangers(request: Any, answer: Any) -> None:
    """Demand that an answer names no partition but those of its request, if that names any.

    Raises:
        Violation: it does.
    """
    asked = [*partitions(request)]
    if not asked:
        return
    for one in partitions(answer):
        if not any(one.means(each) for each in asked):
            named = printed([each[::2] for each in asked])
            raise Violation("partitions of the answer", f"of {named}", printed(one))
