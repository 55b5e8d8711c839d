"""Scripted churn of ISRs: followers of led partitions fall behind and catch up at a rate.

An open loop: change number n is due at ``n / rate`` seconds, whether or not earlier ones are
answered. A partition's turn is skipped while a change of it is on its way; ``skipped`` counts that.
A change is done when the ISR is as asked for, however often the controller refused it before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from emulator.broker.isr import HostedPartition, IsrState, Key
from emulator.broker.kraft.replicas import HostedReplicas


@dataclass(frozen=True, slots=True)
class ChurnedIsr:
    """One change; ``due_ms``: when it was due. ``lost``: we do not lead the partition any more."""

    key: Key
    due_ms: float
    follower: int
    drops: bool
    """Whether the follower leaves the ISR; else it comes back."""
    lost: bool = False


class IsrChurn:
    """See the module's docstring.

    Args:
        replicas: of one broker.
        per_second: changes of ISRs asked for by this broker, above 0.
        rng: chooses partitions and followers, and when the first change is due.
        start_ms: the time from which changes are due.
    """

    def __init__(
        self, replicas: HostedReplicas, per_second: float, rng: Random, start_ms: int
    ) -> None:
        if per_second <= 0:
            raise ValueError(f"a rate of {per_second} changes each second")
        self.asked = 0
        self.skipped = 0
        self._replicas = replicas
        self._gap_ms = 1_000 / per_second
        self._rng = rng
        self._next_ms = start_ms + rng.random() * self._gap_ms
        self._turn: Iterator[Key] = iter(())
        self._behind: dict[Key, int] = {}
        self._on_the_way: dict[Key, ChurnedIsr] = {}
        self._done: list[ChurnedIsr] = []

    @property
    def deadline_ms(self) -> int:
        """When the next change is due."""
        return int(self._next_ms) + 1

    def tick(self, now_ms: int) -> None:
        """Make the changes that are due."""
        while self.deadline_ms <= now_ms:
            due_ms, self._next_ms = self._next_ms, self._next_ms + self._gap_ms
            if self._change(due_ms, now_ms):
                self.asked += 1
            else:
                self.skipped += 1

    def stop(self, now_ms: int) -> None:
        """Let everyone catch up."""
        for key, follower in self._behind.items():
            self._replicas.let_go(key, follower, now_ms)
        self._behind.clear()

    @property
    def outstanding(self) -> int:
        """Number of changes that are not done."""
        return len(self._on_the_way)

    def take_done(self) -> list[ChurnedIsr]:
        """The changes that were done, or lost, since the last call; call it after each step."""
        for key in list(self._on_the_way):
            self._look_at(key)
        done, self._done = self._done, []
        return done

    def _look_at(self, key: Key) -> None:
        change, hosted = self._on_the_way[key], self._replicas.get(key)
        if hosted is None or hosted.partition.leader != self._replicas.broker_id:
            self._done.append(replace(change, lost=True))
        elif (change.follower in hosted.partition.isr) is not change.drops:
            self._done.append(change)
        else:
            return
        del self._on_the_way[key]

    def _change(self, due_ms: float, now_ms: int) -> bool:
        hosted = self._next()
        if hosted is None or hosted.state is not IsrState.COMMITTED:
            return False
        key = hosted.key
        if key in self._on_the_way:
            self._look_at(key)
        if key in self._on_the_way:
            return False
        follower = self._behind.pop(key, None)
        if follower is not None:
            self._replicas.let_go(key, follower, now_ms)
            self._on_the_way[key] = ChurnedIsr(key, due_ms, follower, drops=False)
            return True
        others = [one for one in hosted.partition.isr if one != self._replicas.broker_id]
        if not others:
            return False
        follower = self._rng.choice(others)
        if self._replicas.hold_back(key, follower, now_ms):
            self._behind[key] = follower
            self._on_the_way[key] = ChurnedIsr(key, due_ms, follower, drops=True)
            return True
        return False

    def _next(self) -> HostedPartition | None:
        """The next led partition; every one has its turn before the first has it again."""
        for _ in range(2):
            for key in self._turn:
                hosted = self._replicas.get(key)
                if hosted is not None and hosted.partition.leader == self._replicas.broker_id:
                    return hosted
                self._behind.pop(key, None)
            keys = [hosted.key for hosted in self._replicas.led]
            self._rng.shuffle(keys)
            self._turn = iter(keys)
        return None
