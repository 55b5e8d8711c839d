"""Events per second in the recent past, as Kafka's ``Rate`` counts them."""

from __future__ import annotations

from collections import deque
from typing import Final

WINDOW_MS: Final = 30_000
"""Kafka's default: metrics.num.samples=2 of metrics.sample.window.ms=30000, the oldest dropped."""
_BUCKET_MS: Final = 1_000


class Rate:
    """Counts events by second; what is older than the window is forgotten."""

    def __init__(self) -> None:
        self._buckets: deque[tuple[int, int]] = deque()

    def add(self, now_ms: int) -> None:
        """One event."""
        bucket = now_ms // _BUCKET_MS
        if self._buckets and self._buckets[-1][0] == bucket:
            bucket, count = self._buckets.pop()
            self._buckets.append((bucket, count + 1))
        else:
            self._buckets.append((bucket, 1))
        self._forget(now_ms)

    def per_second(self, now_ms: int) -> float:
        """Events per second over the window."""
        self._forget(now_ms)
        return sum(count for _, count in self._buckets) / (WINDOW_MS / 1_000)

    def _forget(self, now_ms: int) -> None:
        oldest = (now_ms - WINDOW_MS) // _BUCKET_MS
        while self._buckets and self._buckets[0][0] <= oldest:
            self._buckets.popleft()
