"""The phases of a migration as an operator sees them: facts -> phase -> what is ahead, one table.

Every verb, ``/status``, the metrics and the pages use these words. Kafka's own names (the driver's
states, the state in the log) are shown in brackets behind them. The rows are disjoint and complete:
each combination of facts is in exactly one row.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Final, NamedTuple, TypeVar

from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.migration.authority import Authority
from emulator.migration.states import State


class OperatorPhase(Enum):
    """The word for each state of a migration."""

    NOT_MIGRATING = "not migrating"
    """No migration was begun."""
    WAITING = "waiting"
    """A broker in ZooKeeper mode is the controller, nothing was copied."""
    COPYING = "copying"
    """``/controller`` is claimed, and the metadata is being copied."""
    COPY_PAUSED = "copy paused"
    """As copying, and the copy cannot go on until something is there again."""
    DUAL_WRITE = "dual write"
    """Every change is written to the metadata log and to ZooKeeper."""
    FINALISING = "finalising"
    """The controllers run without ``zookeeper.metadata.migration.enable``, and something is
    missing before the migration is final."""
    MIXED_QUORUM = "mixed quorum"
    """As finalising, and another controller still runs with it."""
    FINAL = "final"
    """ZooKeeper is not written any more; there is no way back."""
    CLAIMING = "claiming"
    """The log says that a migration is under way, and ZooKeeper has not confirmed this log yet."""
    REFUSED = "refused"
    """ZooKeeper follows another log, or another controller has the claim."""
    DEPOSED = "deposed"
    """The claim of this controller was taken from it."""
    RELEASED = "released"
    """``/controller`` was given back, and no broker was elected yet."""
    ROLLED_BACK = "rolled back"
    """A broker in ZooKeeper mode is the controller again."""
    FOREIGN = "another quorum"
    """KRaft controllers that were not given hold ``/controller``."""
    EMPTIED = "emptied"
    """Every topic is gone from ZooKeeper."""
    UNKNOWN = "unknown"
    """A znode that shows the phase cannot be read."""


class Reasons(Enum):
    """The reasons to wait that the driver has."""

    NONE = "none"
    SOME = "some"
    ROLLED_BACK = "rolled back"
    """One is that the cluster was rolled back since the last claim."""


class Modes(Enum):
    """The modes of the brokers that are registered."""

    NONE = "none"
    """No broker is registered."""
    ZOOKEEPER = "zookeeper"
    BOTH = "both"
    KRAFT = "kraft"


class Finalisation(Enum):
    """What keeps a leader without the flag from finalising."""

    OPEN = "open"
    """Nothing, or something that is none of the two below."""
    HELD = "held"
    """``kraftbridge.finalise.hold`` alone."""
    MIXED = "mixed"
    """Another controller runs with the flag."""


class Ahead(Enum):
    """What is ahead in a phase, if nothing more urgent is."""

    NOTHING = "nothing"
    PREFLIGHT = "preflight"
    MEET = "meet what it waits for"
    WAIT = "wait"
    SET_FLAG = "restart this controller with the flag"
    SEE_ROLLBACK = "see what is left of the rollback"
    RECOVER = "do what deposed_because says"
    START_BROKERS = "start the brokers"
    ROLL_BROKERS = "restart the brokers in KRaft mode"
    ROLL_CONTROLLERS = "restart the controllers without the flag"
    FINISH = "do what is missing before finalising"
    END_HOLD = "end the hold"


class PhaseFacts(NamedTuple):
    """Everything that decides the phase.

    ``log``: the state in the metadata log. ``authority``: GRANTED at a follower. ``driver``: None
    without ``zookeeper.metadata.migration.enable``.
    """

    log: MigrationState
    authority: Authority
    driver: State | None
    waits: Reasons = Reasons.NONE
    brokers: Modes = Modes.NONE
    finalisation: Finalisation = Finalisation.OPEN


_Fact = TypeVar("_Fact")


class PhaseRow(NamedTuple):
    """PhaseFacts, their phase, and what is ahead; a set that is empty stands for every value.

    ``older``: the word of ``migration.phase`` in ``/status``, which scripts of earlier releases
    read.
    """

    phase: OperatorPhase
    older: str
    ahead: Ahead
    log: AbstractSet[MigrationState] = frozenset()
    authority: AbstractSet[Authority] = frozenset()
    driver: AbstractSet[State | None] = frozenset()
    waits: AbstractSet[Reasons] = frozenset()
    brokers: AbstractSet[Modes] = frozenset()
    finalisation: AbstractSet[Finalisation] = frozenset()

    def holds(self, facts: PhaseFacts) -> bool:
        """Whether the facts are in this row."""
        return (
            _in(facts.log, self.log)
            and _in(facts.authority, self.authority)
            and _in(facts.driver, self.driver)
            and _in(facts.waits, self.waits)
            and _in(facts.brokers, self.brokers)
            and _in(facts.finalisation, self.finalisation)
        )


def _in(value: _Fact, values: AbstractSet[_Fact]) -> bool:
    return not values or value in values


_NONE, _PRE = frozenset({MigrationState.NONE}), frozenset({MigrationState.PRE_MIGRATION})
_COPIED, _FINAL = frozenset({MigrationState.MIGRATION}), frozenset({MigrationState.POST_MIGRATION})
_GRANTED, _UNFINISHED = frozenset({Authority.GRANTED}), frozenset({Authority.UNFINISHED})
_UNPROVEN, _REFUSED = frozenset({Authority.UNPROVEN}), frozenset({Authority.REFUSED})
_MAY = _GRANTED | _UNPROVEN
"""Before the copy a log shows the state of the cluster, confirmed or not."""
_COPIES = frozenset({State.ZK_MIGRATION})
_FLAG: Final[frozenset[State | None]] = frozenset(State)
_NO_FLAG: Final[frozenset[State | None]] = frozenset({None})
_NO_WAITS, _WAITS = frozenset({Reasons.NONE}), frozenset({Reasons.SOME, Reasons.ROLLED_BACK})
_ROLLED_BACK, _OTHER_WAITS = (
    frozenset({Reasons.ROLLED_BACK}),
    frozenset({Reasons.NONE, Reasons.SOME}),
)
_IN_ZOOKEEPER_MODE = frozenset({Modes.ZOOKEEPER, Modes.BOTH})
_OPEN, _HELD = frozenset({Finalisation.OPEN}), frozenset({Finalisation.HELD})
_MIXED = frozenset({Finalisation.MIXED})

_P: Final = OperatorPhase

# fmt: off
TABLE: Final = (
    PhaseRow(_P.NOT_MIGRATING, "not migrating", Ahead.PREFLIGHT, _NONE, _MAY, waits=_NO_WAITS),
    PhaseRow(_P.NOT_MIGRATING, "not migrating", Ahead.MEET, _NONE, _MAY, waits=_WAITS),
    PhaseRow(_P.WAITING, "pre-migration", Ahead.WAIT, _PRE, _MAY, _FLAG - _COPIES, _NO_WAITS),
    PhaseRow(_P.WAITING, "pre-migration", Ahead.MEET, _PRE, _MAY, _FLAG - _COPIES, _WAITS),
    PhaseRow(_P.WAITING, "pre-migration", Ahead.SET_FLAG, _PRE, _MAY, _NO_FLAG),
    PhaseRow(_P.COPYING, "copying", Ahead.WAIT, _PRE, _MAY, _COPIES, _NO_WAITS),
    PhaseRow(_P.COPY_PAUSED, "copying", Ahead.MEET, _PRE, _MAY, _COPIES, _WAITS),
    PhaseRow(_P.DUAL_WRITE, "hybrid", Ahead.ROLL_BROKERS, _COPIED, _GRANTED, _FLAG,
        brokers=_IN_ZOOKEEPER_MODE),
    PhaseRow(_P.DUAL_WRITE, "dual write", Ahead.ROLL_CONTROLLERS, _COPIED, _GRANTED, _FLAG,
        brokers=frozenset({Modes.KRAFT})),
    PhaseRow(_P.DUAL_WRITE, "dual write", Ahead.START_BROKERS, _COPIED, _GRANTED, _FLAG,
        brokers=frozenset({Modes.NONE})),
    PhaseRow(_P.FINALISING, "finalising", Ahead.FINISH, _COPIED, _GRANTED, _NO_FLAG,
        finalisation=_OPEN),
    PhaseRow(_P.FINALISING, "finalising", Ahead.END_HOLD, _COPIED, _GRANTED, _NO_FLAG,
        finalisation=_HELD),
    PhaseRow(_P.MIXED_QUORUM, "finalising", Ahead.FINISH, _COPIED, _GRANTED, _NO_FLAG,
        finalisation=_MIXED),
    PhaseRow(_P.FINALISING, "finalising", Ahead.FINISH, authority=_UNFINISHED,
        finalisation=_OPEN | _HELD),
    PhaseRow(_P.MIXED_QUORUM, "finalising", Ahead.FINISH, authority=_UNFINISHED,
        finalisation=_MIXED),
    PhaseRow(_P.FINAL, "finalised", Ahead.NOTHING, _FINAL, _MAY),
    PhaseRow(_P.CLAIMING, "claiming", Ahead.WAIT, _COPIED, _UNPROVEN, waits=_NO_WAITS),
    PhaseRow(_P.CLAIMING, "claiming", Ahead.MEET, _COPIED, _UNPROVEN, waits=_WAITS),
    PhaseRow(_P.REFUSED, "refused", Ahead.MEET, authority=_REFUSED, waits=_OTHER_WAITS),
    PhaseRow(_P.ROLLED_BACK, "refused", Ahead.SEE_ROLLBACK, authority=_REFUSED,
        waits=_ROLLED_BACK),
    PhaseRow(_P.DEPOSED, "deposed", Ahead.RECOVER, authority=frozenset({Authority.DEPOSED})),
)
"""Every combination of facts is in one of these rows, and in one only."""
# fmt: on


def row_of(facts: PhaseFacts) -> PhaseRow:
    """The row of these facts.

    Raises:
        LookupError: no row has them, which is an error of the table.

    >>> row_of(PhaseFacts(MigrationState.POST_MIGRATION, Authority.GRANTED, None)).phase.value
    'final'
    """
    for row in TABLE:
        if row.holds(facts):
            return row
    raise LookupError(f"no row for {facts}")


def modes_of(image: Image) -> Modes:
    """The modes of the registered brokers."""
    zookeeper = kraft = False
    for broker in image.brokers.values():
        zookeeper, kraft = (
            zookeeper or broker.is_migrating_zk_broker,
            kraft or not broker.is_migrating_zk_broker,
        )
        if zookeeper and kraft:
            return Modes.BOTH
    return Modes.ZOOKEEPER if zookeeper else Modes.KRAFT if kraft else Modes.NONE


def text_of(phase: OperatorPhase, kraft_brokers: int, brokers: int) -> str:
    """The phase as it is shown.

    >>> text_of(OperatorPhase.DUAL_WRITE, 2, 3), text_of(OperatorPhase.COPYING, 0, 3)
    ('dual write (2 of 3 brokers in KRaft mode)', 'copying')
    """
    if phase is not OperatorPhase.DUAL_WRITE:
        return str(phase.value)
    return f"{phase.value} ({kraft_brokers} of {brokers} brokers in KRaft mode)"


WAIT_FOR: Final = {
    "copying": "copying",
    "dual-write-begun": "hybrid",
    "all-brokers-in-kraft": "dual write",
    "final": "finalised",
}
"""What ``status --wait`` takes -> the word of ``migration.phase``; that one or a later one."""
OLDER_NAMES: Final = {
    "hybrid": "dual-write-begun",
    "dual-write": "all-brokers-in-kraft",
    "finalised": "final",
    "not-migrating": "",
    "pre-migration": "",
    "finalising": "",
}
"""What ``--wait`` took before, and takes still -> its name now; empty: it has none."""
