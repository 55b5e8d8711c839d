"""What the page about a sweep says of the bounds, and where it draws a map."""

from __future__ import annotations

from typing import Any

from bench.report.sweep import sweep_page
from tests.unit.analysis.test_conclusions import concluded


def _page(*runs: dict[str, Any]) -> str:
    return sweep_page(concluded(*runs), [], "kraft-bridge analyze x", "x")


def test_a_run_whose_bounds_were_not_set_has_the_defaults() -> None:
    rates = (100.0, 200.0)
    told = _page(
        *[{"scenario": "a", "rate_per_s": rate, "bound_records": None} for rate in rates],
        *[{"scenario": "b", "rate_per_s": rate, "bound_records": 0} for rate in rates],
        *[{"scenario": "c", "rate_per_s": rate, "bound_records": 1000} for rate in rates],
    )
    assert "a, default bounds, 1 partitions a topic" in told
    assert "b, no bound, 1 partitions a topic" in told
    assert "c, bound 1,000 records, 1 partitions a topic" in told


def test_one_rate_at_one_latency_is_a_line_of_a_table_and_no_map() -> None:
    told = _page(
        {"scenario": "alone"},
        *[{"scenario": "many", "rate_per_s": rate} for rate in (100.0, 200.0)],
    )
    assert "waited for ZooKeeper: many" in told
    assert "waited for ZooKeeper: alone" not in told
    assert ">alone</td>" in told.replace(" ", "")
