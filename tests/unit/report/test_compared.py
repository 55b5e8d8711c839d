"""The report of two runs: what changed beyond noise comes first, and noise is drawn."""

from __future__ import annotations

import math
import random
import re
from typing import Any

import pytest

from bench.report.compared import ComparedRun, compare_answers, compare_page
from bench.runs.compare import Change, changes
from bench.runs.row import BenchRow
from bench.runs.table import MEASURES
from tests.unit.runs.test_compare import a_run, runs


def taken(rows: list[BenchRow], name: str = "older", code: str = "a") -> ComparedRun:
    for row in rows:
        row.code, row.others_cores, row.machine = code, 0.1, "2 cores"
    return ComparedRun(name, rows)


def page(before: list[BenchRow], after: list[BenchRow], code: str = "b") -> str:
    found = changes(before, after, tolerance=0.2)
    return compare_page(found, (taken(before), taken(after, "newer", code)), [], 0.2)


def words(html: str) -> list[str]:
    return re.findall(r'<p class="word">.*?</span> (.*?)</p>', html)


def test_what_became_much_worse_or_better_is_the_verdict() -> None:
    chance = random.Random(5)
    before, after = a_run(chance), a_run(chance, slower=8.0)
    for row in after:
        row.zk_transactions = round((row.zk_transactions or 0) / 5)
    html = page(before, after)
    [verdict] = re.findall("<h1>(.*?)</h1>", html)
    assert re.fullmatch(
        r"1 of 24 figures became worse beyond noise\. [123] of 24 .* better\.", verdict
    )
    first = html[html.index("<h2>What changed beyond noise</h2>") : html.index("<h2>What is not")]
    assert len(re.findall('<tr class="bad">', first)) == 1
    assert len(re.findall('<tr class="good">', first)) in {1, 2, 3}
    assert not re.search('<tr class="good">[^/]*storm.p. kafka', first), "none of ours"
    assert "storm.p0 kraft-bridge: median time to commit, ms" in first
    assert (
        "blue of Kafka&#39;s controller or of ZooKeeper alone, which are none of ours" in first
    ), "dots have a key"
    assert words(html)[3] == "Only in part", "what Kafka's controller gained is not ours"
    others = (
        r"[123] figures? of Kafka&#39;s controller or of ZooKeeper alone changed too: the machine, "
    )
    assert re.search(others, html)
    assert first.count('class="noise"') == first.count("<circle"), "each has its noise beside it"


def test_of_the_same_code_nothing_changed_and_that_is_said() -> None:
    chance = random.Random(4)
    html = page(a_run(chance), a_run(chance), "a")
    assert words(html)[:2] == ["Nothing", "Nothing"]
    assert "No figure did." in html
    assert words(html)[3] == "Yes"
    assert '<p class="note">Nothing: every figure of both runs was compared.</p>' in html
    assert "The same code, run twice, typically differs by up to " in html
    assert "It is the same code: what differs is noise." in html


def test_of_few_rows_nothing_is_said() -> None:
    html = page(runs(10.0, 10.0), runs(99.0, 99.0))
    assert words(html)[0] == "Cannot be said"
    assert "Whether anything became worse cannot be said." in html
    assert "Of 1 figure it cannot be said whether they changed" in html


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        ({"machine": "64 cores"}, "They are of different machines."),
        ({"others_cores": 3.0}, "In 1 of 8 rows other programs were busy, or not seen."),
        ({"others_cores": None}, "In 1 of 8 rows other programs were busy, or not seen."),
        ({}, "The same loads, on one quiet machine."),
    ],
)
def test_what_makes_a_comparison_doubtful_is_said(spoil: dict[str, Any], text: str) -> None:
    before, after = runs(*[10.0] * 4), runs(*[10.0] * 4)
    found = changes(before, after, tolerance=0.2)
    both = taken(before), taken(after, "newer", "b")
    for name, value in spoil.items():
        setattr(after[0], name, value)
    fit = compare_answers(found, both, [])[3]
    assert fit.text == text
    assert (fit.state == "good") is not spoil


def test_what_was_left_out_and_what_never_came_are_in_the_page() -> None:
    """An infinite figure has its place at an end of the picture; names are text."""
    before = runs(*[10.0] * 4)
    found = [
        Change("<img>", "t", MEASURES[0], 1.0, None, math.inf, regressed=True, noise=1e8),
        Change("c", "t", MEASURES[1], 1.0, 0.0, 0.0, regressed=False, improved=True, noise=1.1),
    ]
    both = taken(before), taken(before, "newer")
    html = compare_page(found, both, ["storm.small kafka: not in the newer run"], 0.2)
    assert "Not compared: storm.small kafka: not in the newer run." in html
    assert "<img" not in html
    assert "any worse" in html
    assert "nan" not in re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    places = [float(one) for one in re.findall(r'<circle cx="([\d.]+)%"', html)]
    assert places
    assert all(0 <= one <= 100 for one in places)


def test_noise_is_the_factor_beyond_which_a_figure_became_worse() -> None:
    """What is said to be worse lies outside of its noise, and the reverse."""
    chance = random.Random(6)
    for slower in (1.0, 2.0, 8.0):
        for one in changes(a_run(chance), a_run(chance, slower), tolerance=0.0):
            assert one.noise is not None
            if one.regressed:
                assert one.worse >= one.noise**0.5, one
            if one.improved:
                assert one.worse <= one.noise**-0.5, one


def test_quotients_are_said_to_be_some() -> None:
    before = runs(*[10.0] * 4) + runs(*[5.0] * 4, target="kafka")
    found = changes(before, before, tolerance=0.2, relative="kafka")
    html = compare_page(found, (taken(before), taken(before)), [], 0.2, "kafka")
    assert html.index("Values are divided by those of kafka.") < html.index("<h2>What is not known")
