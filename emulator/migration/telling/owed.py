"""How much may wait for the answers of one broker.

A broker that heartbeats keeps its registration, even if it never answers a control request. Its
queue is bounded here: beyond :data:`REQUESTS_MAX` requests, or :data:`ENTRIES_MAX` entries, the
queue is dropped, and nothing is put until the broker has answered what it was sent. Then it is told
everything, as if it had just joined. The requests that tell it everything do not count and are
never dropped, so a slow broker gets them however many changes there are meanwhile.

Source: none. ControllerChannelManager, Kafka 3.9, has an unbounded queue for each broker.
"""

from __future__ import annotations

from typing import Final

import msgspec

from emulator.net.control import Question, Told
from wire import messages as m

REQUESTS_MAX: Final = 1_000
"""Requests put for one broker and not answered."""
ENTRIES_MAX: Final = 200_000
"""Partitions and brokers named in them: up to 20 MB of requests, and 70 MB of memory."""


class Owed(msgspec.Struct, frozen=True, eq=False):
    """A request that a broker has not answered yet."""

    request: Told
    entries: int
    joining: bool
    """One of the requests that tell a broker everything, or the question that follows them."""

    @classmethod
    def of(cls, request: Told, *, joining: bool) -> Owed:
        """Count the entries of a request."""
        return cls(request, entries_of(request), joining)


class Debt(msgspec.Struct):
    """What one broker owes answers to, without the requests that tell it everything."""

    requests: int = 0
    entries: int = 0
    cut: bool = False
    """The queue was dropped, and the broker has not answered what was kept."""

    def add(self, owed: Owed) -> None:
        """A request was put."""
        if not owed.joining:
            self.requests += 1
            self.entries += owed.entries

    def remove(self, owed: Owed) -> None:
        """A request was answered or dropped."""
        if not owed.joining:
            self.requests -= 1
            self.entries -= owed.entries

    @property
    def over(self) -> bool:
        """Whether the queue is longer than allowed."""
        return self.requests > REQUESTS_MAX or self.entries > ENTRIES_MAX


def entries_of(request: Told) -> int:
    """Number of partitions and brokers that a request names."""
    if isinstance(request, Question):
        return 0
    partitions = sum(len(topic.partition_states) for topic in request.topic_states)
    match request:
        case m.UpdateMetadataRequest():
            return partitions + len(request.live_brokers)
        case m.LeaderAndIsrRequest():
            return partitions + len(request.live_leaders)
        case m.StopReplicaRequest():
            return partitions
