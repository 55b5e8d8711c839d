"""The observers that fetch the metadata log: their log ends and times."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from emulator.raft.config import OBSERVER_SESSION_MS

OBSERVERS_MAX: Final = 10_000
"""Observers that are remembered. Requests choose their ids, so there may be any number."""


@dataclass(slots=True)
class Observer:
    """One replica that is not a voter. Timestamps are milliseconds since the Unix epoch.

    ``last_caught_up_ms`` is when its log last reached the end of ours, -1 if never.
    ``sent_high_watermark`` is that of the last answer to it, None before the first.
    """

    replica_id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int = -1
    leader_end_at_fetch: int = -1
    sent_high_watermark: int | None = None


class Observers:
    """Replicas by id and directory; they never count for the high watermark.

    Source: LeaderState.ReplicaState.updateFollowerState, KIP-836, Kafka 3.9.
    """

    def __init__(self) -> None:
        self._observers: OrderedDict[tuple[int, bytes], Observer] = OrderedDict()
        """In the order of their last Fetch."""

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._observers)

    def of(self, key: tuple[int, bytes]) -> Observer | None:
        """The observer with that id and directory, if it has fetched."""
        return self._observers.get(key)

    def fetched(
        self, key: tuple[int, bytes], offset: int, leader_end_offset: int, now_ms: int
    ) -> Observer:
        """Record a valid fetch: the replica has everything below ``offset``.

        If there are too many, the observer that fetched longest ago is forgotten for it.
        """
        observer = self._observers.pop(key, None)
        if observer is None:
            self._drop(now_ms, OBSERVERS_MAX - 1)
            observer = Observer(*key, offset, now_ms)
        self._observers[key] = observer
        if offset >= leader_end_offset:
            observer.last_caught_up_ms = now_ms
        elif offset >= observer.leader_end_at_fetch > 0:
            # It has reached the end that our log had at its previous fetch: it was caught up then.
            observer.last_caught_up_ms = max(observer.last_caught_up_ms, observer.last_fetch_ms)
        observer.leader_end_at_fetch = leader_end_offset
        observer.log_end_offset = offset
        observer.last_fetch_ms = now_ms
        return observer

    def alive(self, now_ms: int) -> Iterator[Observer]:
        """The observers that fetched in the last 300 s, by id; the others are dropped."""
        self._drop(now_ms, OBSERVERS_MAX)
        for key in sorted(self._observers):
            yield self._observers[key]

    def _drop(self, now_ms: int, most: int) -> None:
        """Forget observers that are gone, and the longest silent ones until ``most`` are left."""
        while self._observers:
            key, oldest = next(iter(self._observers.items()))
            if oldest.last_fetch_ms + OBSERVER_SESSION_MS >= now_ms and len(self) <= most:
                return
            del self._observers[key]
