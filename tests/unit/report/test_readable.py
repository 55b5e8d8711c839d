"""A report can be read on a narrow screen, and on light and dark paper."""

from __future__ import annotations

import re
from typing import Final

import pytest

from bench.report import charts
from bench.report.blocks import HeatMap, Note, ReportSection, render, table
from bench.report.findings import Finding
from tests.kit.contrast import TEXT, contrast, papers

SHARE: Final = re.compile(r"var\(--hot\) calc\((\d+)% \+ (\d+)% \* var\(--share\)\),var\(--paper\)")


@pytest.fixture(scope="module")
def html() -> str:
    name = "isr-churn: kraft-bridge, 0 ms, 1 a topic, 1000 topics present, 100 connections"
    series = {name: [(1.0, 2.0), (2.0, 3.0)], "kafka": [(1.0, 4.0), (2.0, 9.0)]}
    blocks = [
        Note("x" * 500),
        *table([{"a column of a long name": "word " * 40, "n": 12_345.6}]),
        HeatMap("shares", "", ["25", "400", "9"], [("2 ms", [0.0, 1.0, 0.91])]),
        charts.points("Lag", "changes/s", "ms", series),
    ]
    return render("t", [Finding("about", "says " * 100)], [ReportSection("s", blocks)])


def test_what_is_wider_than_a_phone_scrolls_by_itself(html: str) -> None:
    """Tables alone are: texts wrap, and pictures are drawn as wide as the page."""
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in html
    tables = html.count("<table")
    assert tables == 2
    assert len(re.findall('<div class="wide" tabindex="0"[^>]*><table', html)) == tables
    assert ".wide{overflow-x:auto" in html
    assert "p,li,dd,td,th,summary,figcaption{overflow-wrap:anywhere}" in html
    assert ".plot{width:100%;min-width:0;overflow:hidden}" in html


def test_a_share_has_the_colour_of_the_next_tenth(html: str) -> None:
    assert re.findall(r'<td class="(h\d+)">([\d.]+) %', html) == [
        ("h0", "0.0"),
        ("h10", "100.0"),
        ("h10", "91.0"),
    ]


def test_every_text_mark_and_line_stands_out_from_both_papers(html: str) -> None:
    light, dark = papers(html)
    share = SHARE.search(html)
    assert share is not None
    most = (int(share[1]) + int(share[2])) / 100
    assert light.keys() == dark.keys()
    for colours in (light, dark):
        hottest = [
            hot * most + cold * (1 - most)
            for hot, cold in zip(colours["hot"], colours["paper"], strict=True)
        ]
        assert contrast(colours["ink"], hottest) >= TEXT
        assert contrast(colours["ink"], colours["warn"]) >= TEXT
        for name in colours.keys() - {"paper", "card", "line", "warn", "hot"}:
            for below in ("paper", "card"):
                assert contrast(colours[name], colours[below]) >= TEXT, (name, below)
