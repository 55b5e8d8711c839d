"""ZooKeeper requests sent together, and their outcomes in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

import msgspec

from emulator.seam import Effect
from emulator.zookeeper.frame_limit import FrameLimit
from emulator.zookeeper.ops import ReadValue, ZkFailed, ZkLost, ZkOp, ZkOutcome, ZkRequest, ZkResult

# Retry times: 100 ms, doubled each time up to a maximum, and 100 ms again after progress.
#
# Source: KRaftMigrationDriver.PollTimeSupplier, Kafka 3.9, whose maximum is 60 s. Here it is
# lower: a poll takes less than a second even on a large tree, and an operator waits.

FIRST_MS: Final = 100
CAP_MS: Final = 5_000


class Retry:
    """When to poll next: ``due_ms``, None for not before something happens.

    >>> retry = Retry()
    >>> [retry.later(0) for _ in range(3)]
    [100, 200, 400]
    """

    def __init__(self) -> None:
        self._tries = 0
        self.due_ms: int | None = None

    def later(self, now_ms: int) -> int:
        """It failed: poll again later, each time after a longer wait. Returns when."""
        delay_ms = min(FIRST_MS << min(self._tries, 16), CAP_MS)
        self._tries += 1
        self.due_ms = now_ms + delay_ms
        return self.due_ms

    def begin(self, due_ms: int | None) -> None:
        """Poll then, and begin with the shortest wait again."""
        self._tries = 0
        self.due_ms = due_ms

    def sooner(self, now_ms: int) -> None:
        """Something changed: if a poll is to come, poll at once."""
        self._tries = 0
        if self.due_ms is not None:
            self.due_ms = now_ms


# The part of the ZooKeeper client that the migration sees.


class Zk(Protocol):
    """The part of the ZooKeeper client that migration uses."""

    limit: FrameLimit
    """How large a request may be, as known now."""

    @property
    def connected(self) -> bool:
        """Whether requests are accepted; no older request of ours can be applied after them."""

    def submit(self, tag: object, request: ZkRequest, now_ms: int) -> list[Effect]:
        """Send a request; the outcome is returned with ``tag``."""

    def op_bytes(self, op: ZkOp) -> bytes:
        """One op of a multi as it is sent; see ``Multi.body``."""

    def op_size(self, op: ZkOp) -> int:
        """Bytes that one op adds to a multi."""


class RoundTag(msgspec.Struct, frozen=True, eq=False):
    """Tag of one request of one round.

    An outcome holds it, and the round holds its outcomes: the tag does not name the round itself.
    A circle would stay in memory, with all that was read, until the next collection of garbage.
    """

    of: object
    index: int


@dataclass(slots=True, eq=False)
class Round:
    """Pipelined requests; complete when each has an outcome.

    A round is used once. Outcomes of an abandoned round are ignored.
    """

    requests: Sequence[ZkRequest]
    outcomes: list[ZkOutcome] = field(default_factory=list)
    _mark: object = field(default_factory=object, repr=False)

    def begin(self, zk: Zk, now_ms: int) -> list[Effect]:
        """Send every request."""
        effects: list[Effect] = []
        for index, request in enumerate(self.requests):
            effects += zk.submit(RoundTag(self._mark, index), request, now_ms)
        return effects

    def take(self, outcome: ZkOutcome) -> bool:
        """Take an outcome if it belongs to this round; returns whether the round is complete."""
        if not isinstance(outcome.tag, RoundTag) or outcome.tag.of is not self._mark:
            return False
        self.outcomes.append(outcome)
        return len(self.outcomes) == len(self.requests)

    @property
    def lost(self) -> bool:
        """Whether the connection was lost during the round."""
        return any(isinstance(outcome, ZkLost) for outcome in self.outcomes)

    @property
    def failures(self) -> list[tuple[int, int]]:
        """Index and code of each refused request."""
        return [
            (index, outcome.code)
            for index, outcome in enumerate(self.outcomes)
            if isinstance(outcome, ZkFailed)
        ]

    @property
    def values(self) -> list[ReadValue]:
        """The results of the last request, a ``MultiRead``."""
        last = self.outcomes[-1]
        assert isinstance(last, ZkResult)
        return cast("list[ReadValue]", last.value)
