"""What an operator does next: the step of each state, and what is never a step in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emulator.metadata.migration_state import MigrationState
from emulator.migration.phases import WAIT_FOR, Ahead
from emulator.migration.side import BEHIND
from emulator.migration.taking_over.preconditions import Why
from emulator.operations.next_steps import (
    BY_REASON,
    DUPLICATE,
    FLAG,
    GRAVEST_FIRST,
    NAMED_BY_ERROR,
    NO_DIRECTORIES,
    NO_ZOOKEEPER_BROKERS,
    NOT_REGISTERED,
    SESSION_TRIES,
    WHAT_TO_DO,
    Action,
    BrokerMode,
    NextStep,
    as_json,
    lines,
    next_steps,
    of_preflight,
    of_rollback,
    verdict,
)
from emulator.operations.preflight import report
from emulator.operations.preflight.engine import Severity, finding
from emulator.operations.preflight.stage import MigrationStage
from emulator.operations.preflight.survey import DumpedZnode
from emulator.operations.rollback.course import (
    START_AND_STOP,
    Actor,
    Course,
    Wanted,
    plan,
    roll_back,
)
from emulator.operations.rollback.phases import RollbackPhase
from emulator.znodes import own
from emulator.zookeeper.ops import EPHEMERAL, Create, Delete
from tests.kit.status_document import (
    LAG,
    broker,
    document,
    ends,
    phase,
    quorum,
    reason,
    refusal,
    voter,
)
from tests.unit.operations.preflight.clean import plain, three_controllers_below_a_chroot
from tests.unit.operations.rollback.model import (
    BROKERS,
    ModelCluster,
    copying,
    dual_write,
    finalised,
    pre_migration,
)

DOWN = voter(3002, answers=False, ready=False, why_not="it cannot be reached: Connection refused")
THREE = [broker(1), broker(2), broker(3)]
FINISH = Ahead.FINISH.value
AGAIN = (Action.FORMAT, None)
IN_KRAFT = [broker(1, "kraft"), broker(2, "kraft")]


def told(found: dict[str, Any], **more: Any) -> NextStep:
    """The step that may be taken now; the others are later ones."""
    first, *later = next_steps(found, **more)
    assert first.now
    assert not any(one.now for one in later)
    done = later[0] if later and first.action is Action.DIFF else first
    assert f"next: {done.text}" in lines((first, *later))[:2]
    return first


def test_a_comparison_is_checked_before_the_step_that_it_is_for() -> None:
    """It was the next step for ever: nothing shows that it was made."""
    there = quorum(voter(3000), voter(3001))
    found = document("dual write", IN_KRAFT, quorum=there, finalisation=ends("migrating"))
    check, step, *_ = lines(next_steps(found))
    assert step.startswith("next: restart controller 3001 without zookeeper.metadata.")
    assert check.startswith("first check, it must print EQUAL: kraft-bridge zk diff --zookeeper ")
    check, step, *later = lines(next_steps(document("hybrid", THREE)))
    assert step.startswith("next: restart broker 1 in KRaft mode: with its third file")
    assert "kraft-bridge zk diff" in check
    assert later[:2] == ["later:", "  restart brokers 2, 3 in KRaft mode"]
    (waits, _) = lines(next_steps(document("hybrid", THREE, [reason("no_session")])))
    assert waits.startswith("next: repair")
    assert lines(()) == []


@pytest.mark.parametrize("width", [40, 80])
def test_a_terminal_gets_short_lines_and_commands_in_one(width: int) -> None:
    """Lines of 260 characters, beside tables of 80."""
    for found in (document("hybrid", THREE), document("pre-migration", waiting=NOT_THERE)):
        whole, wrapped = lines(next_steps(found)), lines(next_steps(found), width)
        labels = ("type: ", "check, it must", "look again: ")
        typed = [one for one in wrapped if any(each in one for each in labels)]
        assert set(typed) <= set(whole)
        assert all(len(one) <= width for one in wrapped if one not in typed)
        assert " ".join(" ".join(wrapped).split()) == " ".join(" ".join(whole).split())
        assert len(wrapped) > len(whole)


def test_the_last_restart_says_that_it_is_final() -> None:
    there = quorum(voter(3000), voter(3001, migration_flag=False))
    found = document("dual write", IN_KRAFT, quorum=there, finalisation=ends("migrating"))
    assert "cannot be undone" in lines(next_steps(found))[1]


@pytest.mark.parametrize(
    ("why", "flag"), [("controller_with_flag", True), ("controller_unknown", None)]
)
def test_the_last_start_says_that_it_is_final(why: str, flag: bool | None) -> None:
    """It said *start controller 3001*, which was the act that cannot be undone."""
    down = voter(3001, answers=False, ready=False, why_not="refused", migration_flag=flag)
    without = [voter(each, migration_flag=False) for each in (3000, 3002)]
    found = ending(why, subjects=["3001"], quorum=quorum(*without, down))
    (step,) = next_steps(found)
    first, typed = lines((step,))
    assert first == (
        "next: start controller 3001 without zookeeper.metadata.migration.enable: this is the last "
        "restart. Hold is off at controller 3000, so it is final and cannot be undone. To keep a "
        "way back, first set kraftbridge.finalise.hold=true in the file of each controller, which "
        "reads it when it starts (to go back instead, start it with the flag)"
    )
    assert typed == "type: kraft-bridge controller -c FILE"
    assert as_json((step,))[0]["flag"] is False


def ending(*whys: str, subjects: Any = (), **more: Any) -> dict[str, Any]:
    """A document of a leader without the flag."""
    end = ends("waiting", *whys, subjects=subjects)
    found = document("finalising", finalisation=end, **more)
    return found | {"migration": None, "phase": found["phase"] | {"ahead": FINISH}}


def test_near_the_end_a_start_says_with_or_without_the_flag() -> None:
    down = voter(3001, answers=False, ready=False, why_not="refused")
    own = voter(3000, migration_flag=False)
    left = quorum(own, down, voter(3002))
    step = told(ending("controller_with_flag", "controller_with_flag", quorum=left))
    assert (step.flag, "last restart" in step.text) == (False, False), "3002 has it still"
    there = quorum(own, down, voter(3002, migration_flag=False))
    for why in ("no_mark", "zookeeper_broker"):
        step = told(ending(why, "controller_with_flag", quorum=there))
        assert (step.action, step.node, step.flag) == (Action.START_CONTROLLER, 3001, True)
        assert step.text.startswith(f"start controller 3001 with {FLAG}=true: text of {why}")
    before = quorum(own, down | {"migration_flag": False}, voter(3002, migration_flag=False))
    step = told(ending("held", quorum=before))
    assert (step.flag, "last restart" in step.text) == (False, False), "it changes nothing"
    for leader in (None, 3002):
        step = told(ending(quorum=there | {"leader_id": leader}, leader_id=leader))
        assert (step.flag, "once no controller has it the migration is final" in step.why) == (
            None,
            True,
        ), "one that does not lead does not know what is missing"


def test_files_that_were_given_are_named() -> None:
    """It waited for the end at the leader, which the step before restarts."""
    files = {3000: "a", 3001: "b c"}
    asked: Any = {"asked": " -c a -c 'b c'", "files": files}
    there = quorum(voter(3000), voter(3001, migration_flag=False))
    found = document("dual write", IN_KRAFT, quorum=there, finalisation=ends("migrating"))
    assert next_steps(found, **asked)[-1].command == (
        "kraft-bridge status -c a -c 'b c' --wait final --timeout 600"
    )
    down = voter(3001, answers=False, ready=False, why_not="refused")
    step = told(document("hybrid", THREE, quorum=quorum(voter(3000), down)), **asked)
    assert step.command == "kraft-bridge controller -c 'b c'"
    held = document("finalising", finalisation=ends("held", "held"), quorum=there)
    held |= {"migration": None, "phase": held["phase"] | {"ahead": Ahead.END_HOLD.value}}
    assert told(held, **asked).command == "kraft-bridge finalise -c a --yes"
    by_url = told(held, asked=" --url http://h:1")
    assert by_url.command == (
        "kraft-bridge finalise --url http://h:1 --log-dir /var/lib/kraft-bridge --yes"
    )
    back = document("refused", quorum=there)
    back |= {"phase": back["phase"] | {"ahead": Ahead.SEE_ROLLBACK.value}}
    assert next_steps(back, **asked)[1].command == "kraft-bridge rollback -c a -c 'b c'"
    one = next_steps(back, files={3000: "a"})[1]
    assert one.command == "kraft-bridge rollback -c a -c FILE_OF_EACH_CONTROLLER"
    led = document("hybrid", leader_id=3001, quorum=there)
    assert told(led, **asked).command == "kraft-bridge status -c 'b c'"


NOT_THERE = [
    reason("broker_not_registered", str(one))
    | {"text": f"broker {one} (known from /brokers/ids) has not registered: restart it with x=true"}
    for one in (1, 2, 3)
]


def test_a_broker_is_restarted_with_all_that_it_needs() -> None:
    """With the flag alone, as it said, Kafka ends: it wants the controllers' three keys too."""
    step, again, _, others, *more = lines(next_steps(document("pre-migration", waiting=NOT_THERE)))
    assert step == (
        "next: restart broker 1 in ZooKeeper mode with the migration on: with the lines that "
        "kraft-bridge format printed (runbook, step 2); its inter.broker.protocol.version must be "
        "3.9-IV0"
    )
    assert again == "then look again: kraft-bridge status", "which restarts nothing"
    assert others.startswith("  restart brokers 2, 3 in ZooKeeper mode with the migration on: ")
    assert more == ["    then look again: kraft-bridge status"]
    refused = NOT_THERE[0] | {"text": "broker 1 tries to register and is refused: why"}
    assert told(document("pre-migration", waiting=[refused])).why == refused["text"]


