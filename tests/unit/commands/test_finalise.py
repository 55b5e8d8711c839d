"""``kraft-bridge finalise``: what each status means, and the exit codes."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.commands.exits import ExitCode
from emulator.commands.finalise import BROKERS_FIRST, STEPS, UNDONE, judged
from emulator.commands.status_next import phase_of


def status(state: str = "waiting", *whys: str, hold: bool = False, **more: Any) -> dict[str, Any]:
    missing = [
        {"why": why, "subject": "1", "text": f"text of {why}", "since": None} for why in whys
    ]
    found = {"state": state, "rule": "every-voter", "hold": hold, "missing": missing, "mark": None}
    return {"node_id": 3000, "leader_id": 3000, "finalisation": found, "migration": None} | more


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
    lines = judged(status("waiting", "no_mark", "zookeeper_broker")).lines
    assert lines[:2] == ["missing: text of no_mark", "missing: text of zookeeper_broker"]


def test_controllers_are_restarted_after_the_brokers() -> None:
    """While brokers were in ZooKeeper mode it ended with the restart of the controllers."""
    early = judged(status("migrating", "controller_with_flag", "zookeeper_broker")).lines
    assert early[2:] == [BROKERS_FIRST, STEPS, UNDONE]
    assert judged(status("migrating", "controller_with_flag")).lines[1:] == [STEPS, UNDONE]
    late = judged(status("waiting", "zookeeper_broker")).lines
    assert late[1:] == [UNDONE]


def test_a_follower_names_who_is_to_be_asked() -> None:
    (line,) = judged(status("follows") | {"leader_id": 3002}).lines
    assert line == "node 3000 does not lead: ask node 3002, which leads"


def test_the_phase_of_a_controller_without_the_flag_is_that_of_its_log() -> None:
    assert phase_of(status("finalised")) == "finalised"
    assert phase_of(status("held", "held")) == "finalising"
    assert phase_of(status("follows")) == "finalising"
    assert phase_of(status() | {"finalisation": None}) == "not migrating"
