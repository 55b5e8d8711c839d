"""The bound on what the log may be ahead of ZooKeeper.

Source: KIP-866 "Unavailable ZooKeeper" and "Dual Metadata Writes"; no Kafka release has it. It
binds in dual write, and from the start of a term whose log says MIGRATION: until the claim shows
where ``/migration`` stands, only what this term appends counts.
"""

from __future__ import annotations

from typing import Protocol

from emulator.metadata.image import Image
from emulator.seam import Effect, Log


class Holder(Protocol):
    """The part of the controller that stops appending."""

    @property
    def tip(self) -> Image:
        """Through the last appended record."""

    def hold(self, *, blocked: bool, now_ms: int, room: int | None = None) -> None:
        """Bound what is appended for callers until the next call of this method."""


class Bound:
    """Tells the controller how many records it may append, after every step.

    Args:
        controller: is told.
        records: the bound; 0 for none.
    """

    def __init__(self, controller: Holder, records: int) -> None:
        self._controller = controller
        self._records = records
        self._told = False
        self.active = False
        self.blocked = False

    def apply(self, confirmed: int, now_ms: int) -> list[Effect]:
        """Tell the controller what ``confirmed``, the offset ZooKeeper has, leaves room for."""
        if not self.active or not self._records:
            if self._told:
                self._told = self.blocked = False
                self._controller.hold(blocked=False, now_ms=now_ms)
            return []
        ahead = self._controller.tip.offset - confirmed
        before, self.blocked = self.blocked, ahead >= self._records
        self._told = True
        room = max(0, self._records - ahead)
        self._controller.hold(blocked=self.blocked, now_ms=now_ms, room=room)
        if before == self.blocked:
            return []
        fields: dict[str, object] = {"lag_records": ahead, "bound_records": self._records}
        if self.blocked:
            return [Log("warning", "zookeeper is too far behind: callers wait", fields)]
        return [Log("info", "callers go on", fields)]