@pytest.mark.parametrize(
    ("known_from", "gone"),
    [
        (
            "replica assignments",
            "move its replicas to other brokers (kafka-reassign-partitions.sh)",
        ),
        ("replica assignments, /config/brokers", "move its replicas to other brokers"),
        ("/config/brokers", "delete /config/brokers/8"),
    ],
)
def test_a_broker_that_does_not_run_is_started(known_from: str, gone: str) -> None:
    """It was to be restarted, and nothing was said of a machine that is lost."""
    text = f"broker 8 (known from {known_from}) has not registered: restart it with x=true"
    down = reason("broker_not_registered", "8") | {"text": text}
    step = told(document("pre-migration", waiting=[down]))
    assert (step.action, step.node, step.mode) == (Action.START_BROKER, 8, BrokerMode.MIGRATION)
    assert step.problem
    assert "with the lines that kraft-bridge format printed" in step.why
    assert f"it is absent from /brokers/ids; if it is gone for good: {gone}" in step.why


def test_a_command_that_only_looks_is_not_the_step() -> None:
    """Under *restart broker 1* it told to type ``kraft-bridge status``."""
    for why in Why:
        found = document("pre-migration", waiting=[reason(why.value, "2")])
        for line in lines(next_steps(found, asked=" --url http://h:1")):
            if line.strip() == "type: kraft-bridge status --url http://h:1":
                assert told(found).action is Action.WAIT
    several = quorum(voter(3000), voter(3001), leader=None)
    nobody = next_steps(document("hybrid", leader_id=None, quorum=several))
    assert lines(nobody)[1] == "type: kraft-bridge status -c FILE", "of each of the others"


def test_every_reason_to_wait_has_an_action() -> None:
    assert set(BY_REASON) == set(Why)
    for why in Why:
        step = told(document("pre-migration", waiting=[reason(why.value, "2")]))
        assert (step.action, step.mode, step.flag) == BY_REASON[why]
        do = WHAT_TO_DO.get(why, "").replace("NODE", "2")
        assert step.why == f"text of {why.value}{f': {do}' if do else ''}"


