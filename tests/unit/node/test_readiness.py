"""Why a voter is not fit, each reason at its boundary; the nodes are stand-ins."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.metadata.controllers import ControllerRegistration
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.metadata_version import FEATURE_NAME
from emulator.metadata.migration_state import MigrationState
from emulator.metadata.pmap import PMap
from emulator.node.inquiry import LeaderAccount, VoterAnswer, VoterPosition
from emulator.node.readiness import LATE_MS, levels_of, not_ready_because, reasons
from emulator.raft.quorum_state import VoterState

NOW_MS = 5_000_000
OLD, NEW = 14, 15
"""metadata.version before and from registrations of controllers on."""
BEFORE, COPIED = MigrationState.PRE_MIGRATION, MigrationState.MIGRATION
BEHIND = "it has not caught up with the leader yet"
NO_FLAG = "zookeeper.metadata.migration.enable is not true, and nothing is copied yet"


def _image(
    level: int = NEW,
    state: MigrationState = BEFORE,
    ready: bool | None = True,
    features: Mapping[str, tuple[int, int]] | None = None,
) -> Image:
    """Ready: whether voter 2 has registered with the flag; None: it has not registered."""
    one = ControllerRegistration(2, b"", ready or False, (), PMap(features or {}))
    return replace(
        EMPTY,
        features=PMap({FEATURE_NAME: level}),
        migration_state=state,
        controllers=PMap({} if ready is None else {2: one}),
    )


def _node(  # what a node is looked at for
    image: Image | None = None,
    *,
    connected: bool = True,
    active: bool = False,
    leads: bool = False,
    state: VoterState = VoterState.FOLLOWER,
    silent: str = "",
    voters: int = 3,
    caught_up_ms: int | None = NOW_MS,
    whole: bool = True,
    migrates: bool = True,
    answers: dict[int, VoterAnswer] | None = None,
) -> Any:
    held = SimpleNamespace(
        may_be_elected=whole,
        holding=SimpleNamespace(value="whole" if whole else "unknown"),
        hindrance=None if whole else "it may lack records",
    )
    return SimpleNamespace(
        migration=SimpleNamespace(connected=connected),
        active=active,
        raft=SimpleNamespace(
            config=SimpleNamespace(voters=dict.fromkeys(range(1, voters + 1))),
            is_leader=leads,
            voter_state=state,
            caught_up_ms=caught_up_ms,
            held=held,
        ),
        role=SimpleNamespace(silent_because=silent),
        peers=SimpleNamespace(inquiry=None if answers is None else SimpleNamespace(voters=answers)),
        config=SimpleNamespace(node_id=1, migration_enabled=migrates, release="3.9"),
        controller=SimpleNamespace(stable=image or _image()),
    )


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (_node(), ""),
        (_node(connected=False, active=True), "no ZooKeeper session"),
        (_node(active=True, silent="refused"), ""),
        (_node(silent="refused"), "refused"),
        (_node(silent="refused", voters=1), "refused"),
        (_node(voters=1), "not the active controller yet"),
        (_node(leads=True), "the leader, and not the active controller yet"),
        (_node(whole=False), "voter-state is unknown: records may be missing here"),
        (_node(caught_up_ms=None), BEHIND),
        (_node(caught_up_ms=NOW_MS - LATE_MS), ""),
        (
            _node(caught_up_ms=NOW_MS - LATE_MS - 1_999),
            "it has not caught up with the leader for 11 s",
        ),
        (_node(caught_up_ms=NOW_MS - LATE_MS - 1), "it has not caught up with the leader for 10 s"),
        (_node(migrates=False), NO_FLAG),
        (_node(_image(state=COPIED), migrates=False), ""),
        (
            _node(whole=False, caught_up_ms=None),
            f"voter-state is unknown: records may be missing here; {BEHIND}",
        ),
    ],
)
def test_why_this_node_is_not_ready(node: Any, why: str) -> None:
    assert not_ready_because(node, NOW_MS) == why
    assert reasons(node, 1, None, NOW_MS) == ([why] if why else [])


@pytest.mark.parametrize(
    ("voters", "needed"),
    [(2, "2 of the 2"), (3, "2 of the 3"), (4, "3 of the 4"), (5, "3 of the 5")],
)
def test_an_election_needs_a_majority(voters: int, needed: str) -> None:
    away = {2: VoterAnswer(failure="refused"), 3: VoterAnswer(), 4: VoterAnswer(failure="away")}
    base = f"no leader is known: {needed} voters must reach each other"
    alone = _node(voters=voters, state=VoterState.CANDIDATE)
    assert not_ready_because(alone, NOW_MS) == base
    asked = _node(voters=voters, state=VoterState.UNATTACHED, answers=away, whole=False)
    assert not_ready_because(asked, NOW_MS) == f"{base}; no answer from 2, 4; it may lack records"


HEARD = VoterAnswer(answered_ms=1, levels=(1, 21), migrating=True)
NOT_REGISTERED = "it has not registered (ControllerRegistration)"
WITHOUT = "it has no migration configured (zookeeper.metadata.migration.enable)"


@pytest.mark.parametrize(
    ("image", "answer", "found"),
    [
        (_image(), HEARD, []),
        (_image(), VoterAnswer(failure="away"), ["it cannot be reached: away"]),
        (_image(ready=None), HEARD, [NOT_REGISTERED]),
        (_image(ready=None, state=COPIED), HEARD, [NOT_REGISTERED]),
        (_image(ready=False), HEARD, [WITHOUT]),
        (_image(ready=False, state=COPIED), HEARD, []),
        (_image(OLD, ready=None), HEARD, []),
        (_image(OLD, ready=None), VoterAnswer(1, "", (1, 21)), [WITHOUT]),
        (_image(OLD, COPIED, ready=None), VoterAnswer(1, "", (1, 21)), []),
        (_image(), VoterAnswer(1, "", (NEW, NEW), migrating=True), []),
        (
            _image(),
            VoterAnswer(1, "", (1, NEW - 1), migrating=True),
            [f"it supports metadata.version 1 to {NEW - 1}, and {NEW} is finalised"],
        ),
        (
            _image(),
            VoterAnswer(1, "", (NEW + 1, 21), migrating=True),
            [f"it supports metadata.version {NEW + 1} to 21, and {NEW} is finalised"],
        ),
    ],
)
def test_why_another_voter_is_not_ready(
    image: Image, answer: VoterAnswer, found: list[str]
) -> None:
    assert reasons(_node(image, answers={2: answer}), 2, None, NOW_MS) == found


@pytest.mark.parametrize(
    ("fetch_ms", "caught_up_ms", "found"),
    [
        (NOW_MS, NOW_MS, []),
        (0, 0, ["it has not fetched for 5000 s"]),
        (-1, NOW_MS, ["it has not fetched from the leader in this epoch"]),
        (NOW_MS - LATE_MS, NOW_MS - LATE_MS, []),
        (NOW_MS - LATE_MS - 1_999, NOW_MS, ["it has not fetched for 11 s"]),
        (NOW_MS - LATE_MS - 1, NOW_MS, ["it has not fetched for 10 s"]),
        (NOW_MS, -1, ["it has not caught up with the leader in this epoch"]),
        (NOW_MS, 0, ["it has not caught up for 5000 s"]),
        (NOW_MS, NOW_MS - LATE_MS - 1_999, ["it has not caught up for 11 s"]),
        (NOW_MS, NOW_MS - LATE_MS - 1, ["it has not caught up for 10 s"]),
    ],
)
def test_how_far_a_voter_is_by_the_leader(
    fetch_ms: int, caught_up_ms: int, found: list[str]
) -> None:
    positions = {3: VoterPosition(1, NOW_MS), 2: VoterPosition(1, fetch_ms, caught_up_ms)}
    node = _node(answers={2: HEARD})
    account = LeaderAccount(3, 1, 0, 9, positions)
    assert reasons(node, 2, account, 99) == found
    # The leader itself is not behind, and who is not in the account has not fetched.
    assert reasons(node, 2, LeaderAccount(2, 1, 0, 9, positions), 99) == []
    assert reasons(node, 2, LeaderAccount(3, 1, 0, 9, {}), 99) == [
        "it has not fetched from the leader in this epoch"
    ]


def test_the_levels_of_a_voter_are_those_it_said_last() -> None:
    registered = _image(features={FEATURE_NAME: (2, 9)})
    assert levels_of(_node(registered), 1) == (1, 21)
    assert levels_of(_node(registered), 2) == (2, 9)
    assert levels_of(_node(registered, answers={2: VoterAnswer()}), 2) == (2, 9)
    assert levels_of(_node(registered, answers={2: HEARD}), 2) == (1, 21)
    assert levels_of(_node(), 2) is None
    assert levels_of(_node(), 3) is None
