"""The invariants, each an object with a name that observes a run and changes nothing.

Each looks after every step of a controller process, after every request that ZooKeeper has served,
at every request that a broker receives, and at the end, when no message is under way. Their names
are explained in ``docs/dev/simulation.md``; the numbers are those of the invariants in
``ARCHITECTURE.md``.
"""

from __future__ import annotations

from typing import Final

from emulator.simulation.checkers.answers import (
    AnsweredIsCommitted,
    HandlersCope,
    NobodyRefused,
    PassedOnUntilTimeout,
    RefusedUnnamed,
)
from emulator.simulation.checkers.base import Checker
from emulator.simulation.checkers.brokers import (
    BrokersAgree,
    SentOnlyCommitted,
    SentOnlyToRegistered,
)
from emulator.simulation.checkers.chain import (
    ChainAgrees,
    CopyIsClaimed,
    EpochsGrow,
    OldSessionEnded,
    OneWriter,
)
from emulator.simulation.checkers.finalised import FinalIsFinal
from emulator.simulation.checkers.lag import LagBounded, LagIsTrue
from emulator.simulation.checkers.tree import ShowsCommitted, TreeIsLog
from emulator.simulation.checkers.voters import MarkIsCommitted, OneActive, VotersAgree
from emulator.simulation.scenarios.scenario import Scenario

OF_MIGRATION: Final[tuple[type[Checker], ...]] = (
    ShowsCommitted,
    ChainAgrees,
    OneWriter,
    EpochsGrow,
    OldSessionEnded,
    CopyIsClaimed,
    TreeIsLog,
    LagBounded,
    LagIsTrue,
    SentOnlyToRegistered,
    SentOnlyCommitted,
    FinalIsFinal,
)
OF_CLIENTS: Final[tuple[type[Checker], ...]] = (
    AnsweredIsCommitted,
    HandlersCope,
    PassedOnUntilTimeout,
    RefusedUnnamed,
    BrokersAgree,
)
OF_SEVERAL: Final[tuple[type[Checker], ...]] = (OneActive, MarkIsCommitted, VotersAgree)


def of(scenario: Scenario) -> tuple[type[Checker], ...]:
    """The checkers that a run has, in the order in which they are called."""
    checkers = (OF_MIGRATION if scenario.migration else ()) + OF_CLIENTS
    checkers += (NobodyRefused,) if scenario.goal else ()
    return checkers + (OF_SEVERAL if scenario.controllers > 1 else ())