@pytest.mark.parametrize("ahead", Ahead)
def test_everything_that_is_ahead_has_a_step(ahead: Ahead) -> None:
    found = document("dual write", finalisation=ends("migrating"))
    assert told(found | {"phase": found["phase"] | {"ahead": ahead.value}}).what


@pytest.mark.parametrize("ahead", Ahead)
def test_a_command_has_the_chroot_and_the_folder(ahead: Ahead) -> None:
    """It named the server alone: ``zk diff`` without the chroot looks as if all was lost."""
    found = document("dual write", finalisation=ends("held", "held"))
    found |= {"phase": found["phase"] | {"ahead": ahead.value}}
    for shown in (found, found | {"leader_id": 3001}):
        for step in next_steps(shown):
            if "--zookeeper" in step.command:
                assert "--zookeeper z:2181/kafka" in step.command
            if "--log-dir" in step.command:
                assert "--log-dir /var/lib/kraft-bridge" in step.command
    (first, *_) = next_steps(document("hybrid", THREE, log_dir="/a b"))
    assert first.command.endswith(" --log-dir '/a b'")
    del found["log_dir"], found["migration"]["zookeeper"]["connect"]
    for step in next_steps(found):
        assert "z:2181" not in step.command, "an earlier release does not show the chroot"


@pytest.mark.parametrize("older", ["pre-migration", "copying", "hybrid", "dual write", "refused"])
@pytest.mark.parametrize("leader", [3000, 3001, None])
def test_a_voter_that_is_down_comes_before_everything_else(older: str, leader: int | None) -> None:
    """It advised to restart brokers while one of three voters was down."""
    found = document(
        older,
        THREE,
        [reason("no_session", "z:1", fatal=True)],
        refusals=[refusal()],
        leader_id=leader,
        quorum=quorum(voter(3000), voter(3001), DOWN, leader=leader),
        finalisation=ends("migrating", "zookeeper_broker"),
    )
    (step,) = next_steps(found)
    assert (step.action, step.node, step.problem) == (Action.START_CONTROLLER, 3002, True)
    assert verdict(found, (step,)).startswith("PROBLEM: ")


def test_a_follower_says_which_controller_to_ask() -> None:
    step = told(document("hybrid", leader_id=3002, quorum=quorum(voter(3000), voter(3002))))
    assert (step.action, step.node) == (Action.ASK, 3002)


def test_one_that_led_before_its_restart_does_not_lead() -> None:
    """It had applied nothing of its log yet, and said that nothing was migrated: preflight."""
    there = quorum(voter(3000), voter(3001), state="resigned")
    step = told(document("not migrating", quorum=there))
    assert (step.action, step.why.startswith("no leader is known")) == (Action.REPAIR, True)
    led = quorum(voter(3000), voter(3001), state="leader")
    assert told(document("not migrating", quorum=led)).action is Action.PREFLIGHT


def test_without_a_leader_the_quorum_comes_first() -> None:
    there = quorum(voter(3000), voter(3001), leader=None)
    step = told(document("hybrid", leader_id=None, quorum=there))
    assert (step.action, "majority" in step.why) == (Action.REPAIR, True)
    begun = there | {"leaderless_ms": 2_500}
    step = told(document("hybrid", leader_id=None, quorum=begun))
    assert (step.action, step.problem) == (Action.WAIT, False)
    assert step.why == "no leader is known for 2.5 s: an election goes on"
    step = told(
        document("hybrid", leader_id=None, quorum=there | {"voter_state": "unknown"}),
    )
    assert "--new-quorum --ignore-formatted" in step.command


@pytest.mark.parametrize(
    ("older", "more", "action", "node", "mode"),
    [
        ("hybrid", {}, Action.DIFF, None, None),
        ("hybrid", {"compared": True}, Action.RESTART_BROKER, 1, BrokerMode.KRAFT),
        ("copying", {}, Action.WAIT, None, None),
        ("pre-migration", {}, Action.WAIT, None, None),
        ("not migrating", {}, Action.PREFLIGHT, None, None),
        ("claiming", {}, Action.WAIT, None, None),
        ("finalised", {}, Action.NOTHING, None, None),
    ],
)
def test_the_step_of_a_phase(
    older: str, more: Any, action: Action, node: int | None, mode: BrokerMode | None
) -> None:
    step = told(document(older, THREE if older == "hybrid" else ()), **more)
    assert (step.action, step.node, step.mode) == (action, node, mode)


def test_brokers_are_restarted_one_by_one() -> None:
    found = document("hybrid", [broker(1, "kraft"), broker(2), broker(3)])
    steps = next_steps(found)
    assert [(one.action.value, one.node) for one in steps] == [
        ("restart_broker", 2),
        ("restart_broker", 3),
        ("wait", None),
    ]
    assert (steps[-1].wait_for, steps[0].mode) == ("all-brokers-in-kraft", BrokerMode.KRAFT)


UNSETTLED: list[tuple[dict[str, Any], Action, int | None]] = [
    (document("hybrid", [broker(1, "kraft", fenced=True), broker(2)]), Action.START_BROKER, 1),
    (
        document("hybrid", [broker(1, "kraft"), broker(2, in_controlled_shutdown=True)]),
        Action.START_BROKER,
        2,
    ),
    (
        document("hybrid", THREE, [reason("broker_unreachable", "3")]),
        Action.START_BROKER,
        3,
    ),
    (document("hybrid", THREE, [reason("no_session", "z:1")]), Action.REPAIR, None),
    (document("hybrid", THREE, migration={"compared_at": None}), Action.WAIT, None),
    (document("hybrid", THREE, migration={"lag": LAG | {"records": None}}), Action.WAIT, None),
    (
        document("hybrid", THREE, quorum=quorum(voter(3000), voter(3001, ready=False))),
        Action.WAIT,
        None,
    ),
    (
        document("hybrid", THREE, quorum=quorum(voter(3000), voter(3001, migration_flag=False))),
        Action.RESTART_CONTROLLER,
        3001,
    ),
    (
        document("hybrid", [broker(1), broker(2, fenced=True), broker(3)], refusals=[refusal()]),
        Action.REPAIR,
        2,
    ),
    (document("hybrid", [broker(1)], refusals=[refusal()]), Action.REPAIR, 2),
    (
        document(
            "hybrid",
            THREE,
            migration={"poisoned": [{"znode": "/x", "skipped": False, "remedy": "do it"}]},
        ),
        Action.REPAIR,
        None,
    ),
]


