"""Two runs beside each other."""

import pytest

from bench.runs.compare import NothingInCommonError, changes
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
