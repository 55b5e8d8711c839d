"""What the write-behind can be doing, and what leads from one to the other.

STARTING -> CLAIMED -> RECONCILING -> RUNNING
any      -> DOUBT (connection lost) -> SETTLING (fenced, chain read back)
any      -> SETTLING (a multi was refused and all in flight behind it has been answered)
SETTLING -> where it was (n multis were applied, go on after them)
         -> RECONCILING (somebody wrote one counter, or a data op met another tree than the
            image says)
         -> POISONED (ZooKeeper refuses an op for good: tried again with back-off, or left out
         if
            so configured)
         -> DEPOSED (the claim is no longer ours: stop for good)
"""

from __future__ import annotations

from enum import Enum


class Mode(Enum):
    """What the write-behind is doing; the values stand in ``status --json``."""

    STOPPED = "stopped"
    STARTING = "starting"
    CLAIMED = "claimed"
    RECONCILING = "reconciling"
    RUNNING = "running"
    DOUBT = "doubt"
    SETTLING = "settling"
    POISONED = "poisoned"
    DEPOSED = "deposed"
