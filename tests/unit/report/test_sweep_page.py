"""What the page about a sweep says of the bounds, and where it draws a map."""

from __future__ import annotations

import json
import math
import re
from types import SimpleNamespace
from typing import Any

from bench.load.figures import REPEATS
from bench.report import charts
from bench.report.sweep import sweep_findings, sweep_page
from tests.unit.analysis.test_conclusions import concluded, repeats_of_a_sweep


def _page(*runs: dict[str, Any]) -> str:
    return sweep_page(concluded(*runs), [], "by a test")


def test_a_run_whose_bounds_were_not_set_has_the_defaults() -> None:
    rates = (100.0, 200.0)
    told = _page(
        *[{"scenario": "a", "rate_per_s": rate, "bound_records": None} for rate in rates],
        *[{"scenario": "b", "rate_per_s": rate, "bound_records": 0} for rate in rates],
        *[{"scenario": "c", "rate_per_s": rate, "bound_records": 1000} for rate in rates],
    )
    assert "a, default bounds, 1 partition a topic" in told
    assert "b, no bound, 1 partition a topic" in told
    assert "c, bound 1,000 records, 1 partition a topic" in told


def test_one_rate_at_one_latency_is_a_line_of_a_table_and_no_map() -> None:
    told = _page(
        {"scenario": "alone"},
        *[{"scenario": "many", "rate_per_s": rate} for rate in (100.0, 200.0)],
    )
    assert "waited for ZooKeeper: many" in told
    assert "waited for ZooKeeper: alone" not in told
    assert ">alone</td>" in told.replace(" ", "")


def test_rows_of_a_map_that_differ_in_more_than_latency_say_in_what() -> None:
    """Three of them were called 0 ms, of stalls of 2, 5 and 10 s."""
    told = _page(
        *[
            {"scenario": "a", "rate_per_s": rate, "frozen_s": stall, "connections": 64}
            for rate in (100.0, 200.0)
            for stall in (10.0, 2.0, 0.0)
        ]
    )
    heat = told[told.index('class="heat"') :]
    names = re.findall(r'<th scope="row">([^<]*)</th>', heat[: heat.index("</table>")])
    assert names == ["1 ms", "1 ms, 2 s stall", "1 ms, 10 s stall"]


def test_the_summary_speaks_of_blocking_also_where_nothing_is_swept() -> None:
    blocked = {"run_id": "worst", "blocked_ms": 2_500.0, "blocked_operations": 3}
    kafka = {"target": "kafka", "traced": None}
    told = sweep_findings(concluded({}, blocked, kafka))[0]
    assert told.about == "ZooKeeper blocking KRaft"
    assert told.says == (
        "in 1 of 2 runs of kraft-bridge an operation waited, at most 25.00% of the time (worst)"
    )
    (told, *_) = sweep_findings(concluded({}, kafka))
    assert told.says == "in 0 of 1 run of kraft-bridge an operation waited"
    assert "ZooKeeper blocking KRaft" not in {one.about for one in sweep_findings(concluded(kafka))}


def test_the_interval_of_repeats_is_in_the_headline_the_summary_and_the_table() -> None:
    runs = repeats_of_a_sweep()
    html = _page(*runs)
    assert "kraft-bridge at 200 changes/s at least (200.0/s carried out at" in html
    [verdict] = re.findall(r"<h1>([^<]*)</h1>", html)
    assert verdict.startswith(
        "ZooKeeper keeps up with kraft-bridge up to 200 changes/s at least (p99 of its lag within "
        "200 ms); with Kafka&#39;s controller not even at 100 changes/s."
    )
    knees = {one.about: one.says for one in sweep_findings(concluded(*runs))}
    ours = "kraft-bridge, 1 ms, 1 a topic"
    said = "200 changes/s at least; not reached by this sweep"
    assert knees[f"knee of {ours}"] == said
    assert said in html
    table = html[html.index("<summary>Knees</summary>") :]
    row = re.findall(rf"<tr>\s*<t[hd][^>]*>{ours}</t[hd]>(.*?)</tr>", table, re.DOTALL)[0]
    cells = re.findall(r"<t[hd][^>]*>\s*([^<]*?)\s*</t[hd]>", row)
    assert cells == ["s", "200", "300", "-", "5", "200", "300", "-"]


def test_with_one_repeat_there_is_no_interval() -> None:
    runs = [{"rate_per_s": rate} for rate in (100.0, 200.0)]
    html = _page(*runs)
    assert html.count("a rate that 1 repeat cannot tell, it takes 5") == 2
    title = "<h1>ZooKeeper kept up with kraft-bridge up to 200 changes/s, the highest"
    assert title in html
    assert "Not certain: each rate was measured once, and 5 times are needed" in html


def test_every_repeat_is_a_mark_and_their_interval_a_band() -> None:
    """And both targets by the same instrument, in one picture."""
    html = _page(*repeats_of_a_sweep())
    found = [json.loads(one) for one in re.findall(r'json">(.*?)</script>', html)]
    [lag] = [one for one in found if one["log"] and one["series"][0]["line"][0][1] > 4]
    ours, kafka = lag["series"]
    assert [len(kafka["dots"]), len(ours["dots"])] == [3 * REPEATS, 3 * REPEATS]
    assert ours["line"] == [[100.0, 5.0], [200.0, 5.0], [300.0, 5.0]]
    assert ours["band"][-1] == [300.0, 5.0, 310.0]
    assert kafka["band"] == [[rate, 310.0, 310.0] for rate in (100.0, 200.0, 300.0)]
    assert ours["knee"] == [200.0, None]
    assert (ours["mark"], kafka["mark"]) == ("dot", "cross")
    # Red is what is bad, and neither is.
    assert {ours["colour"], kafka["colour"]}.isdisjoint({"up", "bad"})


def test_what_is_no_number_is_in_no_picture() -> None:
    """Rows of a bench may hold anything."""
    rates, values = (100.0, math.inf, math.nan, 200.0), (1.0, 2.0, 3.0, math.inf)
    runs: Any = [SimpleNamespace(rate=rate, ms=ms) for rate in rates for ms in (*values, math.nan)]
    series = {"a": charts.repeats(runs, lambda run: run.ms)}
    drawn = charts.by_rate("t", "ms", series, logarithmic=True, knees={"a": (1.0, math.inf)})
    [line] = json.loads(drawn.data)["series"]
    assert line["dots"] == [[rate, value] for rate in (100.0, 200.0) for value in (1.0, 2.0, 3.0)]
    assert line["knee"] == []
    points = charts.points("t", "x", "y", {"a": [(1.0, math.nan), (math.inf, 1.0), (2.0, 3.0)]})
    assert json.loads(points.data)["series"][0]["dots"] == [[2.0, 3.0]]
