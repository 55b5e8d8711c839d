"""How often a log that gets nothing else gets a NoOp: less often while none of them can be trimmed.

The log is kept from what ZooKeeper has confirmed. While ZooKeeper is away, or refuses a znode,
NoOps alone would fill disk and memory: 172,800 a day. So after each :data:`NO_OPS_AT_PACE` of them
that are kept, the interval is doubled, up to :data:`INTERVAL_MS_MAX`: 33,000 in the first day,
53,000 in a week. A record that changes something is never delayed.

Source: KIP-835 for the interval; Kafka's controllers never keep NoOps for ZooKeeper's sake.
"""

from __future__ import annotations

from typing import Final, Protocol

from emulator.metadata.idle import ChangeCount
from emulator.metadata.image import Image

NO_OPS_AT_PACE: Final = 7_200
"""An hour of them at the default interval."""
INTERVAL_MS_MAX: Final = 60_000


class KeptLog(Protocol):
    """The part of the journal that counts."""

    @property
    def tip(self) -> Image:
        """The image of everything appended."""

    def changes_after(self, offset: int) -> ChangeCount:
        """Number of records above an offset, without those known to change nothing."""


class IdlePace:
    """The interval of NoOps now.

    Args:
        idle_ms: ``metadata.max.idle.interval.ms``; 0: no NoOps.
    """

    def __init__(self, idle_ms: int) -> None:
        self._idle_ms = idle_ms
        self.interval_ms = idle_ms

    def kept_from(self, offset: int | None, journal: KeptLog) -> None:
        """The log is kept from that offset on; None: nothing is kept for ZooKeeper's sake."""
        if offset is None or journal.tip.offset - offset < NO_OPS_AT_PACE:
            self.interval_ms = self._idle_ms
            return
        no_ops = journal.tip.offset - offset - sum(journal.changes_after(offset))
        slower = self._idle_ms << min(no_ops // NO_OPS_AT_PACE, 16)
        self.interval_ms = max(self._idle_ms, min(slower, INTERVAL_MS_MAX))
