"""Several processes that do one plan: what part each has, and how they keep together."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Share:
    """The part of one of ``of`` processes: of numbered events, every ``of``-th from ``index`` on.

    >>> [list(Share(index, 3).numbers(8)) for index in range(3)]
    [[0, 3, 6], [1, 4, 7], [2, 5]]
    """

    index: int = 0
    of: int = 1

    def numbers(self, total: int) -> range:
        """Which of ``total`` events are its own."""
        return range(self.index, total, self.of)

    def part(self, whole: int) -> int:
        """Its part of a number that is divided, at least 1.

        >>> [Share(index, 3).part(8) for index in range(3)], Share(2, 3).part(1)
        ([3, 3, 2], 1)
        """
        return max(1, len(self.numbers(whole)))

    def named(self, name: str) -> str:
        """A name of its own: that of a process alone, or with its number.

        >>> Share().named("load"), Share(1, 2).named("load")
        ('load', 'load-1')
        """
        return name if self.of == 1 else f"{name}-{self.index}"


class Together(Protocol):
    """The other processes, as one of them sees them."""

    @property
    def share(self) -> Share:
        """Which part of the plan is done here."""

    def report(self, line: str) -> None:
        """Print for the user how far it is."""

    async def meet(self, point: str) -> int:
        """Wait until every process is at a point of the plan.

        Returns:
            When all go on, in this machine's monotonic nanoseconds; it may lie a little ahead.
        """

    def watch(self, stop: Callable[[], object]) -> None:
        """Have ``stop`` called each time that an end is asked for; a second time: at once."""


class Alone:
    """One process that does all of a plan.

    Args:
        report: takes lines about its progress.
        signals: those by which the user asks for an end.
    """

    def __init__(
        self, report: Callable[[str], None], signals: tuple[signal.Signals, ...] = ()
    ) -> None:
        self.share = Share()
        self.report = report
        self._signals = signals

    async def meet(self, _point: str) -> int:
        """See Together."""
        return time.monotonic_ns()

    def watch(self, stop: Callable[[], object]) -> None:
        """See Together."""
        loop = asyncio.get_running_loop()
        for number in self._signals:
            loop.add_signal_handler(number, stop)
