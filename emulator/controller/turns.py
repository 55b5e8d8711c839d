"""Whose turn it is among the calls that may append records: one after the other.

A call that decides or appends more than a slice goes on in later steps (``emulator/seam.py``).
What may append waits for it, in order of arrival: no record may come between the image that it was
decided on and its own records. What only reads, and a heartbeat that appends nothing, passes.

Kafka's controller takes one event after the other too, however long each of them is.

Source: KafkaEventQueue, QuorumController.appendWriteEvent, Kafka 3.9.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from emulator.controller.answers import Answers
from emulator.controller.context import Call
from emulator.seam import Slices, Ticket

CALLS_PER_STEP: Final = 32
"""Calls that waited for a long one and are taken in one step after it; most take 0.1 ms each."""


class Turns:
    """The call, or the controller's own work, that is under way, and the calls that wait for it.

    Args:
        answers: takes what a call raises.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._current: tuple[Call | None, Slices[None]] | None = None
        self._held: deque[Call] = deque()
        self._next: Call | None = None
        """One that has waited, while it is taken."""

    @property
    def under_way(self) -> bool:
        """Whether a call is not finished; nothing else may be appended meanwhile."""
        return self._current is not None

    @property
    def busy(self) -> bool:
        """Whether a call is not finished, or calls wait."""
        return self._current is not None or bool(self._held)

    @property
    def conns(self) -> set[int]:
        """The connections of the call that is under way and of those that wait."""
        conns = {call.ticket.conn for call in self._held}
        if self._current is not None and self._current[0] is not None:
            conns.add(self._current[0].ticket.conn)
        return conns

    def waits(self, call: Call) -> bool:
        """Whether a call has to wait for others."""
        return self._current is not None or (bool(self._held) and not self.called(call))

    def called(self, call: Call) -> bool:
        """Whether it has waited, and is taken now."""
        return self._next is call

    def hold(self, call: Call) -> None:
        """Let a call wait for its turn; :meth:`waiting` returns it."""
        self._held.append(call)

    def begin(self, call: Call | None, slices: Slices[None]) -> None:
        """Do the first slice of a call; if there are more, or the step is over, it is under way.

        Args:
            call: None: nobody asked for it.
            slices: what it does.

        Raises:
            Exception: of the slice; the call has ended.
        """
        budget = self._answers.budget
        # One that passes the others does nothing but to hold itself, if it is long.
        if (budget.over and not self.under_way) or budget.goes_on(slices):
            assert not self.under_way, "one call after the other"
            self._current = call, slices

    def go_on(self) -> None:
        """Do the next slice of the call that is under way, if there is one."""
        current, self._current = self._current, None
        if current is None:
            return
        call, slices = current
        budget = self._answers.budget
        if call is None:
            self._current = current if budget.goes_on(slices) else None
            return
        with self._answers.to(call):
            if budget.goes_on(slices):
                self._current = current

    def finish(self) -> None:
        """Do all its slices: something has to be appended now."""
        while self._current is not None:
            self.go_on()

    def waiting(self) -> Iterator[Call]:
        """Calls whose turn it is, a few, until one of them is under way."""
        for _ in range(CALLS_PER_STEP):
            if self.under_way or not self._held:
                break
            self._next = self._held.popleft()
            yield self._next
        self._next = None

    def drop(self, gone: Callable[[Ticket], bool], *, current: bool) -> list[Call]:
        """Remove the calls of these tickets; returns them.

        Args:
            gone: which ones.
            current: also the call that is under way.
        """
        dropped: list[Call] = []
        for _ in range(len(self._held)):
            call = self._held.popleft()
            (dropped if gone(call.ticket) else self._held).append(call)
        last = self._current[0] if current and self._current is not None else None
        if last is not None and gone(last.ticket):
            dropped += self._end()
        return dropped

    def drain(self) -> list[Call]:
        """Remove and return all calls; the one under way appends nothing more."""
        calls = self._end()
        calls += self._held
        self._held.clear()
        return calls

    def _end(self) -> list[Call]:
        current, self._current = self._current, None
        if current is None:
            return []
        call, slices = current
        slices.close()
        return [] if call is None else [call]