@pytest.mark.parametrize(("found", "action", "node"), UNSETTLED)
def test_no_broker_is_restarted_before_what_is_wrong_is_settled(
    found: dict[str, Any], action: Action, node: int | None
) -> None:
    steps = next_steps(found, compared=True)
    assert (steps[0].action, steps[0].node) == (action, node)
    assert Action.RESTART_BROKER not in {one.action for one in steps}


LATER, NOW = "2026-01-01T00:02:00.000+00:00", "2026-01-01T00:00:09.000+00:00"
"""A minute after ``refusal()``, and some seconds."""
ALIVE, FENCED = (), (broker(1), broker(2, fenced=True), broker(3))
"""Brokers: 2 is active, or it is fenced."""
EARLY = {"error": NOT_REGISTERED, "text": "Controller is in pre-migration mode"}
NO_FLAG = {"error": NOT_REGISTERED, "text": NO_ZOOKEEPER_BROKERS}


@pytest.mark.parametrize(
    ("more", "brokers", "at", "action"),
    [
        ({"error": DUPLICATE, "times": 3}, ALIVE, NOW, Action.WAIT),
        ({"error": DUPLICATE, "times": 3}, ALIVE, LATER, Action.DIFF),
        ({"error": DUPLICATE, "times": 3}, FENCED, NOW, Action.START_BROKER),
        ({"error": DUPLICATE, "times": SESSION_TRIES}, ALIVE, NOW, Action.REPAIR),
        ({"error": DUPLICATE, "broker": 3000}, ALIVE, LATER, Action.REPAIR),
        ({"error": "INCONSISTENT_CLUSTER_ID"}, ALIVE, NOW, Action.REPAIR),
        ({"error": "INCONSISTENT_CLUSTER_ID"}, ALIVE, LATER, Action.DIFF),
        ({}, ALIVE, NOW, Action.DIFF),
        ({}, FENCED, LATER, Action.REPAIR),
        (EARLY, FENCED, NOW, Action.WAIT),
        (EARLY, FENCED, LATER, Action.START_BROKER),
        (NO_FLAG, FENCED, NOW, Action.REPAIR),
    ],
)
def test_a_refusal_that_ends_by_itself_needs_no_repair(
    more: dict[str, Any], brokers: Any, at: str, action: Action
) -> None:
    """Of a broker that was killed and came back within its session it said: repair."""
    found = document("hybrid", brokers or THREE, refusals=[refusal() | more], shown_at=at)
    assert told(found).action is action
    without_time = {key: found[key] for key in found if key != "shown_at"}
    assert told(without_time).action is told(found | {"shown_at": NOW}).action


@pytest.mark.parametrize(
    ("flag", "now", "action"),
    [
        (True, NOW, Action.WAIT),
        (True, LATER, Action.RESTART_CONTROLLER),
        (False, NOW, Action.RESTART_CONTROLLER),
        (None, NOW, Action.RESTART_CONTROLLER),
    ],
)
def test_a_controller_with_the_flag_registers_by_itself_within_a_minute(
    flag: bool | None, now: str, action: Action
) -> None:
    """It was to be restarted in the moment of its election, before it had registered."""
    not_yet = reason("controller_not_ready", "3001") | {"since": "2026-01-01T00:00:05.000+00:00"}
    there = quorum(voter(3000), voter(3001, migration_flag=flag))
    found = document("pre-migration", waiting=[not_yet], quorum=there, shown_at=now)
    assert (told(found).action, told(found).problem) == (action, False)


def test_what_only_an_operator_can_help_comes_before_what_ends_by_itself() -> None:
    waits = refusal(1) | {"error": DUPLICATE}
    found = document("hybrid", FENCED, refusals=[waits, refusal(2)], shown_at=NOW)
    assert (told(found).action, told(found).node) == (Action.REPAIR, 2)


def test_a_broker_refused_by_a_leader_without_the_flag_is_not_what_is_to_be_repaired() -> None:
    there = quorum(voter(3000, migration_flag=False))
    found = document("pre-migration", refusals=[refusal() | NO_FLAG], quorum=there)
    step = told(found | {"phase": found["phase"] | {"ahead": Ahead.SET_FLAG.value}})
    assert (step.action, step.node, step.flag) == (Action.RESTART_CONTROLLER, 3000, True)


@pytest.mark.parametrize("ahead", [Ahead.END_HOLD, Ahead.FINISH, Ahead.NOTHING])
def test_a_broker_restarted_in_zookeeper_mode_at_the_end_is_restarted_in_kraft_mode(
    ahead: Ahead,
) -> None:
    """It said: end the hold, nothing else is missing; the broker stayed refused for good."""
    there = quorum(voter(3000, migration_flag=False))
    found = document("finalising", FENCED, refusals=[refusal() | NO_FLAG], quorum=there)
    found |= {"phase": found["phase"] | {"ahead": ahead.value}, "shown_at": LATER}
    step = told(found)
    assert (step.action, step.node, step.mode) == (Action.RESTART_BROKER, 2, BrokerMode.KRAFT)
    registered = found | {"brokers": [broker(1), broker(2), broker(3)]}
    gone = found | {"brokers": [broker(1), broker(3)]}
    assert told(registered).action is told(gone).action is not Action.RESTART_BROKER


