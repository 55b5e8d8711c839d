"""The pages that every node serves."""

from __future__ import annotations

import json
from importlib import metadata

import pytest
from prometheus_client.parser import text_string_to_metric_families

from emulator.io.serving import pages


@pytest.mark.parametrize(("why", "status"), [("", 200), ("no ZooKeeper session", 503)])
def test_readiness_is_a_code_with_its_reason(why: str, status: int) -> None:
    page = pages(str, dict, lambda: why)["/readyz"]()
    assert page.status == status
    assert page.body.decode() == (why or "ready") + "\n"


def test_metrics_and_status_are_those_of_the_moment() -> None:
    counted = iter(range(9))
    routes = pages(lambda: f"x {next(counted)}\n", lambda: {"n": next(counted)}, str)
    bodies = [routes["/metrics"]().body for _ in range(2)]
    assert [body.partition(b"\n")[0] for body in bodies] == [b"x 0", b"x 1"]
    assert json.loads(routes["/status"]().body) == {"n": 2}
    assert routes["/livez"]() == (200, "text/plain", b"alive\n")


def test_the_process_and_the_build_are_in_each_scrape() -> None:
    body = pages(lambda: "x 1\n", dict, str)["/metrics"]().body.decode()
    found = {
        sample.name: (sample.labels, sample.value)
        for family in text_string_to_metric_families(body)
        for sample in family.samples
    }
    assert found["x"] == ({}, 1.0)
    assert found["process_resident_memory_bytes"][1] > 1e6
    assert found["process_cpu_seconds_total"][1] > 0
    labels, one = found["kraft_bridge_build_info"]
    assert (labels["version"], one) == (metadata.version("kraft-bridge"), 1.0)
