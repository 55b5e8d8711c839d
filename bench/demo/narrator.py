"""The output of the demonstration: progress to stderr, one line per check to stdout."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text


@dataclass(frozen=True, slots=True)
class Check:
    """One check and its result."""

    step: int
    what: str
    held: bool
    figures: str


class Narrator:
    """Keeps the checks and prints as things happen.

    Colour and redrawing only on a terminal: not in a pipe, not with ``CI`` set; ``NO_COLOR`` takes
    the colour.
    """

    def __init__(self) -> None:
        self.err = Console(stderr=True, highlight=False)
        self.out = Console(highlight=False)
        self.live = (
            self.err.is_terminal and not self.err.is_dumb_terminal and "CI" not in os.environ
        )
        self.checks: list[Check] = []
        self._begin = time.monotonic()
        self._step = 0

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._begin

    def step(self, number: int, title: str) -> None:
        """Open one of the five steps."""
        self._step = number
        self.err.print(Text(f"\n{number}. {title}", style="bold"))

    def say(self, text: str) -> None:
        """One line of progress, with the time since the start."""
        line = Text(f"{self.elapsed_s:7.1f} s  ", style="dim")
        self.err.print(line.append(text, style="default"), soft_wrap=True)

    def check(self, what: str, held: bool, figures: str = "") -> bool:
        """Note and print whether something held; returns ``held``."""
        self.checks.append(Check(self._step, what, held, figures))
        line = Text("OK      " if held else "FAILED  ", style="green" if held else "bold red")
        line.append(what, style="default")
        if figures:
            line.append(f": {figures}", style="default")
        self.out.print(line, soft_wrap=True)
        return held

    @property
    def failed(self) -> list[Check]:
        """Checks that did not hold."""
        return [check for check in self.checks if not check.held]
