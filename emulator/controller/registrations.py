"""Why brokers cannot register: a broker logs a code and tries again, so the controller says it.

Each cause is logged once for each broker; the newest cause is shown by ``/status``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from emulator.controller.refused_broker import printable
from emulator.controller.result import RefusedAttempt, Registering
from emulator.seam import Log

CAUSES_MAX: Final = 1_000
"""Causes that are remembered: a caller may try with any number of ids."""


class Cause(NamedTuple):
    """Why a broker was refused: the name of the error, and its text."""

    broker_id: int
    code: str
    text: str

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"


class RefusedBroker(NamedTuple):
    """The newest cause for a broker, how often it was refused for it, and the last attempt."""

    cause: Cause
    times: int
    attempt: RefusedAttempt | None


class Registrations:
    """Refused registrations since the start, of brokers that have not registered afterwards."""

    def __init__(self) -> None:
        self._causes: dict[Cause, None] = {}
        self._newest: dict[int, RefusedBroker] = {}
        self._lines: list[Log] = []

    def tried(self, one: Registering) -> None:
        """A broker was registered or refused."""
        if one.error is None:
            if self._newest.pop(one.broker_id, None) is not None:
                gone = [cause for cause in self._causes if cause.broker_id == one.broker_id]
                for cause in gone:
                    del self._causes[cause]
            return
        # The text may quote the caller, and is shown on terminals.
        cause = Cause(one.broker_id, one.error.code.name, printable(one.error.message or ""))
        if cause not in self._causes:
            full = len(self._causes) >= CAUSES_MAX
            fields: dict[str, object] = cause._asdict()
            self._lines.append(Log("debug" if full else "warning", "broker refused", fields))
            if full:
                return
            self._causes[cause] = None
        before = self._newest.get(one.broker_id)
        times = before.times if before is not None and before.cause == cause else 0
        self._newest[one.broker_id] = RefusedBroker(cause, times + 1, one.attempt)

    def why_not(self, broker_id: int) -> Cause | None:
        """Why a broker was refused last; None if it was not, or has registered afterwards."""
        found = self._newest.get(broker_id)
        return None if found is None else found.cause

    def refusals(self) -> list[RefusedBroker]:
        """The newest refusal of each broker that has not registered afterwards, by broker."""
        return [self._newest[broker_id] for broker_id in sorted(self._newest)]

    def take(self) -> list[Log]:
        """Lines for the log since the last call."""
        taken, self._lines = self._lines, []
        return taken
