"""The pages that every node serves."""

from __future__ import annotations

import json

import pytest

from emulator.io.serving import pages


@pytest.mark.parametrize(("why", "status"), [("", 200), ("no ZooKeeper session", 503)])
def test_readiness_is_a_code_with_its_reason(why: str, status: int) -> None:
    page = pages(str, dict, lambda: why)["/readyz"]()
    assert page.status == status
    assert page.body.decode() == (why or "ready") + "\n"


def test_metrics_and_status_are_those_of_the_moment() -> None:
    counted = iter(range(9))
    routes = pages(lambda: f"x {next(counted)}\n", lambda: {"n": next(counted)}, str)
    assert [routes["/metrics"]().body for _ in range(2)] == [b"x 0\n", b"x 1\n"]
    assert json.loads(routes["/status"]().body) == {"n": 2}
    assert routes["/livez"]() == (200, "text/plain", b"alive\n")
