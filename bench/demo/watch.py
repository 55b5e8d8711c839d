"""The leading controller's ``/status`` as it changes: redrawn on a terminal, else line by line."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final, Self

from rich.live import Live
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
        self._doing = ""
        self._printed: dict[str, str] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="watch", daemon=True)
        self._live: Live | None = None
        self.status: dict[str, Any] = {}
        self.states: list[str] = []
        """Driver states seen, in order."""
        self.copied = 0
        """The most copied records that a leader reported; a later leader copies none."""
        self.lag_max = 0
        """Longest write-behind lag, in records: what each leader counted, not what a look met."""

    def doing(self, text: str) -> None:
        """Set the current step of the demonstration, shown under the status."""
        self._doing = text
        self._narrator.event(text)
        if self._live is None:
            self._narrator.print_line(text)

    def __enter__(self) -> Self:
        if self._narrator.live:
            self._live = Live(
                get_renderable=self.table,
                console=self._narrator.err,
                refresh_per_second=5,
                transient=False,
            )
            self._live.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(5)
        if self._live is not None:
            self._live.stop()

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
        if self._live is None:
            whose = " (no leader answers)" if state in FOLLOWS else ""
            self._print_change("driver", f"migration driver: {state}{whose}")
            for one in migration["waiting"]:
                self._print_change(
                    f"{one['why']} {one['subject']}", f"/status says: {one['text']}", once=True
                )
            if migration["records_copied"]:
                self._print_change("copied", f"copied: {migration['records_copied']} records")
            for broker in self._brokers:
                self._print_change(
                    f"broker {broker}", f"broker {broker}: {standing(status, broker)}"
                )

    def _print_change(self, what: str, text: str, *, once: bool = False) -> None:
        if self._printed.get(what) != text and not (once and what in self._printed):
            self._printed[what] = text
            self._narrator.print_line(text)

    def table(self) -> Table:
        """What is shown on a terminal."""
        table = Table(show_header=False, title_justify="left", min_width=72)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
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
        table.add_row("now", self._doing)
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
