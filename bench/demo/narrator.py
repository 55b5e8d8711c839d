"""The output of the demonstration: progress to stderr, one line per check to stdout.

On a terminal the foot of the screen shows where the run is, what the controllers say, and about how
long it will still take; all lines stay above it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.text import Text

from bench.eta import Course, Step
from bench.foot import Foot, drawable
from bench.report.beside import RunEnd, RunEvent
from emulator.config.words import folded

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
    wrong: tuple[str, ...] = ()
    """What was found wrong, each in a line."""


class Narrator:
    """Keeps the checks and prints as things happen.

    Colour and redrawing only on a terminal: not in a pipe, not with ``CI`` set; ``NO_COLOR`` takes
    the colour.

    Args:
        steps: how long each step is thought to take; empty: nothing is said of what is left.
    """

    def __init__(self, steps: Sequence[Step] = ()) -> None:
        self.err = Console(stderr=True, highlight=False)
        self.out = Console(highlight=False)
        self._foot = Foot(self.err, self._shown, drawn=drawable(self.err))
        self._course = Course(steps) if steps else None
        self._more: list[Callable[[], RenderableType]] = []
        """What else the foot shows."""
        self.checks: list[Check] = []
        self.events: list[RunEvent] = []
        self.end: RunEnd | None = None
        self._begin = time.monotonic()
        self._step = 0

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._begin

    def step(self, number: int, title: str) -> None:
        """Open one of the five steps."""
        self._step = number
        if self._course is not None:
            self._course.begin(number - 1, self.elapsed_s)
        self._print(Text(f"\n{number}. {title}", style="bold"))

    @property
    def live(self) -> bool:
        """Whether something is drawn at the foot of a terminal."""
        return self._foot.drawn

    @contextlib.contextmanager
    def drawing(self) -> Iterator[None]:
        """Draw the foot until the end of the block, if there is a terminal."""
        with self._foot:
            yield

    @contextlib.contextmanager
    def showing(self, more: Callable[[], RenderableType]) -> Iterator[None]:
        """Let the foot show this too, until the end of the block."""
        self._more.append(more)
        try:
            yield
        finally:
            self._more.remove(more)

    @contextlib.contextmanager
    def above(self) -> Iterator[None]:
        """Whatever prints in the block prints above the foot."""
        with self._foot.above():
            yield

    def _shown(self) -> RenderableType:
        """What the foot shows now."""
        now = self.elapsed_s
        left = "" if self._course is None else f", {self._course.text(now)}"
        text = f"step {self._step or 1} of 5{left}, {now:.0f} s gone"
        line = Text(text, style="bold", no_wrap=True, overflow="ellipsis")
        return Group(*(more() for more in self._more), line)

    def event(self, text: str) -> None:
        """Keep that something happens now, for the time axis of the report."""
        self.events.append(RunEvent(time.time_ns(), text))

    def print_line(self, text: str) -> None:
        """One line of progress, with the time since the start."""
        self._print(_line(self.err, f"{self.elapsed_s:7.1f} s  ", "dim", text))

    def _print(self, line: Text) -> None:
        # A full standard error changes nothing about what is judged, nor about the exit code.
        with contextlib.suppress(OSError), self.above():
            self.err.print(line, soft_wrap=True)

    def check(self, what: str, held: bool, figures: str = "", wrong: Sequence[str] = ()) -> bool:
        """Note and print whether something of safety held; returns ``held``.

        Args:
            what: the check.
            held: whether it did.
            figures: what was looked at.
            wrong: what was found, such as each key that differs.
        """
        self._add(Check(self._step, what, held, figures, wrong=tuple(wrong)))
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
        says = f"{check.what}: {check.figures}" if check.figures else check.what
        line = _line(self.out, f"{word:<12}", style, says)
        for each in check.wrong:
            line.append("\n").append(_line(self.out, " " * 8, "", each))
        try:
            with self.above():
                self.out.print(line, soft_wrap=True)
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from error

    def end_line(self, text: str) -> None:
        """One of the last lines, to standard output."""
        self.out.print(_line(self.out, "", "", text), soft_wrap=True)

    @property
    def failed(self) -> list[Check]:
        """Checks of safety that did not hold."""
        return [check for check in self.checks if not check.held and not check.of_speed]


def _line(console: Console, head: str, style: str, text: str) -> Text:
    """A line; a terminal that is too narrow gets several, broken between words."""
    width = console.width if console.is_terminal else 0
    line = Text(folded(f"{head}{text}", width, " " * (len(head) or 4)))
    line.stylize(style, 0, len(head))
    return line
