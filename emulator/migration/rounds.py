"""ZooKeeper requests sent together, and their outcomes in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import msgspec

from emulator.migration.zk import Zk
from emulator.seam import Effect
from emulator.zookeeper.ops import ReadValue, ZkFailed, ZkLost, ZkOutcome, ZkRequest, ZkResult


class RoundTag(msgspec.Struct, frozen=True, eq=False):
    """Tag of one request of one round."""

    of: Round
    index: int


@dataclass(slots=True, eq=False)
class Round:
    """Pipelined requests; complete when each has an outcome.

    A round is used once. Outcomes of an abandoned round are ignored.
    """

    requests: Sequence[ZkRequest]
    outcomes: list[ZkOutcome] = field(default_factory=list)

    def begin(self, zk: Zk, now_ms: int) -> list[Effect]:
        """Send every request."""
        effects: list[Effect] = []
        for index, request in enumerate(self.requests):
            effects += zk.submit(RoundTag(self, index), request, now_ms)
        return effects

    def take(self, outcome: ZkOutcome) -> bool:
        """Take an outcome if it belongs to this round; returns whether the round is complete."""
        if not isinstance(outcome.tag, RoundTag) or outcome.tag.of is not self:
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