def test_the_step_says_what_the_error_names() -> None:
    """It said: correct what the error names; and not what that is."""
    taken = {"error": "INVALID_REGISTRATION", "text": "Broker 1 has it", "remedy": NAMED_BY_ERROR}
    found = document("hybrid", FENCED, refusals=[refusal() | taken])
    assert f"(INVALID_REGISTRATION: Broker 1 has it): {NAMED_BY_ERROR}" in told(found).why
    old = document("hybrid", FENCED, refusals=[refusal() | taken | {"text": NO_DIRECTORIES}])
    assert told(old).why.endswith("a release that supports metadata.version 3.9-IV0.")


@pytest.mark.parametrize("older", ["dual write", "hybrid", "finalising"])
def test_no_controller_is_restarted_before_its_leader_has_heard_of_the_others(older: str) -> None:
    """A leader that was just elected shows voters as running that may be down."""
    unheard = {"last_fetch": None, "why_not": "it has not fetched from the leader in this epoch"}
    there = quorum(
        voter(3000, migration_flag=older != "finalising"),
        voter(3001, migration_flag=older != "hybrid"),
        voter(3002, **unheard),
    )
    missing = ends("waiting", "controller_with_flag", subjects=["3001"])
    found = document(older, THREE[: older == "hybrid"], quorum=there, finalisation=missing)
    found |= {} if older != "finalising" else {"phase": phase("finalising") | {"ahead": FINISH}}
    step = told(found, compared=True)
    assert (step.action, "controller 3002 may be down" in step.why) == (Action.WAIT, True)


@pytest.mark.parametrize("brokers", [THREE, [broker(1, "kraft"), broker(2)]])
@pytest.mark.parametrize("compared", [True, False])
def test_no_controller_loses_its_flag_while_a_broker_is_in_zookeeper_mode(
    brokers: list[dict[str, Any]], compared: bool
) -> None:
    missing = ends("migrating", "controller_with_flag", "zookeeper_broker", subjects=["3000", "1"])
    steps = next_steps(document("hybrid", brokers, finalisation=missing), compared=compared)
    assert Action.RESTART_CONTROLLER not in {one.action for one in steps}
    assert not any("without" in one.text for one in steps)


def test_controllers_lose_the_flag_the_leading_one_last() -> None:
    there = quorum(voter(3000), voter(3001), voter(3002, migration_flag=False))
    found = document("dual write", IN_KRAFT, quorum=there, finalisation=ends("migrating"))
    steps = next_steps(found)
    assert [(one.action, one.node, one.flag) for one in steps[:3]] == [
        (Action.DIFF, None, None),
        (Action.RESTART_CONTROLLER, 3001, False),
        (Action.RESTART_CONTROLLER, 3000, False),
    ]
    assert steps[3].wait_for == "final"
    assert told(found, compared=True).node == 3001
    waits = found | {"finalisation": ends("migrating", no_mark_because="not compared yet")}
    (step,) = next_steps(waits, compared=True)
    assert (step.action, "not compared yet" in step.why) == (Action.WAIT, True)
    behind = found | {"finalisation": ends("migrating", no_mark_because=BEHIND)}
    assert told(behind, compared=True).node == 3001, "under load some changes always wait"


@pytest.mark.parametrize(
    ("end", "action", "node", "flag"),
    [
        (ends("waiting"), Action.WAIT, None, None),
        (ends("held", "held"), Action.FINALISE, None, None),
        (
            ends("waiting", "controller_with_flag", subjects=["3001"]),
            Action.RESTART_CONTROLLER,
            3001,
            False,
        ),
        (
            ends("waiting", "controller_unknown", subjects=["3001"]),
            Action.RESTART_CONTROLLER,
            3001,
            False,
        ),
        (ends("waiting", "no_mark"), Action.RESTART_CONTROLLER, 3001, True),
        (ends("waiting", "zookeeper_broker"), Action.RESTART_CONTROLLER, 3001, True),
        (
            ends("waiting", "zookeeper_broker", "controller_with_flag", subjects=["1", "3001"]),
            Action.WAIT,
            None,
            None,
        ),
        (
            ends("waiting", "no_mark", "controller_with_flag", subjects=["", "3001"]),
            Action.WAIT,
            None,
            None,
        ),
    ],
)
def test_what_is_done_at_a_leader_without_the_flag(
    end: dict[str, Any], action: Action, node: int | None, flag: bool | None
) -> None:
    """A broker in ZooKeeper mode, or a mark, needs a leader with the flag first."""
    runs = any(one["why"] == "controller_with_flag" for one in end["missing"])
    there = quorum(voter(3000, migration_flag=False), voter(3001, migration_flag=runs))
    found = document("finalising", quorum=there, finalisation=end)
    ahead = Ahead.END_HOLD if end["state"] == "held" else Ahead.FINISH
    found |= {"migration": None, "phase": phase("finalising") | {"ahead": ahead.value}}
    step = told(found)
    assert (step.action, step.node, step.flag) == (action, node, flag)
    assert step.no_way_back is (action is Action.FINALISE or flag is False)


@pytest.mark.parametrize(
    ("found", "marked"),
    [
        (document("dual write", IN_KRAFT, finalisation=ends("migrating")), [True]),
        (
            document(
                "dual write",
                IN_KRAFT,
                quorum=quorum(voter(3000), voter(3001)),
                finalisation=ends("migrating"),
            ),
            [False, True],
        ),
    ],
)
def test_the_step_behind_which_there_is_no_way_back_is_marked(
    found: dict[str, Any], marked: list[bool]
) -> None:
    steps = [one for one in next_steps(found) if one.action is Action.RESTART_CONTROLLER]
    assert [one.no_way_back for one in steps] == marked
    assert [one["no_way_back"] for one in as_json(steps)] == marked
    assert not any(one.no_way_back for one in next_steps(document("hybrid", THREE)))


