"""The table of phases: each combination of facts is in one row, and no row is there for nothing."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest

from emulator.commands.status_next import ORDER, STUCK, waited_for
from emulator.metadata.migration_state import MigrationState
from emulator.migration.authority import Authority
from emulator.migration.phases import (
    OLDER_NAMES,
    TABLE,
    WAIT_FOR,
    Ahead,
    Finalisation,
    Modes,
    OperatorPhase,
    PhaseFacts,
    PhaseRow,
    Reasons,
    row_of,
)
from emulator.migration.states import State

EVERY = [
    PhaseFacts(*facts)
    for facts in product(MigrationState, Authority, [*State, None], Reasons, Modes, Finalisation)
]


@cache
def rows_of_each() -> dict[PhaseFacts, list[PhaseRow]]:
    return {facts: [one for one in TABLE if one.holds(facts)] for facts in EVERY}


def test_each_combination_of_facts_has_one_phase_and_one_thing_ahead() -> None:
    assert len(EVERY) == 4 * 5 * 10 * 3 * 4 * 3
    assert [facts for facts, rows in rows_of_each().items() if len(rows) != 1] == []


@pytest.mark.parametrize("row", range(len(TABLE)))
def test_without_any_of_the_rows_some_combination_has_no_phase(row: int) -> None:
    assert [rows for rows in rows_of_each().values() if rows == [TABLE[row]]]


OF_TREES_ALONE = {
    OperatorPhase.RELEASED,
    OperatorPhase.FOREIGN,
    OperatorPhase.EMPTIED,
    OperatorPhase.UNKNOWN,
}
"""What rollback and preflight find without a controller to ask."""


def test_every_phase_of_a_controller_and_everything_ahead_is_in_the_table() -> None:
    assert {one.phase for one in TABLE} == set(OperatorPhase) - OF_TREES_ALONE
    assert {one.ahead for one in TABLE} == set(Ahead)
    assert {one.older for one in TABLE} == {*ORDER, *STUCK, "claiming"}


@pytest.mark.parametrize(
    ("facts", "phase", "ahead"),
    [
        (PhaseFacts(MigrationState.NONE, Authority.GRANTED, None), "not migrating", "preflight"),
        (
            PhaseFacts(MigrationState.PRE_MIGRATION, Authority.GRANTED, None),
            "waiting",
            "restart this controller with the flag",
        ),
        (
            PhaseFacts(
                MigrationState.PRE_MIGRATION, Authority.GRANTED, State.ZK_MIGRATION, Reasons.SOME
            ),
            "copy paused",
            "meet what it waits for",
        ),
        (
            PhaseFacts(
                MigrationState.MIGRATION,
                Authority.GRANTED,
                State.DUAL_WRITE,
                brokers=Modes.BOTH,
            ),
            "dual write",
            "restart the brokers in KRaft mode",
        ),
        (
            PhaseFacts(
                MigrationState.MIGRATION,
                Authority.GRANTED,
                State.DUAL_WRITE,
                brokers=Modes.KRAFT,
            ),
            "dual write",
            "restart the controllers without the flag",
        ),
        (
            PhaseFacts(
                MigrationState.MIGRATION,
                Authority.UNFINISHED,
                None,
                finalisation=Finalisation.MIXED,
            ),
            "mixed quorum",
            "do what is missing before finalising",
        ),
        (
            PhaseFacts(
                MigrationState.MIGRATION,
                Authority.REFUSED,
                State.INACTIVE,
                Reasons.ROLLED_BACK,
            ),
            "rolled back",
            "see what is left of the rollback",
        ),
    ],
)
def test_the_word_of_a_phase(facts: PhaseFacts, phase: str, ahead: str) -> None:
    found = row_of(facts)
    assert (found.phase.value, found.ahead.value) == (phase, ahead)


def test_what_is_waited_for_keeps_its_meaning_under_both_names() -> None:
    """The new name of one phase was to be no old name of another."""
    before = {one.replace(" ", "-"): one for one in ORDER}
    for name, phase in before.items():
        assert waited_for(name)[0] == phase
        assert waited_for(name.upper())[0] == phase
    for name, phase in WAIT_FOR.items():
        assert waited_for(name) == (phase, "")
        assert before.get(name, phase) == phase
    assert set(before) == {*OLDER_NAMES} | (before.keys() & WAIT_FOR.keys())
    assert waited_for("hybrid")[1] == "hybrid is called dual-write-begun now"
    for old, now in OLDER_NAMES.items():
        assert not now or WAIT_FOR[now] == before[old]
