"""The Fetches that wait: for something new, or until their time is up.

Voters are woken by whatever is new, observers at their pace (:class:`ObserverPace`); all are
woken when the epoch, the leader or what observers may read changes. Woken ones are taken a few per
step, oldest first.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from emulator.raft.config import WOKEN_PER_STEP_MAX
from emulator.seam import Ticket, earlier
from wire import messages as m

PAUSE_US_PER_OBSERVER: Final = 250
"""Three or four times what one answer costs: to answer 200 observers takes a third of the time."""
PAUSE_MS_MAX: Final = 50
"""An observer learns of a change at most this much later; a lease of a broker is 9 s."""


class ObserverPace:
    """When waiting Fetches of observers are answered with news: at once, or after a pause.

    Each committed change is news for every observer, and each answer is a request of its own: with
    200 observers, 50 changes a second would be 10,000 answers a second. So after the observers were
    answered, they rest for a time that grows with their number. What is new meanwhile is sent at
    the end of that time, in one answer each. A few observers never rest, and neither do those that
    missed the last round of answers: only what is newer than that is gathered. Voters are always
    answered at once.

    Kafka has no such pause. There the leader gathers appended records for 25 ms before it writes
    them (``controller.quorum.append.linger.ms``), and callers wait for that too.

    Times are milliseconds that never go back.
    """

    def __init__(self) -> None:
        self._rests_until_ms = 0
        self._answered_end = 0
        self._news = False

    @property
    def due_ms(self) -> int | None:
        """When waiting observers are to be answered; None while there is nothing new."""
        return self._rests_until_ms if self._news else None

    def news(self) -> None:
        """More is durable, or committed, than the observers got last."""
        self._news = True

    def is_due(self, now_ms: int) -> bool:
        """Whether waiting observers are to be answered now."""
        return self._news and self._rests_until_ms <= now_ms

    def answered(self, observers: int, end_offset: int, now_ms: int) -> None:
        """All waiting observers are answered now.

        Args:
            observers: how many they are.
            end_offset: everything below is durable, and in the answers.
            now_ms: the time.
        """
        pause_ms = min(PAUSE_MS_MAX, observers * PAUSE_US_PER_OBSERVER // 1000)
        self._rests_until_ms = now_ms + pause_ms
        self._answered_end = end_offset
        self._news = False

    def rests(self, offset: int, now_ms: int) -> bool:
        """Whether a Fetch at an offset must wait for the next round of answers, even with news."""
        return self._news and now_ms < self._rests_until_ms and offset >= self._answered_end


@dataclass(frozen=True, slots=True)
class Parked:
    """A Fetch that waits.

    ``offset`` and ``high_watermark``: what its sender knows, so that it is woken only by more.
    """

    ticket: Ticket
    request: m.FetchRequest
    version: int
    offset: int
    high_watermark: int


class _FetchLine:
    """Parked Fetches by the time at which they are answered at the latest."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Parked]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def deadline_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def add(self, parked: Parked, deadline_ms: int) -> None:
        self._count += 1
        heapq.heappush(self._heap, (deadline_ms, self._count, parked))

    def take_late(self, now_ms: int) -> list[Parked]:
        """Those whose time is up."""
        taken: list[Parked] = []
        while self._heap and self._heap[0][0] <= now_ms:
            taken.append(heapq.heappop(self._heap)[2])
        return taken

    def take(self, wanted: Callable[[Parked], bool]) -> list[Parked]:
        """Remove and return the wanted Fetches, oldest first."""
        taken: list[Parked] = []
        left: list[tuple[int, int, Parked]] = []
        for entry in sorted(self._heap):
            if wanted(entry[2]):
                taken.append(entry[2])
            else:
                left.append(entry)
        # Sorted, so it is a heap.
        self._heap = left
        return taken


class WaitingFetches:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._voters = _FetchLine()
        self._observers = _FetchLine()
        self._pace = ObserverPace()
        self._woken: deque[Parked] = deque()

    @property
    def deadline_ms(self) -> int | None:
        """When ``tick`` is due: at once (0) while woken ones are left; None if no Fetch waits."""
        if self._woken:
            return 0
        return earlier(self._voters.deadline_ms, self._observers_ms())

    def _observers_ms(self) -> int | None:
        at_latest = self._observers.deadline_ms
        return None if at_latest is None else earlier(at_latest, self._pace.due_ms)

    def add(self, parked: Parked, deadline_ms: int, *, voter: bool) -> None:
        """Let a Fetch wait until ``deadline_ms`` at most."""
        (self._voters if voter else self._observers).add(parked, deadline_ms)

    def rests(self, offset: int, now_ms: int) -> bool:
        """Whether an observer's Fetch must wait although there may be something new for it."""
        return self._pace.rests(offset, now_ms)

    def wake(self) -> None:
        """Wake all: what they were waiting for may never come."""
        for line in (self._voters, self._observers):
            self._woken.extend(line.take(lambda _: True))

    def news(self, end_offset: int, high_watermark: int, now_ms: int) -> None:
        """More is durable, below ``end_offset``, or committed, below ``high_watermark``."""
        self._pace.news()
        self._woken.extend(self._voters.take(lambda _: True))
        self.tick(end_offset, high_watermark, now_ms)

    def tick(self, end_offset: int, high_watermark: int, now_ms: int) -> None:
        """Wake Fetches whose time is up, and those of observers when news is due."""
        for line in (self._voters, self._observers):
            self._woken.extend(line.take_late(now_ms))
        if self._pace.is_due(now_ms):
            behind = self._observers.take(
                lambda one: one.offset < end_offset or one.high_watermark != high_watermark
            )
            self._pace.answered(len(behind), end_offset, now_ms)
            self._woken.extend(behind)

    def take(self) -> list[Parked]:
        """Some of the woken Fetches; the rest is for the next call."""
        count = min(len(self._woken), WOKEN_PER_STEP_MAX)
        return [self._woken.popleft() for _ in range(count)]
