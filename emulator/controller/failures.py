"""Requests that could not be answered as they should be: counted and told by a fingerprint.

A fingerprint is the API, the type of what was raised and the place that raised it. Whatever a
caller sends, there are only so many of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from emulator.controller.result import shortened

OURS: Final = ("emulator.", "wire.")


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """One failure. ``place`` is module, function and line; ``first``: never seen here before."""

    api_key: int
    error: str
    place: str
    text: str
    first: bool


class RequestFailures:
    """What failed since the start; ``total`` counts by API key, error and place."""

    def __init__(self) -> None:
        self.total: Counter[tuple[int, str, str]] = Counter()
        self._new: list[RequestFailure] = []

    def note(self, api_key: int, error: Exception) -> None:
        """Remember one."""
        fingerprint = (api_key, type(error).__name__, place(error.__traceback__))
        self.total[fingerprint] += 1
        first = self.total[fingerprint] == 1
        self._new.append(RequestFailure(*fingerprint, shortened(str(error)), first))

    def take(self) -> list[RequestFailure]:
        """Those since the last call."""
        taken, self._new = self._new, []
        return taken


def place(trace: TracebackType | None) -> str:
    """The innermost function of our own in a traceback; empty if there is none."""
    found = ""
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        if module.startswith(OURS):
            found = f"{module}.{trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found
