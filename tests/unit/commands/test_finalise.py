"""``kraft-bridge finalise``: what each status means, and the exit codes."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.commands.exits import ExitCode
from emulator.commands.finalise import BROKERS_FIRST, UNDONE, judged
from emulator.commands.status_next import phase_of
from emulator.migration.phases import Ahead
from emulator.operations.next_steps import Action, next_steps
from tests.kit.status_document import document, ends, phase, quorum, voter


def status(state: str = "waiting", *whys: str, hold: bool = False, **more: Any) -> dict[str, Any]:
    older = "finalising"
    if state == "migrating":
        older = "hybrid" if "zookeeper_broker" in whys else "dual write"
    found = document(older, finalisation=ends(state, *whys, hold=hold))
    if state != "migrating":
        found["quorum"] = quorum(voter(3000, migration_flag=False))
        ahead = Ahead.END_HOLD if state == "held" else Ahead.FINISH
        found |= {"migration": None, "phase": phase(older) | {"ahead": ahead.value}}
    return found | more


@pytest.mark.requirement("F11")
def test_what_cannot_be_undone_is_said_before_it_is_done() -> None:
    for one in (status("held", "held", hold=True), status("waiting", "no_mark")):
        assert UNDONE in judged(one).lines
    assert "loses every change made since" in UNDONE


@pytest.mark.parametrize(
    ("found", "code", "held"),
    [
        (status("finalised"), ExitCode.DONE, False),
        (status("held", "held", hold=True), ExitCode.DONE, True),
        (status("waiting", "held", "zookeeper_broker", hold=True), ExitCode.FOUND, False),
        (status("migrating", "controller_with_flag", "no_mark"), ExitCode.FOUND, False),
        (status("waiting", hold=True), ExitCode.FOUND, False),
        (status("follows"), ExitCode.UNREACHABLE, False),
        (status() | {"finalisation": None}, ExitCode.FOUND, False),
        ({"role": "broker"}, ExitCode.WRONG, False),
        (status("waiting"), ExitCode.DONE, False),
    ],
)
def test_the_exit_code_says_whether_more_than_a_hold_is_missing(
    found: dict[str, Any], code: ExitCode, held: bool
) -> None:
    judgement = judged(found)
    assert (judgement.code, judgement.held) == (code, held)


def test_each_thing_that_is_missing_is_a_line() -> None:
    found = judged(status("waiting", "no_mark", "zookeeper_broker"))
    first, *lines = found.lines
    assert first == "NOT YET: 2 things are missing: finalising"
    assert lines == ["missing: text of no_mark", "missing: text of zookeeper_broker", UNDONE]
    assert found.steps[0].flag is True, "neither can come while a leader without the flag leads"


def test_controllers_are_restarted_after_the_brokers() -> None:
    """Its first line said to restart a controller, while brokers were in ZooKeeper mode."""
    early = judged(status("migrating", "controller_with_flag", "zookeeper_broker"))
    assert early.lines[0].startswith("NOT YET: brokers are in ZooKeeper mode: dual write (0 of 1 ")
    assert early.lines[1:] == ["missing: text of zookeeper_broker", BROKERS_FIRST]
    steps = [(one.action, one.now) for one in early.steps]
    assert steps[:2] == [(Action.DIFF, True), (Action.RESTART_BROKER, False)]
    assert Action.RESTART_CONTROLLER not in {one.action for one in early.steps}
    late = judged(status("migrating", "controller_with_flag"))
    assert late.lines[1:] == ["missing: text of controller_with_flag", UNDONE]
    assert (late.steps[1].action, late.steps[1].flag) == (Action.RESTART_CONTROLLER, False)


@pytest.mark.parametrize("why", ["zookeeper_broker", "controller_with_flag", "no_mark"])
def test_its_steps_are_those_of_status(why: str) -> None:
    """In JSON it left out the comparison that status has before the restart of a controller."""
    found = status("migrating", why)
    assert judged(found).steps == next_steps(found)
    assert judged(found).steps[0].action is Action.DIFF


def test_no_controller_is_named_for_a_restart_while_another_one_is_down() -> None:
    down = voter(3002, answers=False, ready=False, why_not="Connection refused")
    there = quorum(voter(3000), voter(3001), down)
    found = judged(status("migrating", "controller_with_flag", "no_mark", quorum=there))
    assert (found.steps[0].action, found.steps[0].node) == (Action.START_CONTROLLER, 3002)
    assert found.lines[1:] == [UNDONE]


def test_a_follower_names_who_is_to_be_asked() -> None:
    (line,) = judged(status("follows") | {"leader_id": 3002}).lines
    assert line == "NOT HERE: node 3000 does not lead: ask node 3002, which leads"


@pytest.mark.parametrize(
    ("led", "state", "told"),
    [
        (3002, "follower", "first start controller 3002"),
        (3001, "follower", "first start controller 3002"),
        (3000, "resigned", "no leader is known"),
        (None, "unattached", "no leader is known"),
    ],
)
def test_its_sentence_names_the_node_of_the_step(led: int | None, state: str, told: str) -> None:
    """The leader was down: *ask node 3002, which leads*, above *start controller 3002*."""
    down = voter(3002, answers=False, ready=False, why_not="Connection refused")
    there = quorum(voter(3000), voter(3001), down, leader=led, state=state)
    found = status("follows", quorum=there) | {"leader_id": led}
    judgement = judged(found)
    assert judgement.lines == [f"NOT HERE: node 3000 does not lead: {told}"]
    assert (judgement.steps[0].action, judgement.steps[0].node) == (Action.START_CONTROLLER, 3002)


def test_the_phase_of_a_controller_without_the_flag_is_that_of_its_log() -> None:
    assert phase_of(status("finalised")) == "finalised"
    assert phase_of(status("held", "held")) == "finalising"
    assert phase_of(status("follows")) == "finalising"
    assert phase_of(status() | {"finalisation": None}) == "not migrating"


def test_what_the_restarts_bring_is_not_missing_beside_them() -> None:
    """Three restarts and the mark, which the last of them leaves, were four things."""
    text = judged(status("migrating", *["controller_with_flag"] * 3, "no_mark")).lines
    assert text[0].startswith("NOT YET: 3 restarts are missing: dual write")
    assert "missing: text of no_mark" not in text
    assert judged(status("waiting", "no_mark")).lines[0].startswith("NOT YET: 1 thing is missing")


@pytest.mark.parametrize("begun", [True, False])
def test_a_follower_names_the_command_for_the_leader(begun: bool) -> None:
    """It said ``kraft-bridge status -c FILE``, and in phase waiting that there was nothing."""
    found = status("follows") | {"leader_id": 3001}
    found |= {"quorum": quorum(voter(3000), voter(3001), leader=3001)}
    found |= {} if begun else {"finalisation": None}
    there = judged(found, leader_url="http://h:29404")
    assert there.code == ExitCode.UNREACHABLE
    assert there.lines == ["NOT HERE: node 3000 does not lead: ask node 3001, which leads"]
    assert there.steps[0].command == "kraft-bridge finalise --url http://h:29404"
    assert judged(found).steps[0].command == "kraft-bridge finalise -c FILE"
