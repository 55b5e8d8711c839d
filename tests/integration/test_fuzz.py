"""A short run of `make fuzz` at real processes, and one at a controller with planted faults."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tools.fuzz import judge
from tools.fuzz import run as sending
from tools.fuzz.run import LANES, Fuzz
from tools.fuzz.servers import CONTROLLER, KRAFT_BROKER, Stage
from tools.fuzz.state import State

pytestmark = pytest.mark.slow

FRAMES = 900
PLANTED = """
import sys
from dataclasses import replace
from emulator.controller import registry
from emulator.node.machine import Node

create = registry.handlers()[19]
registry._HANDLERS[19] = replace(create, function=lambda *_: {}[1])
kept, step = [], Node.step

def leaking(self, events, now_ms):
    kept.append(b"x" * 50_000)
    if len(kept) == 500:
        sys.stderr.write("Traceback (most recent call last):\\n")
    return step(self, events, now_ms)

Node.step = leaking
from emulator.cli import main; main()
"""


@pytest.fixture(autouse=True)
def no_verdict_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a step takes is judged by `make fuzz`; here it would depend on what else runs."""
    monkeypatch.setattr(judge, "STEP_MS", math.inf)


def run(stage: Stage, folder: Path, frames: int, warm_frames: int) -> State:
    state = State(folder / "state.json", 1)
    with stage:
        assert Fuzz(stage, state, lambda _line: None, warm_frames, LANES).run(frames)
    return state


def test_every_api_and_version_of_a_controller_and_a_broker(tmp_path: Path) -> None:
    stage = Stage(tmp_path, (CONTROLLER, KRAFT_BROKER))
    state = run(stage, tmp_path, FRAMES, FRAMES)
    assert state.frames == FRAMES
    assert len({one.split()[0] for one in state.done}) > 40
    assert min(state.done.values()) >= 2, "one that is valid, and one that is spoilt"
    assert state.wrong == {}


def test_planted_faults_turn_it_red(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "SWEEP_FRAMES", 200)
    monkeypatch.setattr(sending, "WRONG_MAX", 1_000)
    stage = Stage(tmp_path, (CONTROLLER,))
    stage.bridge.command = PLANTED
    wrong = "\n".join(run(stage, tmp_path, 800, 200).wrong.values())
    assert "UNKNOWN_SERVER_ERROR" in wrong
    assert "log of controller: Traceback (most recent call last):" in wrong
    assert 'kraft_bridge_request_failures_total{api="CreateTopics"' in wrong
    assert "MiB at most in the first 200 frames, then" in wrong
