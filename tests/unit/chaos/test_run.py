"""A round waits for events; what has ended by itself ends it at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from bench.chaos import quorum, run
from bench.chaos.plan import CONTROLLER, LEADER, Fault, Strike
from bench.chaos.quorum import Leader
from bench.chaos.stage import Options, Stage
from emulator.servers.ports import free_port
from emulator.servers.process import ProcessError, ServerProcess
from emulator.servers.waiting import wait_for


class Servers:
    """As much of a stage as waiting needs."""

    def __init__(self, *servers: ServerProcess) -> None:
        self.all = list(servers)
        self.options = Options(Path())

    def revive(self) -> list[ServerProcess]:
        return []


def say(_what: str, _values: dict[str, Any]) -> None:
    pass


def stage_of(*servers: ServerProcess) -> Stage:
    return cast(Stage, Servers(*servers))


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[list[Leader]]:
    """What controllers answer when they are asked who leads, one after the other; then nothing."""
    given: list[list[Leader]] = []

    def leaders(_stage: Stage) -> list[Leader]:
        return given.pop(0) if given else []

    monkeypatch.setattr(quorum, "leaders", leaders)
    return given


@pytest.fixture
def ended(tmp_path: Path) -> Iterator[ServerProcess]:
    process = ServerProcess("one", tmp_path).launch(["/bin/false"])
    process.wait()
    yield process
    process.kill()


def test_a_server_that_has_ended_is_not_waited_for(ended: ServerProcess) -> None:
    with pytest.raises(ProcessError, match="one ended with 1"):
        run._await(stage_of(ended), say, "what never comes", lambda: False)


def test_the_leader_is_struck_once_there_is_one(answers: list[list[Leader]]) -> None:
    answers += [[], [], [Leader(6, 3000, 9), Leader(7, 3002, 9)]]
    lines: list[str] = []
    leadership = run.Leadership(stage_of(), lambda what, _values: lines.append(what))
    strike = Strike(0, 1, CONTROLLER, LEADER, Fault.KILL)
    assert run._target(strike, leadership) == 2
    assert leadership.seen == {6: {3000}, 7: {3002}}
    assert lines == ["leader", "leader"]
    assert run._target(Strike(0, 1, CONTROLLER, 1, Fault.KILL), leadership) == 1


def test_the_leader_is_away_until_another_one_leads(answers: list[list[Leader]]) -> None:
    answers += [[Leader(6, 3000, 9)], [], [Leader(7, 3001, 9)], [Leader(8, 3002, 9)]]
    run._other_leads(run.Leadership(stage_of(), say), 3000)
    assert answers == [[Leader(8, 3002, 9)]]


def test_two_leaders_of_one_epoch_are_entered(answers: list[list[Leader]]) -> None:
    answers += [[Leader(6, 3000, 9)], [Leader(6, 3001, 9)]]
    leadership = run.Leadership(stage_of(), say)
    for _ in range(2):
        leadership.ask()
    assert leadership.seen == {6: {3000, 3001}}


def test_a_watch_that_fails_fails_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nobody would look for two leaders any more, and none would be found."""

    def leaders(_stage: Stage) -> list[Leader]:
        raise ValueError("no answer of this kind")

    monkeypatch.setattr(quorum, "leaders", leaders)
    leadership = run.Leadership(stage_of(), say)
    with pytest.raises(ValueError, match="of this kind"), leadership:
        wait_for("the failure", lambda: leadership._error)


def test_a_broker_that_does_not_answer_is_not_in_sync(tmp_path: Path) -> None:
    with Stage(Options(tmp_path)) as stage:
        stage.brokers = stage.brokers[:1]
        stage.brokers[0].client_port = free_port()
        [line] = run._short(stage)
    assert line.startswith("broker 0: ")