@pytest.mark.parametrize(
    ("hold", "says"),
    [
        (True, "Hold is on at controller 3000 (kraftbridge.finalise.hold=true); only if it is on"),
        (False, "Hold is off at controller 3000, so it is final and cannot be undone"),
        (None, "Whether hold is on is not known, so treat it as final: it cannot be undone"),
    ],
)
@pytest.mark.parametrize("voters", [(3000,), (3000, 3001)])
def test_the_last_restart_says_whether_there_is_a_hold(
    hold: bool | None, says: str, voters: tuple[int, ...]
) -> None:
    end = ends("migrating") | {"hold": hold}
    there = quorum(*(voter(each) for each in voters))
    found = next_steps(document("dual write", IN_KRAFT, quorum=there, finalisation=end))
    (why,) = [one.why for one in found if one.action is Action.RESTART_CONTROLLER and one.why]
    last = "the last one decides" if len(voters) > 1 else "this is the last restart"
    assert f"{last}. {says}" in why
    assert "unless" not in why


@pytest.mark.parametrize("older", ["hybrid", "dual write", "pre-migration", "refused", "deposed"])
def test_no_step_deletes_the_controller_epoch(older: str) -> None:
    for why in Why:
        found = document(older, waiting=[reason(why.value, "2")])
        text = " ".join(one.text + one.command for one in next_steps(found))
        assert "delete /controller" not in text


def planned(world: ModelCluster) -> Course:
    """What a rollback finds."""
    return plan(world, Wanted())[1]


def actions(course: Course) -> list[tuple[Action, int | None]]:
    """Each step and the node that it is about."""
    first, *later = of_rollback(course)
    assert first.now
    assert not any(one.now for one in later)
    return [(one.action, one.node) for one in (first, *later)]


def test_a_cluster_that_can_go_back_does_so_and_no_change_is_said_to_be_lost() -> None:
    for world in (pre_migration(), copying(), dual_write()):
        (step,) = of_rollback(planned(world))
        assert (step.action, step.problem) == (Action.ROLLBACK, False)
        assert step.command.endswith("-c FILE_OF_EACH_CONTROLLER --yes")
    behind = of_rollback(planned(dual_write(lag=5)))[0]
    assert behind.why.startswith("no change would be lost: it waits until ZooKeeper has every one")


def test_brokers_in_kraft_mode_are_restarted_before_the_way_back() -> None:
    course = planned(dual_write(kraft=(1, 2), alive=(0,)))
    assert actions(course) == [
        (Action.RESTART_BROKER, 1),
        (Action.RESTART_BROKER, 2),
        (Action.ROLLBACK, None),
    ]
    assert {one.mode for one in of_rollback(course)} == {BrokerMode.MIGRATION, None}
    assert "unregister --id 1" in of_rollback(course)[0].why, "it may be gone"
    assert course.seen is not None
    (leader,) = course.seen.controllers
    there = {"brokers": [broker(1, "kraft"), broker(2, "kraft", fenced=True)]}
    status = {**(leader.status or {}), **there}
    course.seen = replace(course.seen, controllers=(replace(leader, status=status),))
    alive, gone, _ = of_rollback(course)
    assert ("unregister" in alive.why, "unregister" in gone.why) == (False, True)
    assert "--yes" not in of_rollback(course)[-1].command, "it is planned again first"


def test_controllers_without_the_flag_come_before_the_brokers() -> None:
    course = planned(dual_write(kraft=(1,), alive=(0, 2), flagless="waiting"))
    (controller, broker, *_) = of_rollback(course)
    assert (controller.action, controller.flag) == (Action.RESTART_CONTROLLER, True)
    assert (broker.action, broker.now) == (Action.RESTART_BROKER, False)


def test_a_voter_that_is_down_comes_before_brokers_on_the_way_back() -> None:
    course = planned(dual_write(kraft=(1,), alive=(0, 2)))
    assert course.seen is not None
    leader = course.seen.leader
    assert leader is not None
    assert leader.status is not None
    status = {**leader.status, "quorum": quorum(voter(3000), DOWN)}
    course.seen = replace(course.seen, controllers=(replace(leader, status=status),))
    assert actions(course)[:2] == [(Action.START_CONTROLLER, 3002), (Action.RESTART_BROKER, 1)]


def test_where_there_is_no_way_back_there_is_no_step() -> None:
    assert actions(planned(finalised())) == [(Action.NOTHING, None)]


def test_afterwards_the_brokers_lose_the_keys_of_the_migration() -> None:
    done = roll_back(dual_write(), Wanted())
    assert done.failed == ""
    *brokers, again = of_rollback(done)
    assert [(one.action, one.node) for one in brokers] == [
        (Action.RESTART_BROKER, each) for each in BROKERS
    ]
    assert {one.mode for one in brokers} == {BrokerMode.ZOOKEEPER}
    assert (again.action, again.now) == (Action.FORMAT, False)


def test_behind_the_way_back_is_how_a_second_attempt_is_begun() -> None:
    """What comes later had nothing about it; the runbook has, in the same words."""
    cluster = dual_write()
    roll_back(cluster, Wanted())
    again = of_rollback(planned(cluster))[-1]
    assert again.text.startswith("format each controller: for a second attempt, once all brokers ")
    assert "; then, with the same files, kraft-bridge rollback --yes --clear, " in again.text
    assert again.command == "kraft-bridge format -c FILE --new-quorum"
    page = " ".join((Path(__file__).parents[3] / "docs/runbook.md").read_text().split())
    _, _, page = page.lower().partition("for a second attempt, ")
    words = ("once all brokers run as before step 2", "stop the controllers, remove their folders")
    for each in (*words, "format each", "start none yet", "begin again with step 1"):
        assert each in again.why
        assert each in page
    rolled = document("refused", waiting=[reason(Why.ZOOKEEPER_MODE_TOOK_OVER.value)])
    rolled["phase"]["ahead"] = Ahead.SEE_ROLLBACK.value
    assert next_steps(rolled)[-1].action is Action.FORMAT
    assert of_rollback(roll_back(cluster, Wanted(clear=True)))[-1].action is not Action.FORMAT


