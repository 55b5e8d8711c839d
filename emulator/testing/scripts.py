"""The scripts of faults of a cluster, which its nodes share, each on its thread."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emulator.net.faults.fault import Fault, read_toml
from emulator.net.faults.script import FaultScript, Refuse, StruckRequest
from emulator.net.reply import Request

FaultSource = Fault | Iterable[Fault] | str | Path
"""Faults, TOML text, or the path of a TOML file."""


class FaultMissedError(AssertionError):
    """Faults of a script never fired, so the test did not test what it says; the text lists them.

    ``faults`` are they.
    """

    def __init__(self, faults: Sequence[Fault], status: Sequence[Mapping[str, Any]]) -> None:
        unfit = sorted({str(one["unfit"]) for one in status if one["unfit"]})
        because = f" ({'; '.join(unfit)})" if unfit else ""
        listed = ", ".join(f"{one.api}: {one.error or one.action}" for one in faults)
        super().__init__(f"faults that never fired: {listed}{because}")
        self.faults = tuple(faults)


@dataclass(slots=True)
class SharedScript(FaultScript):
    """As :class:`FaultScript`, for several threads: its counts are those of all nodes."""

    _lock: threading.RLock = field(default_factory=threading.RLock)

    def add(self, *faults: Fault) -> None:
        """Add faults behind those that are there."""
        with self._lock:
            FaultScript.add(self, *faults)

    def add_from(self, *sources: FaultSource) -> None:
        """Add what is written in different ways: all of it, or nothing.

        Raises:
            ScriptError: it cannot be read, or is too much.
            OSError: a file cannot be read.
        """
        self.add(*(one for source in sources for one in _faults_of(source)))

    def clear(self) -> None:
        """Remove all."""
        with self._lock:
            FaultScript.clear(self)

    def status(self) -> list[dict[str, Any]]:
        """Each fault with its counts."""
        with self._lock:
            return FaultScript.status(self)

    def never_fired(self) -> list[Fault]:
        """Faults that struck nothing and were meant to."""
        with self._lock:
            return FaultScript.never_fired(self)

    def strike(
        self, request: Request, refuse: Refuse, api_versions_max: int
    ) -> StruckRequest | None:
        """What becomes of a request."""
        with self._lock:
            return FaultScript.strike(self, request, refuse, api_versions_max)


class ClusterScripts:
    """The script for requests of clients, and that for requests to the controller.

    Args:
        one: they are the same, as there are no brokers.
    """

    def __init__(self, *, one: bool) -> None:
        self.clients = SharedScript()
        self.controller = self.clients if one else SharedScript()
        self._both = [self.clients] if one else [self.clients, self.controller]
        self._reported: set[int] = set()
        self._last: list[dict[str, Any]] | None = None

    def clear(self) -> None:
        """Remove all faults."""
        for script in self._both:
            script.clear()

    def end(self) -> None:
        """Strike nothing more; the counts stay."""
        if self._last is None:
            self._last = self.status()
        self.clear()

    def status(self) -> list[dict[str, Any]]:
        """Each fault with its counts; at the end, the last."""
        if self._last is not None:
            return self._last
        return [one for script in self._both for one in script.status()]

    def check(self) -> None:
        """Look for faults that never fired; each is reported once.

        Raises:
            FaultMissedError: there are.
        """
        never = [one for script in self._both for one in script.never_fired()]
        missed = [one for one in never if id(one) not in self._reported]
        self._reported.update(id(one) for one in missed)
        if missed:
            raise FaultMissedError(missed, self.status())


def _faults_of(given: FaultSource) -> list[Fault]:
    """The faults that a test gives.

    Raises:
        ScriptError: the text or file is no script.
        OSError: the file cannot be read.
    """
    match given:
        case Fault():
            return [given]
        case Path():
            return read_toml(given.read_text(encoding="utf-8"))
        case str():
            return read_toml(given)
        case _:
            return list(given)
