"""The walk by advice: what is advised is done, and wrong advice ends it and is named."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from bench.demo.controllers import IDS
from bench.life import advised, commands
from bench.life.advised import AdviceError, walk
from bench.life.stage import Stage
from bench.life.standing import BrokerStanding, Mode, Standing
from emulator.operations.next_steps import Action, BrokerMode, NextStep, as_json, next_steps
from emulator.servers.process import ServerProcess
from tests.kit.status_document import broker, document


class PaperLife:
    """A life whose servers are changed on paper."""

    def __init__(self, folder, mode):
        brokers = {each: BrokerStanding(mode, "3.9.2") for each in range(3)}
        self.stage = Stage(folder, Standing("3.9.2", "code", brokers))
        self.done, self.checks, self.lines = [], [], []

    def print_line(self, line):
        self.lines.append(line)

    def check(self, what, held, figures):
        self.checks.append((what, held, figures))

    def restart(self, one, mode):
        self.done.append((one.id, mode.value))
        self.stage.standing.brokers[one.id].mode = mode

    def restart_controller(self, number, change, while_stopped):
        self.done.append((number, change))
        while_stopped()


@pytest.fixture
def life(tmp_path, monkeypatch):
    """Makes a life whose brokers are all in one mode; typed lines are kept, and succeed."""
    monkeypatch.setattr(advised, "LOOK_S", 0.0)

    def made(mode):
        found = PaperLife(tmp_path, mode)
        ours = lambda _stage, rest: (found.done.append(" ".join(rest)), (0, ""))[1]  # noqa: E731
        monkeypatch.setattr(commands, "_ours", ours)
        leader = SimpleNamespace(url="http://h:1", data="/data")
        monkeypatch.setattr(Stage, "leader", lambda _: leader)
        return found

    return made


def shown(stage):
    """What a status has with it in a dual write, by the modes in which brokers were started."""
    kinds = {Mode.KRAFT: "kraft", Mode.MIGRATING: "zookeeper"}
    brokers = [broker(i, kinds[one.mode]) for i, one in stage.standing.brokers.items()]
    all_kraft = all(one["kind"] == "kraft" for one in brokers)
    found = document("dual write" if all_kraft else "hybrid", brokers)
    return found | {"next": as_json(next_steps(found))}


def planted(goal, *steps):
    """The goal, on the way to which these steps are advised at any time."""
    return replace(goal, ask=lambda stage: shown(stage) | {"next": as_json(steps)})


def test_what_is_advised_is_done_and_nothing_else(life):
    one = life(Mode.MIGRATING)
    after = []
    walk(one, replace(advised.IN_KRAFT, ask=shown), lambda: after.append(len(one.done)))
    assert one.done == [
        "zk diff --zookeeper z:2181/kafka --log-dir /var/lib/kraft-bridge",
        *((each, "kraft") for each in range(3)),
    ]
    assert after == [2, 3, 4], "what is to be looked at after each restart"
    assert one.checks == [("advice led to dual write, brokers in KRaft mode", True, "3 steps")]
    assert one.stage.standing.typed == ["COMPARE"]


def test_stores_that_differ_are_compared_again(life, monkeypatch):
    one = life(Mode.MIGRATING)
    codes = iter([1, 1, 0])
    found = "DIFFERENT: 1 znode: /migration is at offset 7\nmissing /brokers/topics/a\n"
    monkeypatch.setattr(commands, "_ours", lambda *_: (next(codes), found))
    walk(one, replace(advised.IN_KRAFT, ask=shown))
    assert list(codes) == [], "no broker before they are the same"
    assert "differ: DIFFERENT: 1 znode: /migration is at offset 7" in one.lines[1]
    assert not any("missing" in line for line in one.lines)
    assert one.done == [(each, "kraft") for each in range(3)]


FINALISE = NextStep(Action.FINALISE, command="kraft-bridge finalise --log-dir FOLDER --yes")
TO_KRAFT = NextStep(Action.RESTART_BROKER, "one at a time", node=0, mode=BrokerMode.KRAFT)
WITHOUT_FLAG = NextStep(Action.RESTART_CONTROLLER, node=IDS[0], flag=False)


@pytest.mark.parametrize(
    ("mode", "goal", "step", "named"),
    [
        (Mode.MIGRATING, advised.IN_KRAFT, FINALISE, "no meaning .*KRaft mode: finalise"),
        (Mode.KRAFT, advised.FINAL, FINALISE, "unsafe .*final migration: finalise"),
        (Mode.MIGRATING, advised.FINAL, WITHOUT_FLAG, "unsafe .*: restart_controller without"),
        (Mode.MIGRATING, advised.DUAL_WRITE, TO_KRAFT, "no meaning .*: restart_broker kraft"),
        (Mode.MIGRATING, advised.IN_KRAFT, replace(TO_KRAFT, node=7), "no meaning .*kraft"),
        (Mode.MIGRATING, advised.IN_KRAFT, NextStep(Action.REPAIR, "it burns"), "repair"),
        (Mode.KRAFT, advised.BROKERS_BACK, NextStep(Action.NOTHING), "no meaning .*: nothing"),
    ],
)
def test_wrong_advice_is_named_before_it_is_followed(life, mode, goal, step, named):
    one = life(mode)
    never = replace(planted(goal, step), reached=lambda _: False)
    with pytest.raises(AdviceError, match=named) as caught:
        walk(one, never)
    assert step.what in str(caught.value).split("advised was:")[1]
    assert one.done == []


def test_advice_that_leads_nowhere_ends_with_all_of_it(life, monkeypatch):
    monkeypatch.setattr(advised, "LOOKS_MAX", 3)
    looks = []
    monkeypatch.setattr(advised.time, "sleep", looks.append)
    one = life(Mode.MIGRATING)
    with pytest.raises(AdviceError, match=r"nothing else in 3 looks\n.*\n.*restart broker 0"):
        walk(one, planted(advised.IN_KRAFT, TO_KRAFT))
    assert one.done == [(0, "kraft")], "the second time it is a matter of waiting"
    assert len(looks) == 2
    again = replace(planted(advised.FINAL, WITHOUT_FLAG), reached=lambda _: False)
    one = life(Mode.KRAFT)
    with pytest.raises(AdviceError, match="more than 20 steps"):
        walk(one, again)
    assert len(one.done) == advised.STEPS_MAX


def test_without_a_step_it_looks_again(life, monkeypatch):
    monkeypatch.setattr(advised, "LOOKS_MAX", 3)
    with pytest.raises(AdviceError, match="no step"):
        walk(life(Mode.MIGRATING), planted(advised.IN_KRAFT))


def test_an_end_that_is_shown_and_not_there_is_named(life):
    shows = replace(advised.IN_KRAFT, ask=shown, reached=lambda _: True)
    with pytest.raises(AdviceError, match=r"ends with brokers in modes .*0: migrating"):
        walk(life(Mode.MIGRATING), shows)


@pytest.mark.parametrize(("alive", "meant"), [(True, "nothing else"), (False, "no meaning")])
def test_a_server_that_runs_is_not_started(life, monkeypatch, alive, meant):
    monkeypatch.setattr(advised, "LOOKS_MAX", 3)
    monkeypatch.setattr(ServerProcess, "alive", property(lambda _: alive))
    for step in (
        NextStep(Action.START_BROKER, node=0, mode=BrokerMode.MIGRATION),
        NextStep(Action.START_CONTROLLER, node=IDS[0]),
    ):
        with pytest.raises(AdviceError, match=meant):
            walk(life(Mode.MIGRATING), planted(advised.IN_KRAFT, step))


def test_a_line_of_another_program_is_not_typed(life):
    with pytest.raises(commands.ProcessError, match="not a command of this program: rm -r /"):
        commands.run_line(life(Mode.KRAFT).stage, "rm -r /")


def test_a_preflight_that_is_advised_decides_the_next_step_once(life, monkeypatch):
    monkeypatch.setattr(ServerProcess, "alive", False)
    begun, typed = [], []
    monkeypatch.setattr(Stage, "start_quorum", lambda _: begun.append(True))
    check = NextStep(Action.PREFLIGHT, "with folders", "kraft-bridge preflight --folder '/a b'")
    start = NextStep(Action.START_CONTROLLER, node=IDS[0])

    def checked(step):
        def found(*line):
            typed.append(line)
            return {"stage": {"name": "not begun"}, "next": as_json([step])}

        return found

    goal = planted(advised.DUAL_WRITE, check)
    monkeypatch.setattr(commands, "document", checked(start))
    walk(life(Mode.MIGRATING), replace(goal, reached=lambda _: bool(begun)))
    assert (typed, begun) == ([("preflight", "--folder", "/a b")], [True])
    monkeypatch.setattr(commands, "document", checked(check))
    with pytest.raises(AdviceError, match="checked again and again"):
        walk(life(Mode.MIGRATING), replace(goal, reached=lambda _: False))
