"""A report can be read on a narrow screen, and on light and dark paper."""

from __future__ import annotations

import re
from importlib import resources
from typing import Final

import pytest

from bench.report import charts
from bench.report.blocks import Chart, HeatMap, Note, ReportSection, render, table
from bench.report.findings import Finding

TEXT, LINE = 4.5, 3.0
"""Contrasts of WCAG 2.1, level AA: of text, and of what a graphic is understood by."""
SHARE: Final = re.compile(r"var\(--hot\) calc\((\d+)% \+ (\d+)% \* var\(--share\)\),var\(--paper\)")


@pytest.fixture(scope="module")
def html() -> str:
    name = "isr-churn: kraft-bridge, 0 ms, 1 a topic, 1000 topics present, 100 connections"
    series = {name: [(1.0, 2.0), (2.0, 3.0)], "kafka": [(1.0, 4.0), (2.0, 9.0)]}
    blocks = [
        Note("x" * 500),
        *table([{"a column of a long name": "word " * 40, "n": 12_345.6}]),
        HeatMap("shares", "", ["25", "400"], [("2 ms", [0.0, 1.0])]),
        Chart(charts.curves("Lag", "changes/s", "ms", series)),
    ]
    return render("t", [Finding("about", "says " * 100)], [ReportSection("s", blocks)])


def test_what_is_wider_than_a_phone_scrolls_by_itself(html: str) -> None:
    """Tables alone are: texts wrap, and charts shrink with the page."""
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in html
    tables = html.count("<table")
    assert tables == 2
    assert html.count('<div class="wide"><table') == tables
    assert ".wide{overflow-x:auto" in html
    assert re.search(r"p,dd\{overflow-wrap:anywhere\}", html)
    assert re.search(r"svg\{width:100%;max-width:\d+rem;height:auto", html)


def test_the_letters_of_a_chart_can_be_read_on_a_phone(html: str) -> None:
    """On 390 px less the margins of 1 rem; its own unit is as wide as the screen makes it."""
    [box] = re.findall(r'<svg[^>]*viewBox="0 0 ([\d.]+) ', html)
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", html)]
    assert sizes
    assert min(sizes) * (390 - 32) / float(box) >= 9.0


def test_every_text_and_line_stands_out_from_both_papers(html: str) -> None:
    papers = [dict(re.findall(r"--(\w+):#([0-9a-f]{3,6})", one)) for one in _palettes(html)]
    assert len(papers) == 2
    assert papers[0].keys() == papers[1].keys()
    found = SHARE.search(html)
    most = (int(found[1]) + int(found[2])) / 100
    for paper in papers:
        colours = {name: _rgb(value) for name, value in paper.items()}
        below = colours["paper"]
        hottest = [
            hot * most + cold * (1 - most) for hot, cold in zip(colours["hot"], below, strict=True)
        ]
        assert _contrast(colours["ink"], below) >= TEXT
        assert _contrast(colours["soft"], below) >= TEXT
        assert _contrast(colours["ink"], colours["warn"]) >= TEXT
        assert _contrast(colours["ink"], hottest) >= TEXT
        for line in charts.COLOURS:
            assert _contrast(_rgb(line.removeprefix("#")), below) >= LINE, line
    assert "#000000" not in html, "ink of the page, not black"
    assert "#ffffff" not in html, "no paper of its own"


def test_every_text_mark_and_line_of_a_run_stands_out_from_both_papers() -> None:
    css = (resources.files("bench.report") / "templates" / "report.css").read_text()
    light, dark = re.findall(r":root(?:[^{]*)\{([^}]*)\}", css)
    papers = [dict(re.findall(r"--(\w+):#([0-9a-f]{3,6})", one)) for one in (light, dark)]
    assert papers[0].keys() == papers[1].keys()
    for paper in papers:
        colours = {name: _rgb(value) for name, value in paper.items()}
        for name in colours.keys() - {"paper", "card", "line"}:
            for below in ("paper", "card"):
                assert _contrast(colours[name], colours[below]) >= TEXT, (name, below)


def _palettes(html: str) -> list[str]:
    return re.findall(r":root\{([^}]*)\}", html)


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
