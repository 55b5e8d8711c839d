"""Where the cluster stands before it is stopped, as the page of the controller that leads shows."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from bench.demo.ahead import ahead
from emulator.io import live_page
from emulator.io.live_page import Series
from emulator.node import introspection
from emulator.operations.next_steps import as_json, next_steps, verdict
from tests.kit.dual_writing import Stage


def shown() -> dict[str, Any]:
    """``/series`` of a controller in dual write."""
    stage = Stage(zookeeper_mode=True)
    stage.joined.wait(2_000)
    status = introspection.status(stage.node, stage.joined.now_ms)

    def advice(found: Any, asked: str) -> Any:
        steps = next_steps(found, asked=asked)
        return verdict(found, steps), as_json(steps)

    return live_page.document(Series(0), status, advice, "http://h", 0)


def test_the_end_of_a_demonstration_says_what_is_next_and_what_going_back_takes() -> None:
    document = shown()
    leader = document["status"]["leader_id"]
    follower = {**document, "status": {**document["status"], "leader_id": None}}
    pages = iter([None, json.dumps(follower), json.dumps(document)])
    asked: list[str] = []

    def page(path: str) -> str | None:
        asked.append(path)
        return next(pages)

    nodes = {leader: SimpleNamespace(page=page)}
    controllers: Any = SimpleNamespace(leader=leader, nodes=nodes, status=lambda: {"any": 1})
    end = ahead(controllers)
    assert asked == ["/series"] * 3, "until one that leads has answered"
    assert end.phase == "dual write (0 of 2 brokers in KRaft mode)"
    assert end.may_go_back is True
    assert end.going_back == "Yes, with 2 restarts of brokers; no change is lost"
    assert end.next == (
        "Demo finished. On your own cluster: 1. compare the two stores, 2. restart broker 1 in "
        "KRaft mode (docs/runbook.md)."
    )
