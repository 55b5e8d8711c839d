"""The leading controller's ``/status``: what changes in it by lines, all of it at the foot."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final, Self

from rich.table import Table

from bench.demo.controllers import FOLLOWS, Controllers
from bench.demo.narrator import Narrator

_POLL_S: Final = 0.2


class Watch:
    """Polls ``/status`` in a thread while its ``with`` block runs.

    Args:
        controllers: whose status.
        narrator: where it is shown.
        brokers: ids of the brokers that are to come.
    """

    def __init__(self, controllers: Controllers, narrator: Narrator, brokers: list[int]) -> None:
        self._controllers = controllers
        self._narrator = narrator
        self._brokers = brokers
        self._printed: dict[str, str] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="watch", daemon=True)
        self._shown = ExitStack()
        self.status: dict[str, Any] = {}
        self.states: list[str] = []
        """Driver states seen, in order."""
        self.copied = 0
        """The most copied records that a leader reported; a later leader copies none."""
        self.lag_max = 0
        """Longest write-behind lag, in records: what each leader counted, not what a look met."""

    def doing(self, text: str) -> None:
        """Say what the demonstration does now."""
        self._narrator.event(text)
        self._narrator.print_line(text)

    def __enter__(self) -> Self:
        self._shown.enter_context(self._narrator.showing(self.table))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(5)
        self._shown.close()

    def _poll(self) -> None:
        while not self._over.is_set():
            status = self._controllers.status()
            if status is not None:
                self._take(status)
            self._over.wait(_POLL_S)

    def _take(self, status: dict[str, Any]) -> None:
        self.status = status
        migration = status["migration"]
        state = migration["driver_state"]
        if self.states[-1:] != [state]:
            self.states.append(state)
            self._narrator.event(f"migration driver: {state}")
        self.copied = max(self.copied, migration["records_copied"])
        self.lag_max = max(self.lag_max, migration["lag"]["longest_records"] or 0)
        whose = " (no leader answers)" if state in FOLLOWS else ""
        self._print_change("driver", f"migration driver: {state}{whose}")
        for one in migration["waiting"]:
            self._print_change(
                f"{one['why']} {one['subject']}", f"/status says: {one['text']}", once=True
            )
        if migration["records_copied"]:
            self._print_change("copied", f"copied: {migration['records_copied']} records")
        for broker in self._brokers:
            self._print_change(f"broker {broker}", f"broker {broker}: {standing(status, broker)}")

    def _print_change(self, what: str, text: str, *, once: bool = False) -> None:
        if self._printed.get(what) != text and not (once and what in self._printed):
            self._printed[what] = text
            self._narrator.print_line(text)

    def table(self) -> Table:
        """What the foot of a terminal shows."""
        # What is too wide is cut in the second column: the first one keeps its width.
        table = Table.grid(padding=(0, 2, 0, 0), expand=True)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        status = self.status
        if not status:
            table.add_row("controller", "starting")
            return table
        migration = status["migration"]
        table.add_row("driver", " > ".join(self.states[-4:]))
        for broker in self._brokers:
            table.add_row(f"broker {broker}", standing(status, broker))
        table.add_row("waiting", "\n".join(missing(status)) or "nothing")
        table.add_row("copied", f"{migration['records_copied']} records")
        lag = migration["lag"]
        now = "unknown" if lag["records"] is None else f"{lag['records']} records, {lag['ms']} ms"
        table.add_row("lag", f"{now} (longest {self.lag_max})")
        table.add_row(
            "offsets",
            f"committed {migration['committed_offset']}, "
            f"in ZooKeeper {migration['confirmed_offset']}",
        )
        return table


def missing(status: Mapping[str, Any]) -> list[str]:
    """What the migration still waits for, and why."""
    return [one["text"] for one in status["migration"]["waiting"]]


def standing(status: Mapping[str, Any], broker: int) -> str:
    """The state of a broker at the controller."""
    for one in status["brokers"]:
        if one["id"] == broker:
            shown = "registered, fenced" if one["fenced"] else "registered, in service"
            return f"{shown}, {one['kind']} mode"
    return "not registered"
