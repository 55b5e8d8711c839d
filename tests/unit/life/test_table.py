"""The table of a life."""

from __future__ import annotations

from bench.life.table import PhaseRow, Restart, restarts, table

ROW = PhaseRow(
    "3.9.2",
    "roll",
    seconds=61.4,
    restarts=[Restart("broker 0", "migrating to kraft", 12.34, 1.5, None)],
    record_s=1.5,
    change_s=2.25,
    nobody_s=0.4,
    lag_records=7,
    lag_ms=31,
    checks=["one", "two"],
)


def test_a_phase_is_a_line():
    assert table([ROW])[2] == (
        "| 3.9.2 | roll | 61 | 1 | 1.50 | 2.25 | 0.4 | 7 records, 31 ms | 2 held |"
    )


def test_a_check_that_failed_is_seen_in_the_line():
    wrong = PhaseRow("3.9.2", "roll", wrong=["lost"])
    assert table([wrong])[2].endswith("| 1 FAILED, 0 held |")


def test_a_check_that_was_not_judged_is_seen_in_the_line():
    slow = PhaseRow("3.9.2", "rollback", checks=["one"], unjudged=["late"])
    assert table([slow])[2].endswith("| 1 held, 1 not judged |")


def test_every_line_has_the_cells_of_its_head():
    for lines in (table([ROW]), restarts([ROW])):
        assert len({line.count("|") for line in lines}) == 1


def test_a_restart_is_a_line():
    assert (
        restarts([ROW])[2] == "| 3.9.2 | roll | broker 0 | migrating to kraft | 12.3 | 1.50 | - |"
    )
