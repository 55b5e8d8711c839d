"""The administrative load of a rehearsal, in an event loop of a thread, and what was not done."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Final, NamedTuple

from bench.demo.clients import NOT_NOW, Clients
from bench.demo.verdict import ALREADY
from bench.load.admin import AdminLoad, AdminResult
from emulator.servers.waiting import PATIENCE_S
from emulator.trace.rows import RequestRow, Row

PREFIX: Final = "kraft-bridge-rehearsal"
_TOPICS: Final = 40


class AnsweredChange(NamedTuple):
    """A change that was answered, ``at_s`` by the monotonic clock; ``error``: 0 for none."""

    api: str
    at_s: float
    waited_s: float
    error: int


class RehearsalLoad(Clients):
    """Changes at a fixed rate while it is begun.

    Args:
        bootstrap: ``host:port,...`` of brokers.
        per_s: changes a second.
        replicas: of new topics.
        answered: takes each change that was carried out or given up; called in another thread.
        begun: how often it was begun before, by earlier runs too.
    """

    def __init__(
        self,
        bootstrap: str,
        per_s: float,
        replicas: int,
        answered: Callable[[AnsweredChange], None],
        begun: int = 0,
    ) -> None:
        super().__init__(bootstrap, Path(), PREFIX)
        self._per_s = per_s
        self._replicas = replicas
        self._answered = answered
        self._times = begun
        self._running: Future[AdminResult] | None = None

    def begin(self) -> None:
        """Ask for changes from now on; topics have other names each time."""
        self._times += 1
        self._load = AdminLoad(
            self._bootstrap,
            self._per_s,
            None,
            client_id=PREFIX,
            replication_factor=self._replicas,
            record=self._note,
            give_up_s=PATIENCE_S,
            prefix=f"{PREFIX}-{self._times}",
            topics_wanted=_TOPICS,
            not_now=NOT_NOW,
        )
        self._running = self.call(self._load.run())

    def end(self) -> list[str]:
        """Ask for no more, and wait for the last answers; returns what was not carried out.

        Raises:
            TimeoutError: the last answers do not come.
        """
        if self._running is None:
            return []
        assert self._load is not None
        self._loop.call_soon_threadsafe(self._load.stop)
        found = self._running.result(2 * PATIENCE_S)
        self._running = self._load = None
        return not_done(found)

    def _note(self, row: Row) -> None:
        if isinstance(row, RequestRow) and row.intended_ns is not None:
            waited_s = (row.answered_ns - row.intended_ns) / 1e9
            self._answered(AnsweredChange(row.api, row.answered_ns / 1e9, waited_s, row.error_code))


def not_done(found: AdminResult) -> list[str]:
    """What was not carried out; what a second attempt found done already is done."""
    lost = [
        f"{api}: {error}, {'once' if count == 1 else f'{count} times'}"
        for (api, error), count in sorted(found.failed.items())
        if ALREADY.get(api) != error
    ]
    return lost + ([f"{found.unsent} changes were never sent"] if found.unsent else [])
