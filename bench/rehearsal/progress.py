"""Where a rehearsal is, and how long it still takes: in its lines, and at a terminal's foot."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Self

from rich.console import Console
from rich.text import Text

from bench.eta import Course
from bench.foot import Foot, drawable
from bench.rehearsal.phases import RehearsedPhase
from emulator.config.words import folded
from emulator.io.printable import printable


class Progress:
    """Draws until its ``with`` block ends; without a terminal it only writes lines.

    Args:
        phases: in their order.
        brokers: how many there are.
        partitions: how many there are.
        write: writes a line, and never fails.
    """

    def __init__(
        self,
        phases: Sequence[RehearsedPhase],
        brokers: int,
        partitions: int,
        write: Callable[[str], None],
    ) -> None:
        self._phases = phases
        self._course = Course([one.takes.step(brokers, partitions) for one in phases])
        self._write = write
        self._at: int | None = None
        self._began = self._phase_began = time.monotonic()
        self._console = Console(stderr=True, highlight=False)
        self._foot = Foot(self._console, self._shown, drawn=drawable(self._console))

    def __enter__(self) -> Self:
        self._foot.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._foot.__exit__(*error)

    def note(self, line: str) -> None:
        """Write a line with the seconds since the begin, above the foot."""
        at = f"{time.monotonic() - self._began:6.1f} s  "
        width = self._console.width if self._console.is_terminal else 0
        with self._foot.above():
            for one in folded(f"{at}{printable(line)}", width, " " * len(at)).split("\n"):
                self._write(one)

    def begin(self, number: int) -> None:
        """A phase begins; ``number``: from 0 on."""
        now = time.monotonic()
        self._at, self._phase_began = number, now
        self._course.begin(number, now)
        one = self._phases[number]
        self.note(f"{one.name}: {one.did} ({self._place(now)})")

    def _place(self, now: float) -> str:
        at = "" if self._at is None else f"phase {self._at + 1} of {len(self._phases)}, "
        return at + self._course.text(now)

    def _shown(self) -> Text:
        """What the foot shows now."""
        now = time.monotonic()
        line = self._place(now)
        if self._at is not None:
            line += f": {self._phases[self._at].name}, {now - self._phase_began:.0f} s"
        return Text(line, style="bold", no_wrap=True, overflow="ellipsis")
