"""Clients that change one value at a time, and what an answer to them promises.

If an answer never came, it is unknown whether the change was made: its value is not changed again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from random import Random
from typing import Final, Generic, TypeVar

from emulator.simulation.facts import Facts
from emulator.simulation.models.broker import BrokerAsked, SimulatedBroker
from emulator.simulation.violation import ensure
from wire.errors import ErrorCode

UNKNOWN: Final = frozenset({None, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER})
"""Errors, or None for no answer, after which a change may be committed all the same: a controller
that resigns answers NOT_CONTROLLER to the callers that wait for a commit.
"""
AGAIN: Final = frozenset(
    {
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.RESOURCE_NOT_FOUND,
    }
)
"""Errors of a change that was made already: a broker repeats a request whose answer was lost."""
REFUSED: Final = ErrorCode.UNKNOWN_SERVER_ERROR
"""The error for a client whose Envelope was refused; a checker judges whether it may be."""
THROUGH: Final = 0.5
"""Share of requests that go through a broker; the others go straight to the controller."""


def unsure(asked: BrokerAsked | None, error: int | None) -> bool:
    """Whether an error of a broker leaves open what became of a change.

    Args:
        asked: the request; None: the controller was asked itself.
        error: of the answer.
    """
    return asked is not None and (error == REFUSED or (asked.repeated and error in AGAIN))


K = TypeVar("K", bound=Hashable)


class Changes(Generic[K]):
    """Asks, and holds each answer against what is committed by then.

    Args:
        facts: the newest that is committed.
    """

    def __init__(self, facts: Callable[[], Facts]) -> None:
        self.rng = Random(0)
        """Decides what is asked for; set anew before each request."""
        self._facts = facts
        self._busy: set[K] = set()
        self._lost: set[K] = set()
        self.set = 0
        self.removed = 0

    @property
    def busy(self) -> bool:
        """Whether an answer is still expected."""
        return bool(self._busy)

    def one(self, brokers: list[SimulatedBroker]) -> None:
        """Ask for one change through one of the brokers."""
        raise NotImplementedError

    def _free(self, key: K) -> bool:
        return key not in self._busy and key not in self._lost

    def _ask(
        self,
        broker: SimulatedBroker,
        key: K,
        request: object,
        version: int,
        *,
        error_of: Callable[[object | None], int | None],
        kept: Callable[[], str | None],
        removes: bool,
    ) -> None:
        """Ask once.

        Args:
            broker: whom.
            key: what the change is about.
            request: the change.
            version: in which it is asked.
            error_of: the answer's error; None if it is no answer.
            kept: None if what was promised is committed, else what is not so.
            removes: for the count.
        """
        self._busy.add(key)

        def answered(answer: object | None, *, through: BrokerAsked | None = None) -> None:
            self._busy.discard(key)
            error = error_of(answer)
            if error in UNKNOWN or unsure(through, error):
                self._lost.add(key)
            else:
                ensure(error == ErrorCode.NONE, "expected-answers", f"{key}: {error}")
                broken = kept()
                ensure(broken is None, "answered-is-committed", f"{key}: {broken}")
                self.set += not removes
                self.removed += removes

        if self.rng.random() < THROUGH:
            broker.ask_as_client(
                request, version, lambda asked: answered(asked.answer, through=asked)
            )
        else:
            broker.ask(request, version, answered)
