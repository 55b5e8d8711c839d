"""What ``/status`` says of finalising, for each part that a node can have; nodes stand in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.controller.rules.finalisation import FLAG, HELD, lacking
from emulator.metadata.image import EMPTY
from emulator.metadata.migration_state import FinalisationMark, MarkKind, MigrationState
from emulator.node.finalising import Finalising
from emulator.node.introspection import finalisation
from tests.unit.controller.world import config, image_of
from wire import records as r

COPIED, FINAL = MigrationState.MIGRATION, MigrationState.POST_MIGRATION
OTHER = HELD._replace(subject="other", text="something else")


def _side(missing: list[Any], *, held: bool) -> Finalising:
    controller: Any = SimpleNamespace(config=config())
    flags: Any = SimpleNamespace(with_flag=[])
    side = Finalising(controller, flags, hold=held)
    side.missing = missing
    side.since = {(HELD.lack.value, HELD.subject): 1_500}
    return side


def _node(
    state: MigrationState = COPIED,
    *,
    leads: bool = True,
    driver: object = None,
    side: Any = None,
    mark: FinalisationMark | None = None,
) -> Any:
    other = SimpleNamespace(no_mark_because=lambda epoch: f"no mark in {epoch}")
    return SimpleNamespace(
        controller=SimpleNamespace(
            stable=replace(EMPTY, migration_state=state, mark=mark), config=config()
        ),
        migration=side or other,
        driver=driver,
        raft=SimpleNamespace(is_leader=leads, leader_epoch=7),
        peers=SimpleNamespace(inquiry=None),
        config=SimpleNamespace(finalise_hold=True, finalise_by="flag"),
    )


@pytest.mark.parametrize("state", [MigrationState.NONE, MigrationState.PRE_MIGRATION])
def test_without_a_copy_nothing_is_said(state: MigrationState) -> None:
    assert finalisation(_node(state)) is None


@pytest.mark.parametrize(
    ("node", "state"),
    [
        (_node(FINAL), "finalised"),
        (_node(FINAL, leads=False), "finalised"),
        (_node(leads=False, driver=1), "follows"),
        (_node(driver=1), "migrating"),
        (_node(side=_side([HELD], held=True)), "held"),
        (_node(side=_side([HELD], held=False)), "waiting"),
        (_node(side=_side([OTHER, HELD], held=True)), "waiting"),
        (_node(side=_side([], held=True)), "waiting"),
    ],
)
def test_the_state(node: Any, state: str) -> None:
    found = finalisation(node)
    assert found["state"] == state


def test_what_is_missing_and_since_when() -> None:
    found = finalisation(_node(side=_side([HELD, OTHER], held=True)))
    held, other = found["missing"]
    assert held == {
        "why": HELD.lack.value,
        "subject": HELD.subject,
        "text": HELD.text,
        "since": "1970-01-01T00:00:01.500+00:00",
    }
    assert (other["subject"], other["since"]) == ("other", None)
    rest = {name: found[name] for name in found if name != "missing"}
    assert rest == {
        "state": "waiting",
        "rule": "flag",
        "hold": True,
        "waits_for": "",
        "mark": None,
        "no_mark_because": "",
    }


def test_the_mark_and_why_there_is_none() -> None:
    mark = FinalisationMark(MarkKind.LEFT, 3, 7, 9, 1_500, 77)
    found = finalisation(_node(driver=1, mark=mark))
    assert found["mark"] == {
        "node_id": 3,
        "controller_epoch": 9,
        "read_at": "1970-01-01T00:00:01.500+00:00",
        "confirmed_offset": 77,
    }
    assert found["no_mark_because"] == "no mark in 7"
    follower = finalisation(_node(leads=False, driver=1))
    assert (follower["no_mark_because"], follower["missing"]) == ("", [])


@pytest.mark.parametrize(
    ("heard", "text"),
    [
        ({1: True}, f"controller 1 has {FLAG}=true: restart it without"),
        ({1: None}, f"controller 1 had {FLAG}=true when it ran last: restart it without"),
        ({}, f"controller 1 has {FLAG}=true: restart it without"),
    ],
)
def test_of_a_voter_that_is_away_the_flag_of_its_last_run_counts(
    heard: dict[int, bool | None], text: str
) -> None:
    last = r.RegisterControllerRecord(
        controller_id=1, incarnation_id=b"i" * 16, zk_migration_ready=True
    )
    first, *_ = lacking(image_of(last), config(voters=frozenset({1, 3000})), heard)
    assert first.text == text
