"""Requests that failed with an unexpected error: counted and identified by a fingerprint.

A fingerprint is the API, the exception type and the code location that raised it. So the number of
fingerprints is bounded, whatever callers send.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from emulator.controller.result import shortened
from emulator.seam import Log
from wire.schema import api_name

OURS: Final = ("emulator.", "wire.")


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """One failure. ``place`` is module, function and line; ``first``: a new fingerprint."""

    api_key: int
    error: str
    place: str
    text: str
    first: bool


class RequestFailures:
    """Failures since the start; ``total`` counts them by API key, error and place."""

    def __init__(self) -> None:
        self.total: Counter[tuple[int, str, str]] = Counter()
        self._new: list[RequestFailure] = []

    def note(self, api_key: int, error: Exception) -> None:
        """Record a failure."""
        fingerprint = (api_key, type(error).__name__, place(error.__traceback__))
        self.total[fingerprint] += 1
        first = self.total[fingerprint] == 1
        self._new.append(RequestFailure(*fingerprint, shortened(str(error)), first))

    def take(self) -> list[RequestFailure]:
        """Failures recorded since the last call."""
        taken, self._new = self._new, []
        return taken


def place(trace: TracebackType | None) -> str:
    """The innermost function of this project in a traceback; empty if there is none."""
    found = ""
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        if module.startswith(OURS):
            found = f"{module}.{trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def failure_line(failure: RequestFailure) -> Log:
    """The log line of a failed request; the first of its kind has level error."""
    fields: dict[str, object] = {
        "api": api_name(failure.api_key),
        "error": failure.error,
        "place": failure.place,
        "text": failure.text,
    }
    level = "error" if failure.first else "debug"
    return Log(level, "a request failed with an internal error", fields)
