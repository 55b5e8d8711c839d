"""Two runs beside each other."""

import pytest

from bench.runs.compare import NothingInCommonError, changes, not_compared
from bench.runs.scenario import Case
from bench.runs.table import text
from tests.unit.runs.kit import row


def runs(*p50s, target="kraft-bridge", column="commit_p50_ms"):
    return [row(target, n, **{column: value}) for n, value in enumerate(p50s, 1)]


def regressed(before, after, **options):
    found = changes(before, after, **({"tolerance": 0.2} | options))
    return [change.measure.column for change in found if change.regressed]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((10.0,), (13.0,), ["commit_p50_ms"]),
        ((10.0,), (11.9,), []),
        ((10.0,), (7.0,), []),
        ((0.1,), (0.4,), []),  # below the floor
        ((10.0, 10.0, 10.0), (13.0, 13.0, 13.0), ["commit_p50_ms"]),
        ((10.0, 10.0, 14.0), (13.0, 13.0, 13.0), []),  # within what happened before
        ((0.0,), (5.0,), ["commit_p50_ms"]),
    ],
)
def test_a_latency(before, after, expected):
    assert regressed(runs(*before), runs(*after)) == expected


def test_a_rate_is_worse_when_it_is_lower():
    before = runs(100.0, column="zk_changes_per_s")
    assert regressed(before, runs(70.0, column="zk_changes_per_s")) == ["zk_changes_per_s"]
    assert regressed(before, runs(130.0, column="zk_changes_per_s")) == []


def test_void_rows_do_not_count():
    before, after = runs(10.0, 10.0), runs(10.0, 50.0)
    after[1].void = "the trees differ"
    assert regressed(before, after) == []


def test_what_was_measured_before_and_is_void_or_missing_now_became_worse():
    before = runs(100.0, 100.0, column="zk_changes_per_s")
    missing = runs(None, None, column="zk_changes_per_s")
    assert regressed(before, missing) == ["zk_changes_per_s"]
    void = runs(100.0, 100.0, column="zk_changes_per_s")
    for each in void:
        each.void = "the trees differ"
    assert regressed(before, void) == ["zk_changes_per_s"]
    [change] = changes(before, void, tolerance=0.2)
    assert change.line().endswith("into ZooKeeper, /s 100 -> nothing")


def test_a_figure_that_a_row_may_lack_for_another_reason_did_not_become_worse():
    """After the death of a leader, ZooKeeper's transactions cannot be counted."""
    before = runs(9, 9, column="zk_transactions") + runs(1.0, target="kafka")
    after = runs(None, None, column="zk_transactions") + runs(1.0, target="kafka")
    assert regressed(before, after) == []


def test_rows_that_did_not_get_there_are_slower_than_any_that_did():
    """Else the median would be that of the rows that were fast enough."""
    before = runs(100.0, 101.0, 102.0, column="zk_changes_per_s")
    after = runs(150.0, None, None, column="zk_changes_per_s")
    [change] = changes(before, after, tolerance=0.2)
    assert change.after == 0
    assert change.worse == float("inf")
    assert "| into ZooKeeper, /s | 0 |" in text(after, ["kraft-bridge"])
    latency = runs(5.0, None, None)
    assert "| commit p50, ms | never |" in text(latency, ["kraft-bridge"])
    [change] = changes(runs(5.0, 5.0, 5.0), latency, tolerance=0.2)
    assert change.after == float("inf")


def test_more_refusals_are_worse_and_the_table_says_how_many_there_are():
    assert regressed(runs(0, 0, column="refused"), runs(7, 9, column="refused")) == ["refused"]
    assert "| not answered with success | 8 |" in text(
        runs(7, 9, column="refused"), ["kraft-bridge"]
    )


@pytest.mark.parametrize("change", [{"rate": 99}, {"count": 21}, {"latency_ms": 5.0}])
def test_a_case_that_was_changed_between_the_runs_is_not_compared(change):
    other = Case("small", **({"rate": 10, "count": 20} | change))
    before = runs(10.0)
    after = [row(case=other, commit_p50_ms=30.0)]
    assert not_compared(before, after) == [
        "storm.small kraft-bridge: not the same load in both runs"
    ]
    with pytest.raises(NothingInCommonError):
        changes(before, after, tolerance=0.2)


def test_what_is_in_one_run_only_is_said():
    both = runs(10.0)
    more = both + runs(10.0, target="kafka")
    assert not_compared(both, both) == []
    assert not_compared(more, both) == ["storm.small kafka: not in the newer run"]
    assert not_compared(both, more) == ["storm.small kafka: not in the older run"]


def test_relative_to_a_target_the_speed_of_the_machine_cancels():
    before = runs(10.0, 12.0) + runs(100.0, 120.0, target="kafka")
    slower = runs(20.0, 24.0) + runs(200.0, 240.0, target="kafka")
    assert regressed(before, slower, relative="kafka") == []
    assert regressed(before, slower) == ["commit_p50_ms", "commit_p50_ms"]
    worse = runs(20.0, 24.0) + runs(100.0, 120.0, target="kafka")
    assert regressed(before, worse, relative="kafka") == ["commit_p50_ms"]


def test_runs_without_a_common_case_are_refused():
    with pytest.raises(NothingInCommonError):
        changes(runs(1.0), runs(1.0, target="kafka"), tolerance=0.2)


def test_the_table_shows_medians_and_ratios_by_round():
    rows = runs(10.0, 20.0, 30.0) + runs(100.0, 100.0, 100.0, target="kafka")
    shown = text(rows, ["kraft-bridge", "kafka"])
    assert "| commit p50, ms | 20 | 100 | 0.20 (0.10 - 0.30) |" in shown
    assert "6 rows, 0 void" in shown
