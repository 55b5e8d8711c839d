"""The two bounds on the number of records by which the log may be ahead of ZooKeeper.

At the first bound most calls that append records wait. At the second bound deletions and operations
that brokers need wait too. ``controller/urgency.py`` says which operation waits at which bound.

What counts: the records appended and not confirmed in ``/migration``, committed or not. NoOps and
control records do not count, so an idle log never reaches a bound.

When the bounds apply: from the end of the copy, and from the start of a term whose log says
MIGRATION. Until the claim has read ``/migration``, only records of this term count.

After a restart, part of the unconfirmed records may be in a snapshot, which does not say how many
of its offsets were NoOps. All of these offsets count for the first bound. For the second bound they
count as at most the first bound: otherwise a restart alone could reach the second bound.

Source: KIP-866 "Unavailable ZooKeeper" and "Dual Metadata Writes"; no Kafka release has it.
"""

from __future__ import annotations

from typing import Protocol

from emulator.metadata.idle import ChangeCount
from emulator.metadata.image import Image
from emulator.seam import Effect, Log


class Holder(Protocol):
    """The part of the controller that limits appending."""

    @property
    def tip(self) -> Image:
        """The image through the last appended record."""

    def changes_after(self, offset: int) -> ChangeCount:
        """Number of records appended above an offset, without those known to change nothing."""

    def hold(self, *, now_ms: int, room: int | None = None, hard_room: int | None = None) -> None:
        """Bound what is appended for callers until the next call of this method."""


class Bound:
    """Tells the controller how many records it may append, after every step.

    Args:
        controller: gets the limits.
        records: the first bound; 0 for none, then the second does not apply either.
        hard_records: the second bound, not below the first; 0 for none.
    """

    def __init__(self, controller: Holder, records: int, hard_records: int) -> None:
        self._controller = controller
        self._records = records
        self._hard_records = hard_records
        self._told = False
        self._active = False
        self._after = -1
        self.blocked = self.hard_blocked = False
        self.ahead = 0
        """Records that count for the first bound."""

    def bind(self, active: bool, after: int = -1) -> None:  # the state itself
        """Apply the bounds, or no longer.

        Args:
            active: whether they apply.
            after: records up to this offset do not count, whatever ``/migration`` says.
        """
        self._active, self._after = active, after

    def apply(self, confirmed: int, now_ms: int) -> list[Effect]:
        """Tell the controller how much it may append; ``confirmed`` is the offset in ZooKeeper."""
        if not self._active or not self._records:
            if self._told:
                self._told = self.blocked = self.hard_blocked = False
                self.ahead = 0
                self._controller.hold(now_ms=now_ms)
            return []
        self._told = True
        known, unknown = self._controller.changes_after(max(confirmed, self._after))
        self.ahead = known + unknown
        room = max(0, self._records - self.ahead)
        hard_room = None
        if self._hard_records:
            hard_room = max(0, self._hard_records - known - min(unknown, self._records))
        self._controller.hold(now_ms=now_ms, room=room, hard_room=hard_room)
        return self._tell(blocked=room == 0, hard_blocked=hard_room == 0)

    def _tell(self, *, blocked: bool, hard_blocked: bool) -> list[Effect]:
        before = self.blocked, self.hard_blocked
        self.blocked, self.hard_blocked = blocked, hard_blocked
        if before == (blocked, hard_blocked):
            return []
        fields: dict[str, object] = {"lag_records": self.ahead, "bound_records": self._records}
        if hard_blocked:
            fields["bound_records"] = self._hard_records
            text = "zookeeper lag is at the second bound: ISR changes and deletions wait too"
            return [Log("error", text, fields)]
        if blocked:
            return [Log("warning", "zookeeper lag is at the first bound: requests wait", fields)]
        return [Log("info", "zookeeper lag is below the bound: requests no longer wait", fields)]
