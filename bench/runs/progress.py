"""Which row of the bench is taken now, and about how long the others take: at a terminal's foot."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from typing import Self

from rich.console import Console
from rich.text import Text

from bench.eta import Course, Step
from bench.foot import Foot, drawable
from bench.lines import print_line
from bench.runs.scenario import Planned
from emulator.config.words import folded


class Progress:
    """Drawn until its ``with`` block ends; without a terminal it only prints lines.

    Args:
        left: the rows that are to be taken, in their order.
    """

    def __init__(self, left: Sequence[Planned]) -> None:
        self._left = [one.run_id for one in left]
        self._course = Course([Step(one.seconds) for one in left])
        self._at: int | None = None
        self._began = time.monotonic()
        self._console = Console(stderr=True, highlight=False)
        drawn = bool(left) and drawable(self._console)
        self._foot = Foot(self._console, self._shown, drawn=drawn)

    def __enter__(self) -> Self:
        self._foot.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._foot.__exit__(*error)

    def begin(self, one: Planned) -> None:
        """A row begins."""
        if one.run_id in self._left:
            self._at = self._left.index(one.run_id)
            self._began = time.monotonic()
            self._course.begin(self._at, self._began)

    def print_line(self, text: str) -> None:
        """Print a line of the result, above the foot; a table stays as it is."""
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        lines = (one if one[:1] == "|" else folded(one, width) for one in text.split("\n"))
        with self._foot.above():
            print_line("\n".join(lines))

    def _shown(self) -> Text:
        now = time.monotonic()
        if self._at is None:
            line = f"{len(self._left)} rows to take"
        else:
            row = f"row {self._at + 1} of {len(self._left)}"
            gone = f"{self._left[self._at]}, {now - self._began:.0f} s"
            line = f"{row}, {self._course.text(now)}: {gone}"
        return Text(line, style="bold", no_wrap=True, overflow="ellipsis")
