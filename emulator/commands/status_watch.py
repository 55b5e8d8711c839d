"""``kraft-bridge status --watch``: one line a second, until it is interrupted or a phase is there.

A line is made for a person and for a pipe alike: one line of text, written at once; a colour only
on a terminal, and never alone. Whoever leads is shown: when another controller takes over, the next
line is of that one.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import typer

from emulator.commands.common import columns
from emulator.commands.exits import ExitCode
from emulator.commands.status_next import STUCK, phase_of
from emulator.commands.status_nodes import NodeAnswer
from emulator.commands.status_shown import colours
from emulator.config.words import duration, folded
from emulator.io.printable import printable, printable_in, printable_json

_BELOW: Final = " " * len("HH:MM:SS ")
EVERY_S: Final = 1.0
"""From the begin of one look to that of the next."""
WINDOW_S: Final = 10.0
"""The time over which the rate is taken that the ETA goes by."""

_UNREGISTERED: Final = "broker_not_registered"
_REFUSED: Final = "tries to register and is refused"
"""In the text of a broker that has not registered as it may not."""
_NAMED: Final = 8
"""Brokers that a line names."""
_OVER: Final = frozenset({"not migrating", "final", "rolled back", *STUCK})
"""Phases in which no migration goes on."""
_ENDS: Final = {
    ExitCode.DONE: "the phase is there",
    ExitCode.NOT_YET: "the phase is not there",
    ExitCode.UNREACHABLE: "nobody answers",
}


class WatchSource(Protocol):
    """What is asked, again and again."""

    def leading(self) -> NodeAnswer:
        """The answer of the controller that leads, else of any; raises OSError or ValueError."""

    def failed(self, error: Exception) -> str:
        """Why nobody has answered."""


class Eta:
    """When something that becomes less will be gone, by its rate over the last seconds."""

    def __init__(self) -> None:
        self._kind = ""
        self._seen: deque[tuple[float, int]] = deque()

    def text(self, kind: str, left: int | None, now_s: float) -> str:
        """The time left, as text.

        Args:
            kind: of what; the rate of another kind says nothing.
            left: how many are left now; None: not known.
            now_s: the time.
        """
        if kind != self._kind or left is None:
            self._kind, self._seen = kind, deque()
        if left is None:
            return "unknown"
        self._seen.append((now_s, left))
        while now_s - self._seen[0][0] > WINDOW_S:
            self._seen.popleft()
        first_s, first = self._seen[0]
        if left == 0:
            return "0 s"
        if left >= first:
            return "unknown"
        whole_s = round((now_s - first_s) * left / (first - left))
        return duration(1_000 * whole_s) if whole_s else "0 s"


class WatchLine:
    """Makes the lines; remembers what the ETA goes by. ``styled``: with colours."""

    def __init__(self, *, styled: bool) -> None:
        self._styled = styled
        self.phase = ""
        """As the newest line has it."""
        self._eta = Eta()

    @property
    def left(self) -> str:
        """What goes on without the watch."""
        over = not self.phase or self.phase in _OVER
        return "nothing else was stopped" if over else "the migration goes on"

    def of(self, found: dict[str, Any], clock: str, now_s: float) -> str:
        """One line of a controller's status.

        Args:
            found: the document, in texts that a terminal may be given.
            clock: the time of day.
            now_s: the time that the rate is taken by.
        """
        if found.get("role") == "broker":
            return f"{clock} broker {found['node_id']} {found['state']}"
        self.phase = phase = str(found["phase"]["name"])
        stuck = phase_of(found) in STUCK
        parts = [f"{clock} {self._mark(phase, 'red') if stuck else phase}"]
        migration = found.get("migration")
        if migration is not None:
            parts += self._of_migration(found, migration, now_s)
        leader = found.get("leader_id")
        own = found["node_id"]
        if leader == own or "leader_id" not in found:
            parts.append(f"leader {own}")
        elif leader is None:
            parts.append(self._mark(f"no leader is known to {own}", "red"))
        else:
            parts.append(f"leader {leader}, as {own} knows")
        return "; ".join(parts)

    def _of_migration(
        self, found: Mapping[str, Any], migration: Mapping[str, Any], now_s: float
    ) -> list[str]:
        brokers = found["brokers"]
        kraft = sum(one["kind"] == "kraft" for one in brokers)
        lag, copy = migration["lag"], migration.get("copy")
        unknown = copy is None and lag["records"] is None
        if unknown and (migration["waiting"] or not brokers):
            return [_waits_for(migration["waiting"], len(brokers)), self._blocked(migration)]
        parts = [f"KRaft brokers {kraft}/{len(brokers)}"]
        if unknown:
            return [*parts, "lag not known yet", self._blocked(migration)]
        if copy is not None:
            done, all_of_them = copy["topics_copied"], copy["topics"]
            parts.insert(0, f"copied {done}/{all_of_them} topics{_share(done, all_of_them)}")
            eta = self._eta.text("copy", max(0, all_of_them - done), now_s)
        else:
            counted, bound = lag["counted_records"], lag["bound_records"]
            bounded = f"/{bound}{_share(counted, bound)}" if bound else ""
            parts.append(f"lag {counted}{bounded} {lag['ms'] / 1000:.1f} s")
            eta = self._eta.text("lag", counted, now_s)
        return [*parts, self._blocked(migration), f"ETA {eta}"]

    def _blocked(self, migration: Mapping[str, Any]) -> str:
        if not migration["blocked"]:
            return "blocked no"
        hard = ", deletions too" if migration.get("hard_blocked") else ""
        waiting = migration.get("blocked_operations", 0)
        return self._mark(f"BLOCKED, {waiting} wait{hard}", "yellow")

    def _mark(self, text: str, colour: str) -> str:
        return typer.style(text, fg=colour, bold=True) if self._styled else text


def _waits_for(waiting: Sequence[Mapping[str, Any]], registered: int) -> str:
    """What is waited for before anything is copied: what does not end by itself comes first."""
    worst = max(
        waiting, key=lambda one: (bool(one["fatal"]), _REFUSED in one["text"]), default=None
    )
    if worst is not None and (worst["fatal"] or _REFUSED in worst["text"]):
        return f"waits: {worst['text']}"
    left = [one["subject"] for one in waiting if one["why"] == _UNREGISTERED]
    if left:
        some = ", ".join(left[:_NAMED])
        more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
        brokers = f"broker {some}" if len(left) == 1 else f"brokers {some}{more}"
        return f"waits for {brokers} to register ({registered} of {registered + len(left)} have)"
    if worst is not None:
        return f"waits: {worst['text']}"
    return "no broker is registered yet"


def _share(part: int, whole: int) -> str:
    return f" ({part / whole:.0%})" if whole else ""


@dataclass(frozen=True, slots=True)
class StatusWatch:
    """Lines, one a second, until a phase is there or the time is over.

    Who does not answer, as while another controller begins to lead, is a line too. ``reached``:
    whether a phase is the one to end at; None: there is none. ``until_s``: when to end in any case,
    by ``time.monotonic``; None: never. ``misread``: why a document cannot be read. ``document``:
    makes a line of JSON of an answer; None: lines are for a person.
    """

    source: WatchSource
    misread: Callable[[dict[str, Any]], str]
    reached: Callable[[str], bool] | None = None
    until_s: float | None = None
    plain: bool = False
    document: Callable[[NodeAnswer], str] | None = None

    def run(self) -> ExitCode:
        """Print the lines; NOT_YET if the phase is not there at the end, or nobody answers then.

        If nobody reads any more, the end is a quiet one. A terminal is told how it ended.
        """
        line, began = WatchLine(styled=colours(plain=self.plain)), time.monotonic()
        try:
            code = self._lines(line)
        except KeyboardInterrupt:
            self._end(line, "\nwatch: stopped", began, f"; {line.left}")
            raise
        except BrokenPipeError:
            # What is left in the buffer must not fail at the end of the program.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, sys.stdout.fileno())
            os.close(null)
            return ExitCode.DONE if self.reached is None else ExitCode.NOT_YET
        self._end(line, f"watch: {_ENDS[code]}", began)
        return code

    def _lines(self, line: WatchLine) -> ExitCode:
        while True:
            began = time.monotonic()
            last = self._printed(line)
            if last is ExitCode.DONE:
                return last
            left = float("inf") if self.until_s is None else self.until_s - time.monotonic()
            if left <= 0:
                return last
            time.sleep(max(0.0, min(began + EVERY_S - time.monotonic(), left)))

    def _end(self, line: WatchLine, how: str, began: float, more: str = "") -> None:
        """The verdict, in one line."""
        if sys.stderr.isatty():
            seen = f": {line.phase}" if line.phase else ""
            took = duration(1_000 * (time.monotonic() - began))
            typer.echo(f"{how} after {took}{seen}{more}", err=True)

    def _printed(self, line: WatchLine) -> ExitCode:
        """Look and print; what would be the exit code if this was the last look."""
        clock = time.strftime("%H:%M:%S")
        try:
            shown = self.source.leading()
            found = dict(shown.found)
        except (OSError, ValueError) as error:
            return self._no_answer(clock, self.source.failed(error))
        try:
            text = line.of(printable_in(found), clock, time.monotonic())
            there = self.reached is not None and self.reached(phase_of(found))
        except (KeyError, TypeError, AttributeError, ValueError):
            return self._no_answer(clock, self.misread(found))
        if self.document is not None:
            text = printable_json(self.document(shown))
        typer.echo(self._folded(text))
        return ExitCode.DONE if there else ExitCode.NOT_YET

    def _no_answer(self, clock: str, why: str) -> ExitCode:
        text = printable("; ".join(why.splitlines()))
        typer.echo(self._folded(f"{clock} no answer: {text}"), err=self.document is not None)
        return ExitCode.UNREACHABLE

    def _folded(self, text: str) -> str:
        """For a person at a terminal."""
        width = 0 if self.plain or self.document is not None else columns()
        return folded(text, width, _BELOW)
