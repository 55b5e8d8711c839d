"""How long clients waited, and how long no controller was active, in a phase or one restart."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

RECORD, CHANGE = "record", "change"
"""What a client waits for: a record acknowledged, an administrative change carried out."""
_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Wait:
    """One answer."""

    at_s: float
    """When it came, by the monotonic clock."""
    waited_s: float
    """Seconds from the intended instant of the request to its answer."""
    kind: str
    """``RECORD`` or ``CHANGE``."""


class Waits:
    """Answers to clients; any thread may note one."""

    def __init__(self) -> None:
        self._all: list[Wait] = []

    def note(self, kind: str, waited_s: float, at_s: float) -> None:
        """Enter an answer that came at ``at_s``, in seconds of the monotonic clock."""
        self._all.append(Wait(at_s, waited_s, kind))

    def longest(self, kind: str, since_s: float) -> float | None:
        """The longest wait of the answers that came since then, in seconds; None: none came."""
        # A copy: another thread may append while this one reads.
        found = [one.waited_s for one in self._all[:] if one.kind == kind and one.at_s >= since_s]
        return max(found, default=None)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What was seen of controllers at one instant."""

    someone: bool
    """Whether a controller, of either mode, carries out changes."""
    controller: Any = None
    """The active controller, with its epoch; None: there is none, or it is not known."""
    lag_records: int | None = None
    """Committed records that ZooKeeper lacks; None where that is not known, or not asked for."""
    lag_ms: int | None = None
    by_log: bool = False
    """It is a controller of ours; while ZooKeeper is written, one that ZooKeeper has confirmed."""


class RulingWatch:
    """Polls whether a controller is active, in a thread while its ``with`` block runs.

    Args:
        look: returns what is seen now; must not raise.
        clock: seconds.
    """

    def __init__(self, look: Callable[[], Ruling], clock: Callable[[], float]) -> None:
        self._look = look
        self._clock = clock
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="ruling", daemon=True)
        self._last_s: float | None = None
        self.without_controller_s = 0.0
        """Seconds without an active controller: from a look that saw none to the next look."""
        self.lag_records = 0
        """Longest lag seen."""
        self.lag_ms = 0
        self.quorum_s: float | None = None
        """When a controller of ours was first seen active."""
        self.quorum_until_s = 0.0
        """When a controller of ours was last seen active."""
        self.moved: list[tuple[float, float]] = []
        """From the last look that saw one controller, to the first that saw another one."""
        self._ruler: tuple[Any, float] | None = None

    def take(self, seen: Ruling, now_s: float) -> None:
        """Add an observation; ``now_s``: when the look began."""
        if self._last_s is not None and self._absent:
            self.without_controller_s += now_s - self._last_s
        self._absent = not seen.someone
        self._last_s = now_s
        if seen.by_log:
            self.quorum_s = now_s if self.quorum_s is None else self.quorum_s
            self.quorum_until_s = now_s
        if seen.controller is not None:
            if self._ruler is not None and self._ruler[0] != seen.controller:
                # The look itself takes time: what was seen may be newer than its begin.
                self.moved.append((self._ruler[1], self._clock()))
            self._ruler = seen.controller, now_s
        self.lag_records = max(self.lag_records, seen.lag_records or 0)
        self.lag_ms = max(self.lag_ms, seen.lag_ms or 0)

    _absent = False

    def _poll(self) -> None:
        while not self._over.is_set():
            now_s = self._clock()
            self.take(self._look(), now_s)
            self._over.wait(_POLL_S)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()
