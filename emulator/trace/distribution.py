"""Distributions: bucket counts, precise enough for quantiles and cheap enough for the event loop.

Each doubling of the value is split into 16 equal buckets, so a quantile read back is at most 1/16
(6.25 %) above the true value and never below it. Powers of two fall on bucket edges: the cumulative
buckets shown to Prometheus are exact.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from math import ceil, frexp
from typing import Final

# Events per second in the recent past, as Kafka's ``Rate`` counts them.

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


SPLITS: Final = 16
_PARTS: Final = 2 * SPLITS
"""Of 1, as a mantissa is from 0.5 up."""
RELATIVE_ERROR: Final = 1 / SPLITS
EDGES: Final = tuple(2.0**exponent for exponent in range(-3, 18))
"""Upper edges shown in an exposition: 0.125 … 131,072 (ms: 2 minutes)."""


class Distribution:
    """Counts of non-negative values. ``count``, ``total``, ``smallest``, ``greatest`` are exact."""

    __slots__ = ("_buckets", "_zeros", "count", "greatest", "smallest", "total")

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self._zeros = 0
        self.count = 0
        self.total = 0.0
        self.smallest = math.inf
        self.greatest = 0.0

    def observe(self, value: float) -> None:
        """Count one value.

        Raises:
            ValueError: it is negative (as Kafka's own snapshot time in one state) or not a number.
        """
        if not value >= 0.0:
            raise ValueError(f"a distribution holds values from 0 up, not {value}")
        if value > 0.0:
            mantissa, exponent = frexp(value)
            # Edges belong to the bucket below them: 1.0 counts as "<= 1", as Prometheus has it.
            index = (exponent - 1) * SPLITS + ceil(mantissa * _PARTS)
            buckets = self._buckets
            buckets[index] = buckets.get(index, 0) + 1
        else:
            self._zeros += 1
        self.count += 1
        self.total += value
        if value < self.smallest:  # noqa: PLR1730  # twice a request, and min() is slower
            self.smallest = value
        if value > self.greatest:  # noqa: PLR1730  # as above
            self.greatest = value

    def quantile(self, fraction: float) -> float:
        """Smallest bucket edge at or below which ``fraction`` of the values lie; 0 for no values.

        Args:
            fraction: 0 to 1. The result is within ``RELATIVE_ERROR`` above the true quantile.
        """
        wanted = max(1, math.ceil(fraction * self.count))
        seen = self._zeros
        if seen >= wanted or not self.count:
            return 0.0
        for index in sorted(self._buckets):
            seen += self._buckets[index]
            if seen >= wanted:
                return min(_edge(index), self.greatest)
        return self.greatest

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Yield (upper edge, values at or below it) for each of ``EDGES``, ascending."""
        ordered = sorted(self._buckets.items())
        seen, at = self._zeros, 0
        for edge in EDGES:
            while at < len(ordered) and _edge(ordered[at][0]) <= edge:
                seen += ordered[at][1]
                at += 1
            yield edge, seen

    def since(self, earlier: Distribution) -> Distribution:
        """What was counted after a copy was made; its extremes are those of buckets.

        Args:
            earlier: that copy.
        """
        later = Distribution()
        for index, count in self._buckets.items():
            if more := count - earlier._buckets.get(index, 0):
                later._buckets[index] = more
        later._zeros = self._zeros - earlier._zeros
        later.count, later.total = self.count - earlier.count, self.total - earlier.total
        if later._buckets:
            later.smallest = 0.0 if later._zeros else _edge(min(later._buckets) - 1)
            later.greatest = min(_edge(max(later._buckets)), self.greatest)
        elif later._zeros:
            later.smallest = 0.0
        return later

    def copy(self) -> Distribution:
        """An independent copy: a snapshot for a scrape."""
        twin = Distribution()
        twin._buckets = dict(self._buckets)
        twin._zeros = self._zeros
        twin.count, twin.total = self.count, self.total
        twin.smallest, twin.greatest = self.smallest, self.greatest
        return twin


def _edge(index: int) -> float:
    exponent, split = divmod(index, SPLITS)
    return math.ldexp(0.5 + split / (2 * SPLITS), exponent)


# Values that are all known.

BEYOND: Final = 10
"""A percentile has at least so many values beyond it; of fewer, the greatest is to be shown."""


def enough(samples: int, share: float) -> bool:
    """Whether ``BEYOND`` of the samples lie beyond that share of them.

    >>> enough(1_000, 0.99), enough(999, 0.99), enough(20, 0.5)
    (True, False, True)
    """
    return samples - _rank(samples, share) >= BEYOND


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least ``share`` of them do not exceed; None if not ``enough``.

    >>> percentile(range(1, 21), 0.5), percentile(range(1, 20), 0.5)
    (10, None)
    """
    if not enough(len(values), share):
        return None
    return sorted(values)[_rank(len(values), share) - 1]


def _rank(samples: int, share: float) -> int:
    # Rounded: a share such as 0.999 times a count may be a whole number but for its last digit.
    return max(1, math.ceil(round(share * samples, 6)))
