"""The state of the migration, for operators."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.migration.authority import Authority
from emulator.migration.dual_write.bound import Bounds, BoundStatus
from emulator.migration.dual_write.poison import Poisoned
from emulator.migration.phases import PhaseFacts, PhaseRow, Reasons, modes_of, row_of
from emulator.migration.states import State
from emulator.migration.taking_over.preconditions import OWN_FAULTS, PERHAPS_OWN, Reason, Why
from emulator.seam import Effect, Log


@dataclass(frozen=True, slots=True)
class Waiting:
    """One reason why the migration waits, and since when."""

    reason: Reason
    since_ms: int


class Waits:
    """All current reasons to wait; returns which are new."""

    def __init__(self) -> None:
        self._reasons: dict[tuple[Why, str], Waiting] = {}

    @property
    def reasons(self) -> tuple[Waiting, ...]:
        """The reasons in the order in which they were given."""
        return tuple(self._reasons.values())

    @property
    def own_fault(self) -> str:
        """The first one that is due to the configuration of this node alone; empty without one."""
        return self._first(OWN_FAULTS)

    @property
    def perhaps_own(self) -> str:
        """The first one that may be due to it; empty without one."""
        return self._first(PERHAPS_OWN)

    @property
    def over(self) -> str:
        """The first one that ends with the epoch of this leader; empty without one."""
        found = (one.reason for one in self._reasons.values() if one.reason.next_epoch)
        return next((reason.text for reason in found), "")

    def _first(self, kinds: AbstractSet[Why]) -> str:
        found = (one.reason for one in self._reasons.values() if one.reason.why in kinds)
        return next((reason.text for reason in found), "")

    def clear(self) -> None:
        """Remove all reasons."""
        self._reasons.clear()

    def set_reasons(self, reasons: Iterable[Reason], now_ms: int) -> list[Effect]:
        """Set all current reasons; a reason that was there before keeps its time."""
        before, self._reasons = self._reasons, {}
        effects: list[Effect] = []
        for reason in reasons:
            key = (reason.why, reason.subject)
            known = before.get(key)
            if known is None:
                fields: dict[str, object] = {"why": reason.why.value, "text": reason.text}
                effects.append(Log("error" if reason.fatal else "info", "waiting", fields))
            self._reasons[key] = Waiting(reason, now_ms if known is None else known.since_ms)
        return effects


@dataclass(frozen=True, slots=True)
class Status:
    """A snapshot of the driver; times in ms, lags in records unless stated otherwise."""

    state: str
    """A name of ``states.State``."""
    phase: str
    """The word that earlier releases have for it: ``older`` of :class:`PhaseRow`."""
    migration_state: str
    """What the log says: NONE, PRE_MIGRATION, MIGRATION, POST_MIGRATION."""
    waiting: tuple[Waiting, ...]
    records_copied: int
    lag_known: bool
    """Whether the three below say what ZooKeeper misses: the tree was compared in this term."""
    lag_records: int
    lag_longest_records: int
    """The most that ``lag_records`` has been in this term, since it is known."""
    lag_changed_records: int
    """Without NoOp records: 0 means that the two stores agree."""
    lag_ms: int
    bounds: Bounds
    bound: BoundStatus
    """What counts for the bounds, and which of them are reached."""
    committed_offset: int
    confirmed_offset: int
    """The offset that ``/migration`` is known to hold."""
    zk_epoch: int
    """Value of ``/controller_epoch`` as claimed; -1 before."""
    write_behind: str
    deposed_because: str
    poisoned: tuple[Poisoned, ...]
    blocked_since_ms: int | None
    """Since when one of them keeps everything after it from being written; None: none does."""
    may_roll_back: bool


def phase_of(
    image: Image, state: State, authority: Authority, waiting: Iterable[Waiting] = ()
) -> PhaseRow:
    """The phase of a controller with the flag, and what is ahead.

    Args:
        image: the newest stable one.
        state: of the driver.
        authority: GRANTED at a follower.
        waiting: the reasons to wait, those of no session with ZooKeeper too.
    """
    log = MigrationState(image.migration_state)
    return row_of(PhaseFacts(log, authority, state, waits_of(waiting), modes_of(image)))


def waits_of(waiting: Iterable[Waiting]) -> Reasons:
    """Of which kind these reasons are, for the phase."""
    found = Reasons.NONE
    for one in waiting:
        if one.reason.why is Why.ZOOKEEPER_MODE_TOOK_OVER:
            return Reasons.ROLLED_BACK
        found = Reasons.SOME
    return found
