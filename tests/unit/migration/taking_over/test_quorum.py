"""How a term goes on by what the log says, and which voters are not ready."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from emulator.metadata.image import EMPTY, Image
from emulator.metadata.metadata_version import FEATURE_NAME
from emulator.metadata.migration_state import MigrationState
from emulator.metadata.pmap import PMap
from emulator.migration.states import DriverEvent
from emulator.migration.taking_over.preconditions import Reason, Why, quorum_event
from tests.unit.metadata.build import image_of
from wire import records as r

REGISTERS_FROM = 15
"""3.7-IV0."""


def _image(state: MigrationState, level: int = REGISTERS_FROM, **ready: bool) -> Image:
    """Ready: name of a voter, ``v`` and its id, that has registered -> with the flag or without."""
    registered = (
        r.RegisterControllerRecord(controller_id=int(name[1:]), zk_migration_ready=flag)
        for name, flag in ready.items()
    )
    image = image_of(*registered, start=replace(EMPTY, features=PMap({FEATURE_NAME: level})))
    return replace(image, migration_state=state)


def _unasked(voter: int) -> str:
    pytest.fail(f"voter {voter} was asked for an answer that does not count")


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (MigrationState.NONE, "started without a migration"),
        (MigrationState.POST_MIGRATION, "was finalised"),
    ],
)
def test_a_log_without_a_migration_ends_it(state: MigrationState, text: str) -> None:
    event, reasons = quorum_event(_image(state), [1], _unasked)
    assert event is DriverEvent.NO_MIGRATION
    (reason,) = reasons
    assert (reason.why, reason.subject) == (Why.MIGRATION_STATE, state.name)
    assert text in reason.text
    assert reason.fatal


def test_a_copied_log_is_claimed_whoever_is_ready() -> None:
    assert quorum_event(_image(MigrationState.MIGRATION), [1, 2], _unasked) == (
        DriverEvent.MIGRATION_UNDER_WAY,
        [],
    )


def _not_ready(voter: int, text: str) -> Reason:
    return Reason(Why.CONTROLLER_NOT_READY, str(voter), f"controller {voter} {text}")


@pytest.mark.parametrize(
    ("registered", "reasons"),
    [
        ({"v1": True, "v2": True}, []),
        ({"v1": True}, [_not_ready(2, "has not registered")]),
        (
            {"v2": False},
            [_not_ready(1, "has not registered"), _not_ready(2, "has no migration configured")],
        ),
        ({"v1": True, "v2": True, "v3": False}, []),
    ],
)
def test_every_voter_registers_as_ready(registered: dict[str, bool], reasons: list[Reason]) -> None:
    image = _image(MigrationState.PRE_MIGRATION, **registered)
    event = None if reasons else DriverEvent.QUORUM_READY
    assert quorum_event(image, [2, 1], _unasked) == (event, reasons)


def test_below_the_level_that_has_registrations_each_voter_says_it_itself() -> None:
    image = _image(MigrationState.PRE_MIGRATION, REGISTERS_FROM - 1)
    assert quorum_event(image, [2, 1], lambda _: "") == (DriverEvent.QUORUM_READY, [])
    answers = {1: "", 2: "asleep", 3: "away"}
    assert quorum_event(image, [3, 2, 1], answers.__getitem__) == (
        None,
        [
            Reason(Why.CONTROLLER_NOT_READY, "2", "controller 2: asleep"),
            Reason(Why.CONTROLLER_NOT_READY, "3", "controller 3: away"),
        ],
    )
