"""The two epochs of a migrating broker: of its znode, and of its registration with the quorum.

A ZooKeeper controller knows the first, a KRaft controller the second; each controller gets and
compares its own one. Source: ZkBrokerEpochManager, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

UNKNOWN: Final = -1
"""A sender that does not know the broker's epoch: nothing is compared."""


@dataclass(frozen=True, slots=True)
class BrokerEpochs:
    """Where both epochs are read; -1 before there is one.

    ``registration`` is None where the migration is off: such a broker has no second epoch.
    """

    znode: Callable[[], int]
    registration: Callable[[], int] | None = None

    def to_name(self, *, kraft: bool) -> int:
        """The epoch to name in requests to the controller known now."""
        if kraft and self.registration is not None:
            return self.registration()
        return self.znode()

    def stale(self, named: int, *, kraft: bool) -> bool:
        """Whether a control request means an earlier life of this broker.

        A higher epoch than ours is not stale: the controller may know it before we do.

        Raises:
            ValueError: a KRaft controller sent it, and the migration is off.
        """
        if named == UNKNOWN:
            return False
        if not kraft:
            return named < self.znode()
        if self.registration is None:
            raise ValueError("a KRaft controller sent this, and the migration is off")
        return named < self.registration()
