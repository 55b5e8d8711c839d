"""The declaration of a log line: its stable id, its levels, its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNLISTED: Final = "unlisted"
"""The ``event_id`` of a text that no declaration has."""


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One kind of log line.

    A ``{word}`` in a text stands for one word that differs from line to line.
    """

    event_id: str
    """What programs look for, in lower_snake_case; it stays when the text is improved."""
    levels: str
    """Those that it is written with, from the lowest on, separated by a comma and a blank."""
    text: str
    meaning: str
    """One or two sentences; for a warning or an error also what to do."""
    more_texts: tuple[str, ...] = ()
    """Other texts of the same event."""

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts."""
        return (self.text, *self.more_texts)
