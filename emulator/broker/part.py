"""A part of a broker: it has connections of its own, and something to do at times."""

from __future__ import annotations

from typing import Protocol

from emulator.seam import Effect, Event


class Part(Protocol):
    """A pure machine inside a broker's; the broker calls it in the order of these methods."""

    @property
    def deadline_ms(self) -> int | None:
        """When :meth:`tick` is due even if nothing happens."""

    def start(self, now_ms: int) -> None:
        """Begin; called once."""

    def handle(self, event: Event, now_ms: int) -> None:
        """Take an event of any outbound connection; those of others are ignored."""

    def tick(self, now_ms: int) -> None:
        """Do what is due."""

    def effects(self, now_ms: int) -> list[Effect]:
        """All effects since the last call."""

    def close(self) -> None:
        """Close its connections; only :meth:`effects` is called afterwards."""
