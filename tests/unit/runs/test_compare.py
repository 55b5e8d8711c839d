"""Two runs beside each other."""

import copy
import functools
import math
import random

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


SAME = (10.0, 10.2, 9.9, 10.1)


def times(factor, values=SAME):
    return [factor * value for value in values]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (SAME, times(1.3), ["commit_p50_ms"]),
        (SAME, times(1.19), []),  # within the tolerance
        (SAME, times(0.7), []),
        (times(0.01), times(0.04), []),  # below the floor
        ((10.0, 10.0, 10.0, 14.0), (13.0, 13.0, 13.0, 13.0), []),  # within what happened before
        ([0.0] * 4, [5.0] * 4, ["commit_p50_ms"]),
        ((10.0,) * 4, (13.0,) * 4, ["commit_p50_ms"]),
    ],
)
def test_a_latency(before, after, expected):
    assert regressed(runs(*before), runs(*after)) == expected


def test_a_rate_is_worse_when_it_is_lower():
    before = runs(*SAME, column="zk_changes_per_s")
    slower, faster = (runs(*times(by), column="zk_changes_per_s") for by in (0.7, 1.3))
    assert regressed(before, slower) == ["zk_changes_per_s"]
    assert regressed(before, faster) == []


@pytest.mark.parametrize(("was", "now"), [(1, 1), (3, 9), (9, 3)])
def test_of_fewer_than_four_rows_it_cannot_be_said(was, now):
    [change] = changes(runs(*[10.0] * was), runs(*[99.0] * now), tolerance=0.2)
    assert change.regressed is None
    assert change.line().startswith("?     storm.small")


FIGURES = {  # by how much the logarithm scatters from row to row
    "zk_changes_per_s": 0.15,
    "achieved_per_s": 0.1,
    "commit_p50_ms": 0.3,
    "commit_p99_ms": 0.5,
    "commit_max_ms": 0.5,
    "lag_max_records": 0.6,
    "controller_cpu_s": 0.1,
    "zk_transactions": 0.2,
}
CASES = [Case(f"p{number}", rate=10, count=20) for number in range(3)]


@functools.cache
def blank_rows():
    """By repeat, case and target. Each draw copies them: making them took half of 200 draws."""
    return [
        [[row(target, n, case) for target in ("kraft-bridge", "kafka")] for case in CASES]
        for n in range(1, 6)
    ]


def a_run(chance, slower=1.0):
    """As rows scatter: a round has something of its own, and some rows are far off."""
    rows = []
    for of_repeat in blank_rows():
        of_round = chance.gauss(0, 0.1)
        for of_case in of_repeat:
            for blank in of_case:
                one = copy.copy(blank)
                far = 2.5 if chance.random() < 1 / 15 else 0.0
                for column, scatter in FIGURES.items():
                    value = 100 * math.exp(of_round + far * scatter * 2 + chance.gauss(0, scatter))
                    setattr(one, column, value)
                if one.case == CASES[0].name and one.target == "kraft-bridge":
                    one.commit_p50_ms *= slower
                rows.append(one)
    return rows


def test_two_runs_of_the_same_code_seldom_differ():
    """A/A: with 20 % of tolerance alone, half of such comparisons and more said WORSE."""
    chance, trials = random.Random(4), 200
    said = sum(bool(regressed(a_run(chance), a_run(chance))) for _ in range(trials))
    assert said / trials <= 0.05


def test_one_figure_of_fifty_that_becomes_much_worse_is_found():
    chance, trials = random.Random(5), 20
    found = [regressed(a_run(chance), a_run(chance, slower=8.0)) for _ in range(trials)]
    assert sum("commit_p50_ms" in each for each in found) >= 0.8 * trials


def test_void_rows_do_not_count():
    before, after = runs(*[10.0] * 4), runs(*[10.0] * 4, *[50.0] * 9)
    for each in after[4:]:
        each.void = "the trees differ"
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
    assert "| commit p50, ms | 5 |" in text(latency, ["kraft-bridge"]), "too few answers"
    for each in latency[1:]:
        each.refused = 20
    assert "| commit p50, ms | never |" in text(latency, ["kraft-bridge"])
    found = {change.measure.column: change for change in changes(runs(5.0), latency, tolerance=0.2)}
    assert found["commit_p50_ms"].after == float("inf")


def test_more_refusals_are_worse_and_the_table_says_how_many_there_are():
    before, after = (runs(*values, column="refused") for values in ([0] * 4, [7, 9, 8, 7]))
    assert regressed(before, after) == ["refused"]
    assert "| not answered with success | 8 |" in text(
        runs(7, 9, column="refused"), ["kraft-bridge"]
    )


@pytest.mark.parametrize(
    "change",
    [
        *({"rate": 99}, {"count": 21}, {"latency_ms": 5.0}, {"fsync_ms": (100.0,)}),
        *({"brokers": 100}, {"burst": 5}, {"poisson": True}, {"arrivals_s": (0.0, 0.5)}),
    ],
)
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
    ours, kafkas = (10.0, 12.0, 11.0, 9.0), (100.0, 120.0, 108.0, 91.0)
    before = runs(*ours) + runs(*kafkas, target="kafka")
    slower = runs(*times(2, ours)) + runs(*times(2, kafkas), target="kafka")
    assert regressed(before, slower, relative="kafka") == []
    assert regressed(before, slower) == ["commit_p50_ms", "commit_p50_ms"]
    worse = runs(*times(2, ours)) + runs(*kafkas, target="kafka")
    assert regressed(before, worse, relative="kafka") == ["commit_p50_ms"]


def test_runs_without_a_common_case_are_refused():
    with pytest.raises(NothingInCommonError):
        changes(runs(1.0), runs(1.0, target="kafka"), tolerance=0.2)


def test_the_table_shows_medians_and_ratios_by_round():
    rows = runs(10.0, 20.0, 30.0) + runs(100.0, 100.0, 100.0, target="kafka")
    shown = text(rows, ["kraft-bridge", "kafka"])
    assert "| commit p50, ms | 20 | 100 | 0.20 (0.10 - 0.30) |" in shown
    assert "6 rows, 0 void" in shown
