"""The report of a run: closed to the world, safe from names, and whole."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from bench.report.beside import NOTHING, Beside, RunCheck, RunEvent
from bench.report.page import page
from bench.report.picture import EVENTS, as_json, picture
from bench.report.verdict import judge, of_run, runs_of, threshold, verdict
from tests.unit.report.a_run import BEGIN_NS, RUN, a_run, at, empty

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "a\u202eb",
    "n" * 249,
]


def made(tables: Any, beside: Beside = NOTHING, *thresholds: str) -> str:
    found = verdict(tables, RUN, beside)
    judged = judge([found], [threshold(one) for one in thresholds])
    return page(tables, "nowhere", [found], beside, judged)


def test_a_browser_may_do_nothing_but_run_what_is_in_the_page() -> None:
    html = made(a_run())
    [policy] = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', html)
    digests = {
        name: b64encode(sha256(text.encode()).digest()).decode()
        for name, text in re.findall(r"<(script|style)>(.*?)</\1>", html, re.DOTALL)
    }
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{digests['script']}'; style-src "
        f"'sha256-{digests['style']}'; base-uri 'none'; form-action 'none'"
    )
    own = html.replace(re.findall(r"<script>(.*?)</script>", html, re.DOTALL)[0], "")
    assert not re.search(r"\b(src|href|action)=|@import|url\(|https?://| style=| on\w+=", own)
    assert len(html.encode()) < 200_000


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_is_more_than_text(name: str) -> None:
    tables = a_run(controller=f"controller-{name}", host=name)
    tables["latency"] = [{"run_id": RUN, "api": name, "seen": "server", "samples": 1}]
    beside = Beside((RunCheck(name, False, name, True, name),), (RunEvent(BEGIN_NS, name),))
    html = made(tables, beside)
    assert "<img" not in html
    assert html.count("<script") == made(a_run()).count("<script") == 2
    assert all(ord(letter) != 0x202E for letter in html)
    [data] = re.findall(r'<script type="application/json">(.*?)</script>', html)
    assert "\u202e" not in json.dumps(json.loads(data), ensure_ascii=False), "nor does JSON"
    # In the tables a name is whole; nothing is cut off at the edge.
    if name == "n" * 249:
        assert html.count("n" * 249) > 4
        assert "overflow-wrap:anywhere" in html


def test_checks_that_failed_come_before_any_figure_and_say_what_to_do() -> None:
    checks = (
        RunCheck("held well", True, "all"),
        RunCheck("stores <equal>", False, "1 differs", True, "Do not finalise."),
        RunCheck("8 changes/s", None, "3.1; busy", False),
    )
    html = made(a_run(), Beside(checks), "blocked_share>0.01", "lag_ms>1e6")
    assert "<h2>Thresholds; Checks that did not hold</h2>" in html
    assert "<h2>Thresholds</h2>" in made(a_run(), NOTHING, "lag_ms>1e6")
    order = [
        "<h1>Not safe",
        "threshold crossed",
        "threshold held",
        "failed:</b> stores &lt;equal&gt;",
    ]
    order += [
        "What to do:</b> Do not finalise.",
        "1 differs",
        "not judged:",
        "median of a change",
        "held well",
    ]
    places = [html.index(text) for text in order]
    assert places == sorted(places)
    assert html.count("What to do:</b>") == 2
    twice = made(a_run(), Beside((checks[1], checks[1])))
    assert "What to do:</b> the same as above." in twice
    typed = msgspec.structs.replace(checks[1], remedy="Type:\n`zk diff --x`")
    assert '<code class="line"><span>zk</span> <span>diff</span>' in made(a_run(), Beside((typed,)))
    assert "Look at the figures above" in html, "what to do, where nothing else is known"


def test_no_column_is_named_as_a_program_names_it() -> None:
    headings = re.findall(r"<th[^>]*>([^<]*)</th>", made(a_run()))
    assert len(headings) > 30
    assert [one for one in headings if "_" in one or re.search(r"\bns\b", one)] == []


def test_every_picture_has_its_place_and_its_rows() -> None:
    tables, beside = a_run(), Beside((), (RunEvent(BEGIN_NS + 3 * 10**9, "broker 1 is killed"),))
    drawn = picture(tables, beside)
    assert [one["what"] for one in drawn["events"]] == [
        "controller-1 starts",
        "controller-1 leads, epoch 1",
        "first change due",
        "first write to ZooKeeper",
        "broker 1 is killed",
        "last change due",
    ]
    assert {one["name"]: len(one["t"]) for one in drawn["changes"]} == {
        "done": 90,
        "given up, after so long": 1,
    }
    rates = {one["name"]: one["v"] for one in drawn["rates"]}
    assert rates["due"][0] == 100
    assert sum(rates["done"]) == 900
    assert max(rates["given up"]) == 100
    assert [(one["v"], one["dash"]) for one in drawn["bounds"]] == [
        (7500.0, "dotted"),
        (10_000, "dashed"),
        (20_000, "whole"),
    ]
    [[begin, end]] = drawn["blocked"]
    assert end - begin == pytest.approx(3.0)
    assert [one["name"] for one in drawn["multis"]] == [
        "multi answered after",
        "multi refused or lost",
        "in flight, mean (right)",
    ]
    assert [one["name"] for one in drawn["syncs"]] == [
        "log sync, controller-1",
        "event loop stalled",
    ]
    client, up = drawn["percentiles"]
    assert client["v"] == [9.0, 12.0]
    assert (up["v"], up["t"]) == ([6000.0, 6000.0], [2.0, 3.0]), "censored: longer than so"
    few = {**tables["percentiles"][2], "ms": 900.0, "samples": 500}
    [client, _] = picture(tables | {"percentiles": [*tables["percentiles"], few]}, beside)[
        "percentiles"
    ]
    assert client["v"] == [9.0, 12.0], "of 500 samples the 5 slowest make no p99"
    html = made(tables, beside)
    for name in ("events", "changes", "rates", "lag", "multis", "syncs", "percentiles"):
        assert f'data-chart="{name}"' in html
    assert "broker 1 is killed" in html
    data = re.findall(r'<script type="application/json">(.*?)</script>', html)
    assert json.loads(data[0]) == drawn


def test_shapes_differ_where_colours_do() -> None:
    """Colour is never alone."""
    drawn = picture(a_run(), NOTHING)
    for name in ("changes", "rates", "multis", "syncs", "percentiles", "bounds"):
        looks = [(one.get("mark"), one.get("dash")) for one in drawn[name]]
        assert len(looks) == len(set(looks)), name


def test_a_long_run_stays_a_small_page() -> None:
    """The most that slices and eighths of a decade leave."""
    tables = a_run()
    tables["timeline"] += [
        at(place / 7, kind, 10 ** (step / 8) / 97)
        for kind, steps in (("change", 64), ("given up", 24))
        for place in range(600)
        for step in range(steps)
    ]
    tables["timeline"] += [
        at(place / 10, kind, 3.21, "controller-1")
        for kind in ("multi", "sync", "stall", "blocked")
        for place in range(600)
    ]
    assert len(made(tables).encode()) < 1_500_000


def test_what_a_trace_does_not_have_is_named() -> None:
    html = made(a_run())
    assert "Where the time of 20 of the 900 changes that were carried out went" in html
    assert "How full the event loop was" in html
    assert "No row of the trace is missing" in html
    assert "Whether ZooKeeper blocked KRaft is not known." in made(empty())


def test_events_for_which_a_picture_has_no_room_are_counted() -> None:
    beside = Beside((), tuple(RunEvent(BEGIN_NS + n, f"event {n}") for n in range(120)))
    html = made(empty(), beside)
    assert len(re.findall("<li value=", html)) == EVENTS
    assert "What the last 21 of 120 events were" in html
    assert "events were" not in made(a_run())


def test_the_events_of_a_run_of_two_days_have_their_day() -> None:
    days = tuple(RunEvent(BEGIN_NS + day * 86_400 * 10**9, f"day {day}") for day in range(3))
    assert "<time>01-15 08:00:00</time> day 0" in made(empty(), Beside((), days))
    assert "<time>08:00:00</time> day 0" in made(empty(), Beside((), days[:2]))


def test_one_change_is_due_at_no_rate() -> None:
    tables = a_run()
    tables["rate_summary"][0] |= {"intended": 1, "achieved": 1, "due_per_s": None}
    html = made(tables)
    assert "of 0.0 due" not in html
    assert "too few changes for a rate" in html


def test_each_run_of_a_trace_has_its_own_part_of_the_page() -> None:
    tables = a_run()
    other = {name: [row | {"run_id": "s"} for row in rows] for name, rows in a_run().items()}
    both = {name: rows + other[name] for name, rows in tables.items()}
    found = [verdict(of_run(both, run_id), run_id, NOTHING) for run_id in runs_of(both)]
    judged = judge(found, [threshold("blocked_share>0.01")])
    html = page(both, "nowhere", found, NOTHING, judged)
    assert html.count('<article class="run">') == html.count("threshold crossed") == 2
    assert html.count("100 of 1,000 changes were given up") == 2, "not 200 of 2,000"
    drawn = re.findall(r'<script type="application/json">(.*?)</script>', html)
    assert [sum(json.loads(one)["rates"][0]["v"]) for one in drawn] == [1000, 1000]


def test_data_in_a_page_end_no_element() -> None:
    assert as_json({"a": "</script><!--&\u2028"}) == (
        '{"a":"\\u003c/script\\u003e\\u003c!--\\u0026\\u2028"}'
    )
