"""When a leader gives its leadership up, so that another voter may lead; one table of reasons.

A reason in the configuration of this node lasts until an operator acts, so it gives up at once. So
does a leader whose claim is over: it was deposed, or its claim cannot be recognised any more. It
may write nothing in its epoch; the guards judge the next claim, of a later one, as after a restart.

A leader that ZooKeeper has not confirmed, and that has no session with it, waits first: ZooKeeper
may be away for all. Callers and brokers are refused meanwhile in any case, so nothing is lost.
Each further time it waits twice as long, so leadership does not circle while nobody reaches it.
Who would give up lets the others stand first (``Raft.yield_to_others``).

A leader that cannot claim for a reason that may be in its own configuration, such as a wrong chroot
or a login that may not write, does the same, sooner.

A leader whose claim is valid stays, however long it has no session: it serves callers up to the
bounds of the write-behind, and brokers always. Whether another voter has a session it does not
know, and without one nobody would be served.

Not in Kafka 3.9, where a leader without ZooKeeper tries for ever (KRaftMigrationDriver).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from emulator.migration.authority import Authority

CATCH_UP_MS: Final = 3_000
"""A term lasts so long at least, as another voter with a shorter log cannot be elected."""


class Unfit(Enum):
    """Why a node does not lead on."""

    OWN_FAULT = "its configuration or its release"
    OVER = "its claim is over, and one of a later epoch is judged anew"
    APART = "it alone may be without ZooKeeper"
    REFUSED = "it alone may be unable to claim"


class Patience(NamedTuple):
    """How long a reason must last, in ms; each further time twice as long, up to ``max_ms``."""

    first_ms: int
    max_ms: int


PATIENCE: Final[Mapping[Unfit, Patience]] = MappingProxyType(
    {
        Unfit.OWN_FAULT: Patience(0, 0),
        Unfit.OVER: Patience(0, 0),
        Unfit.APART: Patience(30_000, 16 * 60_000),
        Unfit.REFUSED: Patience(5_000, 16 * 60_000),
    }
)


SPARE: Final = Patience(5_000, 20_000)
"""In place of that of ``Unfit.APART``, if a voter without the flag could serve: the mark holds."""


def unfit(
    *, own_fault: bool, over: bool, apart: bool, refused: bool, authority: Authority, alone: bool
) -> Unfit | None:
    """Judge whether a leader should give up, once the reason has lasted; None: it should not.

    Args:
        own_fault: whether the migration waits for something in this node's configuration.
        over: whether its claim is over for this epoch.
        apart: whether it has no session with ZooKeeper.
        refused: whether it cannot claim, for a reason that may be this node's alone.
        authority: whether ZooKeeper confirms its log.
        alone: whether it is the only voter.

    >>> known = {"own_fault": False, "over": False, "apart": True, "refused": True}
    >>> unfit(**known, authority=Authority.UNPROVEN, alone=False)
    <Unfit.APART: 'it alone may be without ZooKeeper'>
    """
    if alone:
        return None
    if own_fault:
        return Unfit.OWN_FAULT
    if over:
        return Unfit.OVER
    if apart and authority is Authority.UNPROVEN:
        return Unfit.APART
    return Unfit.REFUSED if refused else None


class Apartness:
    """Since when this node has no session with ZooKeeper, and how often it gave up because of it.

    ``times``: since it had a session last. Another one is for a claim that this node cannot make.
    """

    def __init__(self) -> None:
        self.times = 0
        self._since_ms: int | None = None

    def seen(self, since_ms: int | None) -> None:
        """Since when there is no session, as the client says; None: there is one."""
        self._since_ms = since_ms
        if since_ms is None:
            self.times = 0

    def goes_on(self, now_ms: int) -> None:
        """It is so now, and was so since it was seen first."""
        self._since_ms = now_ms if self._since_ms is None else self._since_ms

    def lasts(self, now_ms: int) -> bool:
        """Whether there is no session for so long that this node would give up."""
        first_ms = PATIENCE[Unfit.APART].first_ms
        return self._since_ms is not None and now_ms - self._since_ms >= first_ms

    def due_ms(self, term_ms: int, patience: Patience = PATIENCE[Unfit.APART]) -> int | None:
        """When to give a term up that began at ``term_ms``; None: there is a session.

        The first time it counts from the loss of the session, which may be before the term; the
        others get the time to fetch what this leader alone has. ``patience``: how long it waits.
        """
        if self._since_ms is None:
            return None
        if self.times == 0:
            return max(self._since_ms + patience.first_ms, term_ms + CATCH_UP_MS)
        return max(term_ms, self._since_ms) + min(
            patience.first_ms << min(self.times, 10), patience.max_ms
        )
