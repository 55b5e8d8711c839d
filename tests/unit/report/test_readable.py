"""A report can be read on a narrow screen, and on light and dark paper."""

from __future__ import annotations

import re
from typing import Final

import pytest

from bench.report import charts
from bench.report.blocks import HeatMap, Note, ReportSection, render, table
from bench.report.findings import Finding

TEXT: Final = 4.5
"""Contrast of WCAG 2.1, level AA; of a graphic 3 would do."""
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
    assert html.count('<div class="wide"><table') == tables
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
    light, dark = re.findall(r":root(?:[^{]*)\{([^}]*)\}", html)
    share = SHARE.search(html)
    assert share is not None
    most = (int(share[1]) + int(share[2])) / 100
    papers = [dict(re.findall(r"--(\w+):#([0-9a-f]{3,6})", one)) for one in (light, dark)]
    assert papers[0].keys() == papers[1].keys()
    for paper in papers:
        colours = {name: _rgb(value) for name, value in paper.items()}
        hottest = [
            hot * most + cold * (1 - most)
            for hot, cold in zip(colours["hot"], colours["paper"], strict=True)
        ]
        assert _contrast(colours["ink"], hottest) >= TEXT
        assert _contrast(colours["ink"], colours["warn"]) >= TEXT
        for name in colours.keys() - {"paper", "card", "line", "warn", "hot"}:
            for below in ("paper", "card"):
                assert _contrast(colours[name], colours[below]) >= TEXT, (name, below)


def _rgb(value: str) -> list[float]:
    value = value if len(value) == 6 else "".join(2 * one for one in value)
    return [float(int(value[at : at + 2], 16)) for at in (0, 2, 4)]


def _contrast(one: list[float], other: list[float]) -> float:
    """Ratio of the relative luminances of two colours of sRGB."""
    dark, light = sorted(_luminance(each) for each in (one, other))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: list[float]) -> float:
    parts = [part / 255 for part in colour]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
