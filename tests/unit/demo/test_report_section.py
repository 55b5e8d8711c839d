"""The report of the demonstration has what it checked, as its first section."""

from __future__ import annotations

from dataclasses import asdict

from bench.demo.analysis import sections
from bench.demo.narrator import Check
from bench.report.page import page

TABLES = (
    "runs latency rate_summary rate_chart stage_latency lag_chart lag_summary gauge_agreement "
    "blocking blocking_by_cause blocked_per_operation blocked_chart request_parts by_operation "
    "by_api multi_latency coalescing stalls noisiest_seconds missing"
).split()


def test_the_checks_come_first_in_the_report() -> None:
    checks = [
        Check(3, "the leading controller, killed, was replaced", held=True, figures="2.1 s later"),
        Check(4, "the stores are <equal>", held=False, figures="1 differs"),
        Check(3, "at least 8 changes/s", held=None, figures="3.1", of_speed=True),
    ]
    html = page({name: [] for name in TABLES}, "nowhere", sections([asdict(x) for x in checks]))
    limited = {"run_id": "r", "resource": "zookeeper", "subject": "c", "value": 0.9, "limit": None}
    more = {"utilisation": [limited], "change_time": []}
    html = page(
        {name: [] for name in TABLES} | more, "nowhere", sections([asdict(x) for x in checks])
    )
    assert html.index("What limited this run") < html.index("Checks of the demonstration")
    place = html.index("Checks of the demonstration")
    assert place < html.index("How long ZooKeeper blocked KRaft")
    assert html.index("2.1 s later") > place
    assert "the stores are &lt;equal&gt;" in html
    assert ">NO<" in html
    assert ">not judged<" in html
