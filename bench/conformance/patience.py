"""How long the judge waits: less where a server has let it wait in vain before."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

ANSWER_S: Final = (30.0, 10.0, 3.0)
"""For any answer, above the timeouts that requests name; once two never came; of an API that was
silent before."""
CLOSED_S: Final = (10.0, 3.0)
"""For the end of a connection; once two never came."""
CHANGE_S: Final = (20.0, 5.0)
"""For a change to be shown; once two never were."""
FORGIVEN: Final = 2


@dataclass(slots=True)
class Patience:
    """What was waited for in vain, of one server."""

    silent: Counter[int | None] = field(default_factory=Counter)
    """API key, None where only bytes are sent -> answers that never came."""
    unclosed: int = 0
    unchanged: int = 0
    in_a_row: int = 0
    """Answers that never came since the last one that did."""
    most: float | None = None
    """Seconds for any answer, instead of ``ANSWER_S``."""

    def answer_s(self, key: int | None) -> float:
        """For an answer of an API."""
        if self.most is not None:
            return self.most
        first, later, again = ANSWER_S
        if self.silent.total() < FORGIVEN:
            return first
        return again if self.silent[key] else later

    def closed_s(self) -> float:
        """For the end of a connection."""
        return CLOSED_S[self.unclosed >= FORGIVEN]

    def change_s(self) -> float:
        """For a change to be shown."""
        return CHANGE_S[self.unchanged >= FORGIVEN]

    def was_silent(self, key: int | None) -> None:
        """No answer came."""
        self.silent[key] += 1
        self.in_a_row += 1