def test_a_broker_that_was_restarted_since_the_rollback_is_not_named_again() -> None:
    """It named the first one each time it was asked, and came to no end."""
    cluster = dual_write()
    roll_back(cluster, Wanted())
    for at, each in enumerate(BROKERS):
        assert actions(planned(cluster)) == [
            *((Action.RESTART_BROKER, one) for one in BROKERS[at:]),
            AGAIN,
        ]
        cluster.tree.write(Delete(f"/brokers/ids/{each}"), 7, 2)
        cluster.tree.write(Create(f"/brokers/ids/{each}", b"{}", flags=EPHEMERAL), 7, 2)
    assert actions(planned(cluster)) == [(Action.NOTHING, None), AGAIN]
    cluster.tree.nodes[own.PATH].mtime_ms = 3
    assert actions(planned(cluster)) == [
        *((Action.RESTART_BROKER, one) for one in BROKERS),
        AGAIN,
    ]


def test_controllers_that_run_again_after_a_rollback_are_stopped() -> None:
    """Each verb named another, and none of them stops what runs."""
    rolled = [reason(Why.ZOOKEEPER_MODE_TOOK_OVER.value)]
    for there in (quorum(voter(3000), voter(3001)), quorum(voter(3000), voter(3001), DOWN)):
        found = document("refused", waiting=rolled, quorum=there)
        found["phase"]["ahead"] = Ahead.SEE_ROLLBACK.value
        step, *_ = lines(next_steps(found))
        assert step == "next: stop every controller: the cluster is in ZooKeeper mode again"
    cluster = dual_write(quorum=(3000, 3001))
    roll_back(cluster, Wanted())
    cluster.up = [3000, 3001]
    again = roll_back(cluster, Wanted())
    assert actions(again)[0] == (Action.STOP_CONTROLLER, 3000)
    first = next(one for one in again.steps if not one.done)
    assert (first.actor, first.what) == (
        Actor.OPERATOR,
        "stop controller 3000, controller 3001 by SIGTERM",
    )
    assert not [one for one in again.steps if one.actor is Actor.COMMAND and "stop" in one.what]
    assert lines(of_rollback(roll_back(cluster, Wanted(clear=True)))) == [
        "next: stop every controller: 3000, 3001 by SIGTERM, then repeat",
        "type: kraft-bridge rollback -c FILE_OF_EACH_CONTROLLER --clear --yes",
    ]


def test_once_cleared_nothing_is_left_but_what_was_not_done() -> None:
    """It said to restart brokers and to format folders that were."""
    cluster = dual_write(quorum=(3000, 3001), seen_folders=False)
    roll_back(cluster, Wanted(accept_loss=True))
    cluster.tree.nodes[own.PATH].mtime_ms = 1
    for each in BROKERS:
        cluster.tree.write(Delete(f"/brokers/ids/{each}"), 7, 2)
        cluster.tree.write(Create(f"/brokers/ids/{each}", b"{}", flags=EPHEMERAL), 7, 2)
    cleared = roll_back(cluster, Wanted(clear=True))
    assert [one for one in cleared.steps if not one.done] == []
    begin = "for a second attempt begin with kraft-bridge preflight (runbook, step 1)"
    assert lines(of_rollback(cleared)) == [f"next: nothing: {begin}"]
    left = roll_back(dual_write(), Wanted(clear=True))
    assert [one.what.partition(" ")[0] for one in left.steps if not one.done] == [
        "restart",
        "before",
    ], "a folder holds a log, and brokers have the keys"


def test_a_run_that_failed_is_run_again() -> None:
    course = planned(dual_write())
    course.failed = "the time is over"
    (step,) = of_rollback(course)
    assert (step.action, step.problem) == (Action.ROLLBACK, True)
    assert step.why == "the time is over; it can be run again at any point"


def test_a_run_that_leaves_changes_in_a_log_names_the_controllers_that_write_them() -> None:
    """They are stopped by then; each one is planned again, and needs the others to lead."""
    course = planned(dual_write())
    assert course.seen is not None
    (leader,) = course.seen.controllers
    other = replace(leader, node_id=3001, runs=False, status=None)
    course.failed = f"2 records are not in ZooKeeper: {START_AND_STOP}"
    course.seen = replace(course.seen, controllers=(leader, other))
    starts = [(Action.START_CONTROLLER, leader.node_id), (Action.START_CONTROLLER, 3001)]
    assert actions(course) == [*starts, (Action.ROLLBACK, None)]
    course.failed = ""
    assert actions(course) == [(Action.ROLLBACK, None)], "one leads"
    course.seen = replace(course.seen, controllers=(replace(leader, status=None), other))
    assert actions(course) == [*starts[1:], (Action.ROLLBACK, None)]


def test_with_nobody_to_be_elected_a_broker_is_started_first() -> None:
    course = planned(dual_write())
    assert course.seen is not None
    course.phase = RollbackPhase.RELEASED
    survey = replace(course.seen.survey, nodes={})
    for course.failed in ("", "no broker runs in ZooKeeper mode"):
        course.seen = replace(course.seen, survey=survey)
        assert actions(course) == [(Action.REPAIR, None)]
        assert "start a broker in ZooKeeper mode" in of_rollback(course)[0].why


def test_a_preflight_begins_with_the_first_blocker_or_what_the_phase_asks_for() -> None:
    clean = report.run(plain())
    blocked = replace(clean, findings=(finding("B07", "/x", "no JSON", "", "repair it"),))
    first, last = of_preflight(blocked)
    assert (first.action, first.why) == (Action.REPAIR, "PF-B07 /x: repair it")
    assert (last.action, last.now) == (Action.PREFLIGHT, False)
    for stage in MigrationStage:
        standing = replace(clean.standing, stage=stage)
        step, *_ = of_preflight(replace(clean, findings=(), standing=standing))
        assert step.now
        starts = stage is MigrationStage.NOT_BEGUN
        assert (step.action is Action.START_CONTROLLER) == starts, "it is formatted"


