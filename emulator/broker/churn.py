"""Scripted churn of ISRs: followers of led partitions fall behind and catch up at a rate.

An open loop: change number n is due at ``n / rate`` seconds, whether or not earlier ones are
answered. A partition's turn is skipped while a change of it is on its way; ``skipped`` counts that.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from emulator.broker.isr import HostedPartition, IsrState, Key
from emulator.broker.replicas import HostedReplicas


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

    @property
    def deadline_ms(self) -> int:
        """When the next change is due."""
        return int(self._next_ms) + 1

    def tick(self, now_ms: int) -> None:
        """Make the changes that are due."""
        while self.deadline_ms <= now_ms:
            self._next_ms += self._gap_ms
            if self._change(now_ms):
                self.asked += 1
            else:
                self.skipped += 1

    def stop(self, now_ms: int) -> None:
        """Let everyone catch up."""
        for key, follower in self._behind.items():
            self._replicas.let_go(key, follower, now_ms)
        self._behind.clear()

    def _change(self, now_ms: int) -> bool:
        hosted = self._next()
        if hosted is None or hosted.state is not IsrState.COMMITTED:
            return False
        key = hosted.key
        follower = self._behind.pop(key, None)
        if follower is not None:
            self._replicas.let_go(key, follower, now_ms)
            return True
        others = [one for one in hosted.partition.isr if one != self._replicas.broker_id]
        if not others:
            return False
        follower = self._rng.choice(others)
        if self._replicas.hold_back(key, follower, now_ms):
            self._behind[key] = follower
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
