"""Rack-aware choice of brokers for the replicas of new partitions.

Racks are used in turn, and brokers within a rack in turn. Unfenced brokers come first, fenced ones
only when a rack has no unfenced one left. The first replica is never on a fenced broker.

Source: StripedReplicaPlacer, Kafka 3.9.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from emulator.controller.context import Context
from emulator.metadata.image import Image
from emulator.seam import ENTRIES_PER_SLICE, Kept, Same, Slices


class PlacementError(ValueError):
    """The replication factor cannot be reached; the text is Kafka's reason."""


class UsableBroker(NamedTuple):
    """A broker that may hold a new replica."""

    id: int
    rack: str | None
    fenced: bool


class UsableBrokers:
    """The brokers that new replicas are placed on, by rack; they stay as they are.

    Args:
        brokers: each once.
    """

    def __init__(self, brokers: Iterable[UsableBroker]) -> None:
        by_name: dict[str | None, tuple[list[int], list[int]]] = {}
        self.unfenced_count = self.count = 0
        for broker in brokers:
            rack = by_name.setdefault(broker.rack, ([], []))
            rack[broker.fenced].append(broker.id)
            self.count += 1
            self.unfenced_count += not broker.fenced
        names = sorted(by_name, key=lambda name: (name is not None, name or ""))
        self.racks = [(sorted(by_name[name][0]), sorted(by_name[name][1])) for name in names]
        """Ids of the unfenced and of the fenced ones, ascending; racks by name."""


@dataclass(slots=True)
class _Ring:
    """Gives each broker once per round; each round starts one broker later."""

    brokers: list[int]
    offset: int = 0
    taken: int = 0
    round: int = 0

    def start(self, rng: random.Random) -> None:
        if self.brokers:
            self.offset = rng.randrange(len(self.brokers))

    def shuffle(self, rng: random.Random) -> None:
        self.brokers = self.brokers.copy()  # not those of other topics
        rng.shuffle(self.brokers)

    def next(self, placement_round: int) -> int | None:
        if not self.brokers:
            return None
        if self.round != placement_round:
            self.round, self.taken = placement_round, 0
            self.offset = (self.offset + 1) % len(self.brokers)
        if self.taken >= len(self.brokers):
            return None
        broker = self.brokers[(self.taken + self.offset) % len(self.brokers)]
        self.taken += 1
        return broker

    def take(self, placement_round: int, count: int) -> tuple[int, ...]:
        """As so many calls of :meth:`next` in a new round; there are as many brokers."""
        if self.round != placement_round:
            self.round = placement_round
            self.offset = (self.offset + 1) % len(self.brokers)
        self.taken = count
        end = self.offset + count
        over = max(0, end - len(self.brokers))
        return (*self.brokers[self.offset : end], *self.brokers[:over])


@dataclass(slots=True)
class _Rack:
    unfenced: _Ring
    fenced: _Ring

    def next(self, placement_round: int) -> int | None:
        broker = self.unfenced.next(placement_round)
        return self.fenced.next(placement_round) if broker is None else broker


class _Racks:
    """All racks in turn: each partition starts one rack after the previous partition."""

    def __init__(self, brokers: UsableBrokers, rng: random.Random) -> None:
        self._rng = rng
        self._unfenced_count = brokers.unfenced_count
        self._racks = [_Rack(_Ring(unfenced), _Ring(fenced)) for unfenced, fenced in brokers.racks]
        for rack in self._racks:
            rack.fenced.start(rng)
            rack.unfenced.start(rng)
        self._round = 0
        self._offset = rng.randrange(len(self._racks)) if self._racks else 0

    def place(self, replication_factor: int) -> tuple[int, ...]:
        if self._round == self._unfenced_count and self._unfenced_count > 1:
            # Every broker has been first once: shuffle, else the same assignments would repeat.
            self._shuffle()
            self._round = 0
        rack = self._racks[0]
        if len(self._racks) == 1 and not rack.fenced.brokers:
            # The usual case, without the turns of racks.
            placed_alone = rack.unfenced.take(self._round, replication_factor)
            self._round += 1
            return placed_alone
        self._offset %= len(self._racks)
        first = self._offset
        while (leader := self._racks[first].unfenced.next(self._round)) is None:
            first = (first + 1) % len(self._racks)
        placed = [leader]
        at, skip = self._offset, first
        while len(placed) < replication_factor:
            replica = None
            if at == skip:
                skip = -1
            else:
                replica = self._racks[at].next(self._round)
            at = (at + 1) % len(self._racks)
            if replica is not None:
                placed.append(replica)
        self._round += 1
        self._offset += 1
        return tuple(placed)

    def _shuffle(self) -> None:
        self._rng.shuffle(self._racks)
        for rack in self._racks:
            rack.fenced.shuffle(self._rng)
            rack.unfenced.shuffle(self._rng)


def place(
    brokers: UsableBrokers,
    partition_count: int,
    replication_factor: int,
    rng: random.Random,
) -> Slices[list[tuple[int, ...]]]:
    """Assign replicas to new partitions of one topic, in slices.

    Args:
        brokers: candidates; the caller leaves out those in controlled shutdown.
        partition_count: at least 1.
        replication_factor: replicas of each partition, all on different brokers.
        rng: decides at which rack and broker to start.

    Returns:
        One replica list per partition, preferred leader first.

    Raises:
        PlacementError: no unfenced broker, or fewer brokers than replicas.
    """
    racks = _Racks(brokers, rng)
    if replication_factor <= 0:
        raise PlacementError(
            f"Invalid replication factor {replication_factor}: "
            "the replication factor must be positive."
        )
    if brokers.unfenced_count == 0:
        raise PlacementError("All brokers are currently fenced.")
    if replication_factor > brokers.count:
        raise PlacementError(
            f"The target replication factor of {replication_factor} cannot be reached because "
            f"only {brokers.count} broker(s) are registered."
        )
    placed: list[tuple[int, ...]] = []
    while True:
        count = min(ENTRIES_PER_SLICE, partition_count - len(placed))
        placed += [racks.place(replication_factor) for _ in range(count)]
        if len(placed) == partition_count:
            return placed
        yield


def usable_brokers(image: Image, ctx: Context) -> UsableBrokers:
    """Registered brokers that are not in controlled shutdown; found once, until one changes."""
    leaving = ctx.heartbeats.leaving
    key = (Same(image.brokers), leaving)
    return _KEPT.find(key) or _KEPT.keep(
        key,
        UsableBrokers(
            UsableBroker(broker_id, broker.rack, broker.fenced)
            for broker_id, broker in image.brokers.items()
            if not broker.in_controlled_shutdown and broker_id not in leaving
        ),
    )


_KEPT: Final = Kept[UsableBrokers]()
