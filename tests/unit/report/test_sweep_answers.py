"""A sweep in four answers; rate, stall and bound with the predicted border; noise."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from bench.analysis.limits import Figure, Key
from bench.analysis.sweep.noise import halves, noise
from bench.analysis.sweep.stalls import (
    BOUND_DEFAULT,
    Predictions,
    StallGrid,
    assumed,
    predictions_of,
    stall_grids,
)
from bench.predict import cells as kept_cells
from bench.predict import model
from bench.predict.model import Speed
from bench.report.findings import BOUND_DEFAULT as OF_REPORTS
from bench.report.strips import of_noise
from bench.report.sweep import sweep_page
from bench.report.sweep_stalls import LogAxis, stall_panels
from bench.report.sweep_verdict import sweep_answers, sweep_verdict
from tests.unit.analysis.test_conclusions import concluded, repeated, repeats_of_a_sweep

FAST = Predictions(Speed(0.002, 0.0, 0.002, 0.0), "made here", {})


def stalled(rate: float, stall_s: float, bound: int | None, blocked_s: float, **more: Any) -> Any:
    """A row of a controller under creations of topics of nine partitions: ten records each."""
    row = {"run_id": f"{rate}-{stall_s}-{bound}", "kind": "create", "target": "kraft-bridge"}
    row |= {"rate_per_s": rate, "frozen_s": stall_s, "bound_records": bound, "void": ""}
    row |= {"blocked_union_ms": 1e3 * blocked_s, "partitions_per_topic": 9, "latency_ms": 0.0}
    return row | more


def grid(*rows: Any, found: Predictions = FAST) -> StallGrid:
    [one] = stall_grids(rows, "kraft-bridge", found)
    return one


def test_the_border_is_where_the_bound_is_full_at_the_end_of_the_stall() -> None:
    """Within a few changes: B = rate x records x stall."""
    [panel] = grid(*(stalled(rate, 5.0, 1000, 1.0) for rate in (10.0, 20.0, 40.0))).panels
    assert panel.border[0][0] < 10
    assert panel.border[-1][0] > 40
    for rate, bound in panel.border:
        assert bound == pytest.approx(rate * 10 * 5.0, rel=0.05, abs=25)


def test_without_a_stall_the_border_is_the_rate_of_the_steady_state() -> None:
    """Far beyond what was measured there is none to be drawn."""
    near = grid(*(stalled(rate, 0.0, bound, 0.0) for rate in (500.0, 900.0) for bound in (20, 50)))
    [panel] = near.panels
    for rate, bound in panel.border:
        assert rate == pytest.approx(model.border(model.creation(9), round(bound), FAST.speed))
    far = grid(*(stalled(rate, 0.0, bound, 0.0) for rate in (5.0, 9.0) for bound in (200, 500)))
    assert far.panels[0].border == ()


def test_measured_and_predicted_are_beside_each_other() -> None:
    rows = [stalled(20.0, 5.0, 200, each) for each in (4.1, 4.0, 9.0)]
    [cell] = grid(*rows).cells
    assert cell.measured_s == (4.1, 4.0, 9.0)
    assert cell.middle_s == 4.1
    assert cell.predicted_s == pytest.approx(4.1, abs=0.1)
    assert cell.holds
    [missed] = grid(stalled(20.0, 5.0, 200, 3.0)).cells
    assert not missed.holds
    written = Predictions(FAST.speed, "", {"c": 3.1})
    [before] = grid(stalled(20.0, 5.0, 200, 3.0, case="c"), found=written).cells
    assert (before.predicted_s, before.holds) == (3.1, True)
    [endless] = grid(stalled(4000.0, 1.0, 50, 20.0)).cells
    assert math.isinf(endless.predicted_s)
    assert endless.holds


@pytest.mark.parametrize(
    "left_out",
    [
        {"target": "kafka"},
        {"void": "the trees differ"},
        {"kind": "isr"},
        {"bound_records": 0},
        {"blocked_union_ms": None},
        {"rate_per_s": None},
        {"rate_per_s": -1.0},
        {"rate_per_s": 1e6, "frozen_s": 1e5},
        {"rate_per_s": 1e6, "frozen_s": 1e-3},
        {"latency_ms": 1e12},
        {"log_sync_ms": 1e12},
        {"partitions_per_topic": 10**12},
    ],
)
def test_what_says_nothing_of_a_stall_is_in_no_picture(left_out: dict[str, Any]) -> None:
    rows = [stalled(20.0, 5.0, 200, 4.0), stalled(20.0, 5.0, 300, 4.0) | left_out]
    assert len(grid(*rows).cells) == 1


def test_a_bound_that_is_not_named_is_the_default() -> None:
    [cell] = grid(stalled(20.0, 5.0, None, 0.0)).cells
    assert cell.bound == BOUND_DEFAULT == OF_REPORTS


def test_rates_alone_make_no_grid() -> None:
    rates = [stalled(rate, 0.0, None, 0.0) for rate in (10.0, 20.0)]
    assert stall_grids(rates, "kraft-bridge", FAST) == []
    assert stall_grids([stalled(20.0, 5.0, 200, 4.0)], "kraft-bridge", None) == []


def test_without_predictions_the_rows_own_probe_of_zookeeper_counts() -> None:
    rows = [{"zk_write_p50_ms": each} for each in (2.0, 4.0, 3.0, None)]
    found = assumed(rows)
    assert found is not None
    assert found.speed.request_s == 0.003
    assert "assumed" in found.says
    assert assumed([{"zk_write_p50_ms": None}, {}]) is None
    assert assumed([{"zk_write_p50_ms": -1.0}, {"zk_write_p50_ms": 1e12}]) is None
    far = grid(stalled(20.0, 5.0, 200, 4.0, latency_ms=100.0))
    assert far.latency_ms == 100.0


def test_where_each_sync_of_the_log_is_slow_the_border_is_that_of_the_longer_request() -> None:
    plain = [stalled(rate, 0.0, 250, 0.0) for rate in (95.0, 119.0)]
    slow = [row | {"log_sync_ms": 100.0, "zk_write_p50_ms": 103.0} for row in plain]
    one = grid(*plain, *slow)
    speed = Speed(FAST.speed.request_s + 0.1, 0.0, FAST.speed.commit_s, 0.0)
    assert one.sync_ms == 100.0, "they are no rows of a disk as it is"
    [panel] = one.panels
    for rate, bound in panel.border:
        assert rate == pytest.approx(model.border(model.creation(9), round(bound), speed))
    [picture, _] = stall_panels(concluded(*slow, predictions=FAST))
    assert "each sync of its log 100 ms: seconds" in picture.title
    found = assumed(slow)
    assert found is not None
    assert found.speed.request_s == pytest.approx(0.003), "the sync comes to it by its own column"


def test_the_kept_rows_of_predict_are_what_they_say() -> None:
    _, kept = kept_cells.kept()
    found = predictions_of(kept.predictions, "predictions.json")
    one = grid(*(row["row"] for row in kept.rows), found=found)
    assert [cell.holds for cell in one.cells].count(True) == sum(row["holds"] for row in kept.rows)
    for panel in one.panels:
        for cell in panel.cells:
            border = _between(panel.border, cell.rate)
            assert (cell.middle_s > 0.1) == (cell.bound < border), "the border separates them"


def _between(line: Sequence[tuple[float, float]], x: float) -> float:
    """Of a line through points, where both axes are logarithmic, as it is drawn."""
    for (left, low), (right, high) in pairwise(line):
        if left <= x <= right:
            return low * (high / low) ** (math.log(x / left) / math.log(right / left))
    raise AssertionError(x)


def test_a_picture_has_a_circle_for_each_case_and_marks_what_was_missed() -> None:
    rows = [stalled(20.0, 5.0, 200, 4.1), stalled(40.0, 5.0, 200, 1.0), stalled(20.0, 5.0, 9000, 0)]
    found = concluded({})
    found.stalls.append(grid(*rows))
    html = sweep_page(found, [], "by a test")
    svg = html[html.index('<div class="panel">') : html.index("</figure>")]
    assert svg.count("<circle") == 3
    assert svg.count("✗") == 1
    assert re.findall(r'<g class="(\w+)">', svg) == ["full", "none", "full"]
    assert 'class="border"' in svg
    assert 'class="area"' in svg
    assert "20 changes/s, bound 200: measured 4.1 s; predicted" in svg
    picture, _ = stall_panels(found)
    assert picture.kind == "panels"


def inside(x: float, y: float, polygon: str) -> bool:
    """Whether a point is in a polygon: a ray crosses its sides an odd number of times."""
    points = [tuple(map(float, one.split(","))) for one in polygon.split()]
    found = False
    for (ax, ay), (bx, by) in zip(points, [*points[1:], points[0]], strict=True):
        if (ay > y) != (by > y) and x < ax + (y - ay) / (by - ay) * (bx - ax):
            found = not found
    return found


def test_what_is_shaded_is_what_is_predicted_to_wait() -> None:
    bounds, rates = (100, 400, 1600), (10.0, 40.0, 160.0)
    stalls = [stalled(rate, 5.0, bound, 0.0) for rate in rates for bound in bounds]
    steady = [stalled(rate, 0.0, bound, 0.0) for rate in (500.0, 2000.0) for bound in (20, 90)]
    for rows in (stalls, steady):
        found = concluded({})
        found.stalls.append(grid(*rows))
        [panel] = next(iter(stall_panels(found))).panels  # type: ignore[union-attr]
        waits = [cell.predicted_s > 0 for cell in found.stalls[0].cells]
        assert set(waits) == {True, False}
        assert [inside(dot.x, dot.y, panel.area) for dot in panel.dots] == waits


def test_an_axis_holds_all_values_inside() -> None:
    axis = LogAxis([25.0, 100.0], 260.0)
    assert 0 < axis.at(25.0) < axis.at(50.0) < axis.at(100.0) < 260
    assert axis.at(50.0) == pytest.approx(130.0)
    assert LogAxis([25.0], 260.0).at(25.0) == pytest.approx(130.0)


def test_halves_of_equal_rows_do_not_differ_and_of_scattered_ones_do() -> None:
    assert set(halves([3.0] * 5)) == {0.0}
    assert len(list(halves([1.0, 2.0, 3.0, 4.0, 5.0]))) == 10
    assert max(halves([1.0, 1.0, 1.0, 9.0])) == pytest.approx(4.0)
    assert list(halves([5.0])) == list(halves([])) == list(halves([0.0, 0.0])) == []


def test_noise_is_of_repeats_of_one_code() -> None:
    runs = repeated({"p99_ms": 20.0}, {"rate_per_s": 200.0, "p99_ms": 40.0})
    for at, run in enumerate(runs):
        run["code"] = "a"
        run["p99_ms"] *= 1 + 0.1 * (at % 2)
    found = {one.figure: one for one in concluded(*runs).noise}
    p99 = found["commit p99"]
    assert len(p99.rates) == 2
    assert 0.05 < p99.most < 0.1
    assert found["ZooKeeper's lag, p99 at most"].most == 0.0
    for run in runs:
        run["code"] = run["run_id"] if "run_id" in run else str(id(run))
    assert concluded(*runs).noise == [], "other code is no repeat"
    assert noise([], {}) == []


def test_the_noise_is_drawn_and_said() -> None:
    runs = [run | {"code": "a"} for run in repeats_of_a_sweep()]
    for at, run in enumerate(runs):
        run["p99_ms"] = 20.0 + at % 3
    found = concluded(*runs)
    html = sweep_page(found, [], "by a test")
    assert "<h2>Noise of this machine</h2>" in html
    strips = of_noise(found.noise)
    p99 = next(row for row in strips.rows if row.name == "commit p99")
    assert len(p99.dots) == 6
    assert p99.band is not None
    assert all(0 <= at <= 100 for at in (*p99.dots, *p99.band))
    assert sweep_answers(found)[3].word.startswith("Up to ")
    assert sweep_answers(concluded({}))[3].word == "Not known"


def test_what_limited_it_is_in_the_verdict() -> None:
    rates = [{"rate_per_s": 100.0}, {"rate_per_s": 200.0, "late_max_ms": 99.0, "late_p99_ms": 50.0}]
    answers = sweep_answers(concluded(*repeated(*rates)))
    assert answers[1].word == "The client"
    said = sweep_verdict(answers)
    assert " The client was the first limit: late itself, by " in said
    assert said.endswith(", our limit is 10 ms.")
    assert "200 changes" not in said, "two rates in a title are one too many"
    assert answers[1].text.startswith("From 200 changes/s on, though ZooKeeper kept up there. ")
    assert "was not measured" in answers[1].text


def test_what_limited_it_is_said_without_what_is_not_known() -> None:
    """And with where it counts from, but of a resource that may be busy all the time."""
    full = [{"rate_per_s": 100.0}, {"rate_per_s": 200.0, "waited_share": 0.6, "loop_share": None}]
    said = sweep_verdict(sweep_answers(concluded(*repeated(*full))))
    assert said.endswith("connections were the first limit: 60% busy, our limit is 50%."), said
    assert [Figure(key, 0.9).counts_from for key in (Key.LOG_SYNC, Key.ZOOKEEPER)] == ["", ""]


def test_that_zookeeper_blocked_in_stalls_only_is_in_the_verdict() -> None:
    found = concluded({})
    found.stalls.append(grid(stalled(20.0, 5.0, 200, 4.1), stalled(20.0, 0.0, 200, 0.0)))
    blocked = sweep_answers(found)[2]
    assert blocked.word == "Only while it was stalled"
    own = "A test of its own, in which ZooKeeper was stopped"
    assert blocked.text.startswith(own), "'none waits' in the first answer is of another one"
    assert blocked.short == (
        "It blocked KRaft only while it was stalled, for up to 4.1 s in a stall of 5 s."
    )
    assert blocked.sure == "2 of 2 cases as predicted"
    found.stalls[0] = grid(stalled(20.0, 5.0, 200, 4.1), stalled(20.0, 0.0, 200, 9.0))
    assert sweep_answers(found)[2].word == "In 2 of 2 cases"
    found.stalls[0] = grid(stalled(20.0, 5.0, 9000, 0.0))
    assert sweep_answers(found)[2].state == "good"


def test_a_stall_is_in_no_picture_of_rates_unless_kafka_is_beside_it() -> None:
    """Where what waits by rate, stall and bound has pictures of its own."""
    rates = [{"rate_per_s": rate, "scenario": "steady"} for rate in (100.0, 200.0)]
    cells = [one | {"scenario": "cells", "frozen_s": 5.0} for one in rates]
    stalls = [grid(stalled(20.0, 5.0, 200, 4.1))]

    def drawn(*runs: Any) -> tuple[list[str], int]:
        found = concluded(*runs)
        found.stalls[:] = stalls
        html = sweep_page(found, [], "by a test")
        titles = re.findall(r"<b>p99 of a change, from when it was due: (\w+)", html)
        return titles, html.count("<dt>knee of ")

    assert drawn(*rates, *cells) == (["steady"], 1)
    kafka = [one | {"target": "kafka", "traced": None} for one in cells]
    assert drawn(*rates, *cells, *kafka) == (["cells", "steady"], 3)
    stalls.clear()
    assert drawn(*rates, *cells) == (["cells", "steady"], 2)


def test_without_a_sweep_nothing_is_claimed() -> None:
    answers = sweep_answers(concluded({"target": "kafka", "traced": None}))
    assert [one.state for one in answers] == ["open"] * 4
    assert sweep_verdict(answers) == "These runs say nothing together."


def test_predictions_that_are_none_are_refused() -> None:
    slow = {"speed": {"request_s": 1e9}, "cells": {}}
    for wrong in (
        {},
        {"speed": {"x": 1}, "cells": {}},
        {"speed": {"request_s": 1}, "cells": []},
        slow,
    ):
        with pytest.raises((KeyError, TypeError, AttributeError, ValueError)):
            predictions_of(wrong, "f")


def test_the_picture_of_predictions_has_what_counts_as_equal() -> None:
    found = concluded({})
    found.stalls.append(grid(stalled(20.0, 5.0, 200, 4.1), stalled(40.0, 5.0, 200, 1.0)))
    assert found.predictions is None
    html = sweep_page(found, [], "x")
    assert "Predicted, and then measured" not in html, "nobody knows from what"
    found = concluded({"zk_write_p50_ms": 2.0})
    found.stalls.append(grid(stalled(20.0, 5.0, 200, 4.1), stalled(40.0, 5.0, 200, 1.0)))
    html = sweep_page(found, [], "x")
    charts = [json.loads(one) for one in re.findall(r'json">(.*?)</script>', html)]
    [drawn] = [one for one in charts if one["y"] == "measured, s"]
    equal, held, missed = drawn["series"]
    assert [len(held["dots"]), len(missed["dots"])] == [1, 1]
    assert held["mark"] != missed["mark"]
    for at, low, high in equal["band"]:
        assert model.holds(at, high - 1e-9)
        assert not model.holds(at, high * 1.01 + 0.01)
        assert model.holds(at, low + 1e-9)
        assert low == 0 or not model.holds(at, low * 0.99 - 0.01)


def test_of_few_repeats_what_was_seen_is_said_and_that_it_is_little() -> None:
    late = {"lag_p99_low_ms": 900.0, "lag_p99_high_ms": 930.0}
    rates = (100.0, 200.0, 300.0)
    ours = [{"rate_per_s": rate} for rate in rates]
    kafkas = [{"target": "kafka", "rate_per_s": rate} | late for rate in rates]
    first = sweep_answers(concluded(*ours, *kafkas))[0]
    assert first.word == "At least 300 changes/s"
    assert first.short == (
        "ZooKeeper kept up with kraft-bridge up to 300 changes/s, the highest measured (p99 of its "
        "lag within 200 ms); with Kafka's controller at no rate."
    )
    assert first.text.endswith("none waits for it. With Kafka's controller at no rate.")
    assert first.sure == "not certain: each rate was measured once, and 5 times are needed"
    ours[1] |= {"blocked_operations": 1, "blocked_ms": 1.0}
    first = sweep_answers(concluded(*ours, *kafkas))[0]
    assert first.word == "Up to 100 changes/s"


@pytest.mark.parametrize(
    ("at_200", "word"),
    [
        ({"lag_p99_low_ms": 201.0, "lag_p99_high_ms": 230.0}, "Up to 100 changes/s"),
        ({"lag_p99_low_ms": 190.0, "lag_p99_high_ms": 230.0}, "At least 100 changes/s"),
        (
            {"lag_p99_low_ms": 300.0, "lag_p99_high_ms": 350.0, "lag_gap_p99_ms": 50.0},
            "At least 100 changes/s",
        ),
        ({"answered": 1}, "Up to 100 changes/s"),
        ({"answered": 1, "machine_busy": 0.9}, "At least 100 changes/s"),
    ],
)
def test_of_few_repeats_that_it_did_not_keep_up_is_said_only_where_it_is_seen(
    at_200: dict[str, Any], word: str
) -> None:
    """Readings 50 ms apart saw a lag of 10 ms as 52 to 56, and said: Kafka's, at no rate."""
    ours = [{"rate_per_s": 100.0}, {"rate_per_s": 200.0, **at_200}]
    assert sweep_answers(concluded(*ours))[0].word == word
    none = [run | at_200 for run in ours]
    seen = sweep_answers(concluded(*none))[0].word
    assert seen == ("At no rate" if word.startswith("Up to") else "Cannot be said")
