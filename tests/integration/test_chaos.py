"""Three controllers of ours, three real brokers, faults; the verdict is the run's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.chaos.run import run
from bench.chaos.stage import Options

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


@pytest.fixture
def chaos_run() -> Callable[[Options], int]:
    """A run with real brokers, which it starts and ends; its name tells the kind of proof."""
    return run


def test_nothing_acknowledged_is_lost_under_random_faults(
    tmp_path: Path, chaos_run: Callable[[Options], int]
) -> None:
    """Seed 15, in dual write: a broker paused, ZooKeeper killed, leaders cut off and killed."""
    assert chaos_run(Options(tmp_path / "out", seconds=90, seed=15, servers=1, rate=5)) == 0
    lines = (tmp_path / "out" / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    struck = [event for event in events if event["what"] == "strike"]
    leaders = {(event["epoch"], event["node"]) for event in events if event["what"] == "leader"}
    assert len(struck) >= 4
    assert len(leaders) >= 2, events
    [clients] = [event for event in events if event["what"] == "clients"]
    assert clients["intended"] >= clients["changes"] >= 400
    assert clients["records"] >= 2_000
