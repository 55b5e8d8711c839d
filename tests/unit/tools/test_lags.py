"""What the page says of a ZooKeeper that is behind is what the kept rows give."""

from __future__ import annotations

import pytest

from bench.analysis.limits import BLOCKED_SHARE
from bench.runs.reading import HOME, read
from tools import lags, speeds
from tools.kept import filled, rows


def test_a_rollback_from_kafkas_controller_loses_what_its_lag_is() -> None:
    _, found = rows("once-*.jsonl")
    of = {row["target"]: row for row in found if row["case"] == "rate200-latency0"}
    row, ours = of["kafka"], of["kraft-bridge"]["lag_end_records"]
    waits_s = row["zk_s"] - row["count"] / row["rate_per_s"]
    said = "".join(lags.rollback())
    behind = f"{ours:,.0f} / {row['lag_end_records']:,.0f}"
    assert f"| 200, after 20 s | {behind} | 0.0 / {waits_s:.1f} |" in said
    assert said.count(" after ") == 6
    assert said.count("| ZooKeeper, stopped |") == 1


def test_the_slow_log_has_its_border_between_two_rates_a_quarter_apart() -> None:
    cases = read(HOME / "slow-log.toml").cases
    border = lags.predicted_border(cases[0])
    rates = [case.rate or 0.0 for case in cases]
    below, above = max(r for r in rates if r < border), min(r for r in rates if r > border)
    assert above / below == pytest.approx(1.25, abs=0.01)
    assert {case.fsync_ms for case in cases} == {(100.0,)}
    assert f"from **{border:.0f} changes/s** on" in "".join(lags.slow_log())


def test_stalls_of_half_a_minute_and_a_whole_one_are_in_windows_of_60_s_and_more() -> None:
    cases = read(HOME / "long-stall.toml").cases
    assert {(case.freeze_s, case.seconds) for case in cases} == {(30.0, 60.0), (60.0, 100.0)}
    said = "".join(lags.long_stalls())
    for case in cases:
        assert f"| {case.rate:g} | {case.freeze_s:g} | {case.bound_records:,} | " in said


@pytest.mark.parametrize(("after_s", "shown"), [(19.0, "20.0 / 19.0"), (9.0, "**20.0 / 9.0**")])
def test_what_is_not_as_predicted_is_in_bold(after_s: float, shown: str) -> None:
    assert lags._pair(20.0, after_s) == shown
    assert lags._pair(20.0, None) == "20.0 / -"


def test_a_broker_that_restarts_makes_two_bursts_15_s_apart() -> None:
    for case in read(HOME / "broker-restart.toml").cases:
        due_s = case.due_s or []
        size = case.topics_present * case.partitions
        assert due_s[:size] == [0.0] * size
        assert due_s[size : 2 * size] == pytest.approx([15.0] * size, rel=1e-3)
        assert len(due_s) == 2 * size + 1


def test_a_page_keeps_what_is_outside_the_marks() -> None:
    page = "a\n"
    tables = lags.TABLES | speeds.TABLES
    for name in tables:
        page += (
            f"<!-- {name}, from kept rows: written by make docs -->\nfoo\n<!-- {name} end -->\nb\n"
        )
    whole = filled(page, tables)
    assert "foo" not in whole
    assert whole.count("\nb\n") == len(tables)
    assert filled(whole, tables) == whole


def test_the_kept_rows_of_the_slow_log_wait_above_the_border_alone() -> None:
    _, found = rows("slow-log-*.jsonl")
    border = lags.predicted_border(read(HOME / "slow-log.toml").cases[0])
    assert {row["log_sync_ms"] for row in found} == {100.0}
    assert [row["blocked_share"] >= BLOCKED_SHARE for row in found] == [
        row["rate_per_s"] > border for row in found
    ]