def test_controllers_are_formatted_and_then_started() -> None:
    """Of three that were formatted it still said to format each."""
    survey = three_controllers_below_a_chroot()
    names = {one.node_id: one.name for one in survey.controllers}
    ready = [(each, f"kraft-bridge controller -c {names[each]}") for each in sorted(names)]
    steps = of_preflight(report.run(survey))
    assert [(one.node, one.command) for one in steps] == ready
    assert steps[0].action is Action.START_CONTROLLER
    old = [replace(one, end_offset=9, state=MigrationState.PRE_MIGRATION) for one in survey.folders]
    (step,) = of_preflight(replace(report.run(survey), survey=replace(survey, folders=old)))
    assert (step.action, "has run" in step.why) == (Action.WAIT, True)
    (step,) = of_preflight(report.run(replace(survey, folders=())), "-c a")
    asked = step.command.split(" --controller-dir ")
    assert asked == ["kraft-bridge preflight -c a", *["FOLDER"] * 3], "it may hold an old log"
    bare = [replace(one, meta={}, metas={}) for one in survey.properties]
    fresh = of_preflight(report.run(replace(survey, properties=bare, folders=survey.folders[:1])))
    assert [(one.action, one.node, one.command) for one in fresh] == [
        (Action.FORMAT, each, f"kraft-bridge format -c {names[each]} --new-quorum")
        for each in sorted(names)[1:]
    ]
    assert lines(fresh)[0].startswith("next: format controller ")


def test_without_the_files_no_controller_is_started() -> None:
    """Of production alone, with 16 checks left out, it said to start a controller there."""
    found = report.run(replace(plain(), properties=(), targets=(), folders=()))
    (step,) = of_preflight(found, "--zookeeper h:1/kafka")
    assert (step.action, step.command) == (
        Action.PREFLIGHT,
        "kraft-bridge preflight --zookeeper h:1/kafka -c FILES",
    )
    assert f"{len(found.not_run)} checks need them; of a production cluster make a copy" in step.why


def test_where_it_is_final_nothing_is_checked() -> None:
    """It said BLOCKED, and wanted the flag of the migration back."""
    survey = plain()
    done = [replace(one, state=MigrationState.POST_MIGRATION) for one in survey.folders]
    nodes = {k: one for k, one in survey.nodes.items() if not k.startswith("/brokers/ids/")}
    over = report.run(replace(survey, folders=done, nodes=nodes))
    assert over.count(Severity.BLOCKER), "those of a migration that is to begin"
    (step,) = of_preflight(over)
    assert (step.action, step.why) == (Action.NOTHING, "ZooKeeper may be stopped")
    step, *_ = of_preflight(report.run(replace(survey, folders=done)))
    assert (step.action, step.mode, step.problem) == (
        Action.RESTART_BROKER,
        BrokerMode.KRAFT,
        True,
    ), "one that is still in ZooKeeper mode sees no change"


def test_a_preflight_names_the_files_that_it_was_given() -> None:
    """It said ``kraft-bridge status``, which asks another address, and ``preflight OPTIONS``."""
    clean = report.run(three_controllers_below_a_chroot())
    names = [one.name for one in clean.survey.controllers]
    for stage in set(MigrationStage) - {MigrationStage.FINALISED, MigrationStage.NOT_BEGUN}:
        standing = replace(clean.standing, stage=stage)
        step, *_ = of_preflight(replace(clean, findings=(), standing=standing))
        assert "".join(f" -c {one}" for one in names) in step.command
    blocked = replace(clean, findings=(finding("B07", "/x", "no JSON", "", "repair it"),))
    assert of_preflight(blocked, "-c a -c b")[-1].command == "kraft-bridge preflight -c a -c b"


@pytest.mark.parametrize(
    ("codes", "gravest"),
    [
        (["B02", "B07", "B14"], "B14"),
        (["B01", "B20"], "B20"),
        (["B06", "B07"], "B07"),
        (["B12", "B16", "B25"], "B25"),
        (["B10", "B17", "B19"], "B19"),
    ],
)
def test_a_preflight_names_the_blocker_that_others_depend_on(
    codes: list[str], gravest: str
) -> None:
    """It named the first one of the report, which goes by codes."""
    assert set(GRAVEST_FIRST) == {one.code for one in report.rules() if one.code.startswith("B")}
    found = tuple(finding(code, "/x", "no", "", f"repair {code}") for code in codes)
    first, *_ = of_preflight(replace(report.run(plain()), findings=found))
    assert first.why == f"PF-{gravest} /x: repair {gravest}"


def test_nobody_is_told_to_delete_the_controller_epoch() -> None:
    """Of each znode that cannot be read it said: repair or delete the znode."""
    for data in (b"{", b"", None):
        survey = plain()
        nodes = {**survey.nodes, "/controller_epoch": DumpedZnode(data)}
        found = report.run(replace(survey, nodes=nodes))
        about = [one for one in found.findings if one.znode == "/controller_epoch"]
        assert [one for one in about if one.code == "B07"]
        for one in about:
            assert "delete the znode" not in one.remedy
            assert not one.remedy.startswith("delete")


def test_the_form_for_programs() -> None:
    (first, *_) = as_json(next_steps(document("hybrid", THREE), compared=True))
    assert first == {
        "action": "restart_broker",
        "node": 1,
        "mode": "kraft",
        "flag": None,
        "wait_for": "",
        "what": "restart broker 1 in KRaft mode",
        "command": "",
        "why": "with its third file (runbook, step 4), one at a time; the next one only when "
        "every replica is in sync",
        "now": True,
        "no_way_back": False,
    }


def test_what_is_waited_for_is_said_in_words_and_not_as_an_option_takes_it() -> None:
    found = {each: NextStep(Action.WAIT, wait_for=each).what for each in WAIT_FOR if each[0] != "c"}
    assert found == {
        "dual-write-begun": "wait until dual write begins",
        "all-brokers-in-kraft": "wait until all brokers are in KRaft mode",
        "final": "wait until the migration is final",
    }
