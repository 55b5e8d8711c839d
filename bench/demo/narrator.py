"""The output of the demonstration: progress to stderr, one line per check to stdout."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.text import Text

from bench.report.beside import RunEvent

_SHOWN: Final = {
    True: ("OK", "green"),
    False: ("FAILED", "bold red"),
    None: ("NOT JUDGED", "yellow"),
}


@dataclass(frozen=True, slots=True)
class Check:
    """One check and its result."""

    step: int
    what: str
    held: bool | None
    """None: not judged; ``figures`` holds the reason."""
    figures: str
    of_speed: bool = False
    """Whether it is of rate or latency, of the report, or of when something happened, and not of
    safety: it fails no run, and it alone may be not judged."""


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
        self.events: list[RunEvent] = []
        self._begin = time.monotonic()
        self._step = 0

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._begin

    def step(self, number: int, title: str) -> None:
        """Open one of the five steps."""
        self._step = number
        self._print(Text(f"\n{number}. {title}", style="bold"))

    def event(self, text: str) -> None:
        """Keep that something happens now, for the time axis of the report."""
        self.events.append(RunEvent(time.time_ns(), text))

    def print_line(self, text: str) -> None:
        """One line of progress, with the time since the start."""
        line = Text(f"{self.elapsed_s:7.1f} s  ", style="dim")
        self._print(line.append(text, style="default"))

    def _print(self, line: Text) -> None:
        # A full standard error changes nothing about what is judged, nor about the exit code.
        with contextlib.suppress(OSError):
            self.err.print(line, soft_wrap=True)

    def check(self, what: str, held: bool, figures: str = "") -> bool:
        """Note and print whether something of safety held; returns ``held``."""
        self._add(Check(self._step, what, held, figures))
        return held

    def check_speed(self, what: str, held: bool, figures: str, busy: str | None) -> None:
        """Note and print whether something that is not of safety was as it should be.

        Args:
            what: the check.
            held: whether it was.
            figures: what was measured.
            busy: what this machine did meanwhile if it was busy: then what did not hold is not
                judged, for that reason.
        """
        if not held and busy is not None:
            self._add(Check(self._step, what, None, f"{figures}; {busy}", of_speed=True))
        else:
            self._add(Check(self._step, what, held, figures, of_speed=True))

    def _add(self, check: Check) -> None:
        self.checks.append(check)
        word, style = _SHOWN[check.held]
        line = Text(f"{word:<12}", style=style)
        line.append(check.what, style="default")
        if check.figures:
            line.append(f": {check.figures}", style="default")
        try:
            self.out.print(line, soft_wrap=True)
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from error

    @property
    def failed(self) -> list[Check]:
        """Checks of safety that did not hold."""
        return [check for check in self.checks if not check.held and not check.of_speed]
