"""Time for the machines: wall-clock milliseconds that never go back, and monotonic nanoseconds."""

from __future__ import annotations

import time


class Clock:
    """Milliseconds since the epoch, anchored once and advanced by the monotonic clock.

    Record batches carry these times and timers compare them: a step of the system clock must not
    change them.
    """

    def __init__(self) -> None:
        self.wall_anchor_ms = time.time_ns() // 1_000_000
        self.monotonic_anchor_ns = time.monotonic_ns()

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch; never decreases."""
        return self.wall_anchor_ms + (time.monotonic_ns() - self.monotonic_anchor_ns) // 1_000_000

    def now_ns(self) -> int:
        """Monotonic nanoseconds, for the trace."""
        return time.monotonic_ns()
