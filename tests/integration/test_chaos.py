"""Three controllers of ours, three real brokers, faults; the verdict is the run's own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.chaos.run import run
from bench.chaos.stage import Options
from bench.demo.controllers import IDS

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


@dataclass(frozen=True, slots=True)
class ChaosRound:
    """What a round with real servers gave."""

    code: int
    events: list[dict[str, Any]]


@pytest.fixture
def chaos_round(tmp_path: Path) -> ChaosRound:
    """Seed 15: servers, load, strikes, verdict."""
    code = run(Options(tmp_path / "out", seconds=90, seed=15, servers=1, rate=5))
    lines = (tmp_path / "out" / "events.jsonl").read_text().splitlines()
    return ChaosRound(code, [json.loads(line) for line in lines])


@pytest.mark.requirement("U02", "Z03")
def test_nothing_acknowledged_is_lost_under_random_faults(
    chaos_round: ChaosRound,
) -> None:
    """Seed 15, in dual write: a broker paused, ZooKeeper killed, leaders cut off and killed."""
    assert chaos_round.code == 0
    events = chaos_round.events
    struck = [event for event in events if event["what"] == "strike"]
    assert {event["kind"] for event in struck} == {"broker", "controller", "zookeeper"}
    led = [event for event in events if event["what"] == "leader"]
    assert len(struck) >= 4
    assert len({(event["epoch"], event["node"]) for event in led}) >= 2, events
    [killed] = [
        event for event in struck if (event["kind"], event["fault"]) == ("controller", "KILL")
    ]
    before = [event for event in led if event["at_s"] < killed["at_s"]][-1]
    after = [event for event in led if event["at_s"] > killed["at_s"]]
    assert before["node"] == IDS[killed["number"]]
    assert after, "another one led"
    assert after[0]["epoch"] > before["epoch"]
    assert after[0]["node"] != before["node"]
    [clients] = [event for event in events if event["what"] == "clients"]
    assert clients["intended"] >= clients["changes"] >= 400
    assert clients["records"] >= 2_000
