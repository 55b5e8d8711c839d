"""The reports in docs/examples are what the code makes of the tables kept beside them."""

from __future__ import annotations

import re

import pytest

from tools.docs import ROOT
from tools.examples import BYTES_MAX, HOME, NAMES, page

README = ROOT / "docs/README.md"


@pytest.mark.parametrize("name", NAMES)
def test_a_report_is_what_the_code_renders_today(name: str) -> None:
    """After a change of the report: ``make docs``."""
    html = "".join(page(name))
    assert (HOME / f"{name}.html").read_text() == html
    assert len(html.encode()) < BYTES_MAX


@pytest.mark.parametrize("name", NAMES)
def test_a_report_names_no_machine_and_asks_nobody(name: str) -> None:
    html = (HOME / f"{name}.html").read_text()
    own = re.sub(r"<(script|style)>.*?</\1>", "", html, flags=re.DOTALL)
    assert re.findall(r"/(?:work|tmp|home|root)/[\w./-]*", own) == []
    assert "default-src 'none'" in html
    assert not re.search(r"\b(src|href)=|@import|url\(", own)
    assert f"examples/{name}.html" in README.read_text()


@pytest.mark.parametrize("name", NAMES)
def test_a_report_shows_no_raw_backtick_and_none_of_the_words_that_misled(name: str) -> None:
    html = (HOME / f"{name}.html").read_text()
    own = re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.DOTALL)
    assert "`" not in own
    for word in ("stood still", "How sure", "nothing follows", "with 5.31 ms"):
        assert word not in own
    assert ".u-inline.u-live th::after{content:none}" in html


def verdict(name: str) -> str:
    [found] = re.findall(r"<h1>(.*?)</h1>", (HOME / f"{name}.html").read_text(), re.DOTALL)
    return str(found)


def test_each_shows_what_it_is_for() -> None:
    assert verdict("demo").startswith("Safe up to dual write, 0 of 3 brokers in KRaft mode: all ")
    assert re.match(
        r"Not safe: \d of \d+ checks of safety failed\. (Do not finalise\.|Correct this first: )",
        verdict("failed"),
    )
    assert "ZooKeeper blocked KRaft for " in verdict("failed")
    assert "ZooKeeper kept up with kraft-bridge up to " in verdict("sweep").replace("keeps", "kept")
    assert re.search(r" the first limit: .*, our limit is .*\.$", verdict("sweep"))
    assert "Only while it was stalled" in (HOME / "sweep.html").read_text()
    for name in ("demo", "failed"):
        html = (HOME / f"{name}.html").read_text()
        assert "What now" in html
        assert "3 restarts of brokers" in html
        assert "The slowest change took " in html
