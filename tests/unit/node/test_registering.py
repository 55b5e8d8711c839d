"""When a controller registers itself, and how a refusal is kept; Raft stands in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.metadata.image import EMPTY, Image
from emulator.metadata.metadata_version import FEATURE_NAME
from emulator.metadata.pmap import PMap
from emulator.node.peers import RETRY_MS, SelfRegistration
from emulator.raft.quorum_state import NONE
from tests.unit.controller.world import config, uuid
from tests.unit.metadata.build import image_of
from wire import messages as m
from wire import records as r

T = 1_000_000
OWN, LEADER = 3000, 3001
REGISTERS_FROM = 15
"""3.7-IV0."""


def _image(level: int = REGISTERS_FROM, registered: bytes | None = None) -> Image:
    start = replace(EMPTY, features=PMap({FEATURE_NAME: level}))
    if registered is None:
        return start
    record = r.RegisterControllerRecord(controller_id=OWN, incarnation_id=registered)
    return image_of(record, start=start)


def _registration(
    image: Image | None = None, *, leader: int = LEADER, high_watermark: int = 0
) -> SelfRegistration:
    raft: Any = SimpleNamespace(leader_id=leader, leader_epoch=7, high_watermark=high_watermark)
    controller: Any = SimpleNamespace(
        config=config(migration_enabled=True), stable=image or _image()
    )
    return SelfRegistration(raft, controller)


@pytest.mark.parametrize(
    ("registration", "needed"),
    [
        (_registration(), True),
        (_registration(high_watermark=-1), False),
        (_registration(leader=OWN), False),
        (_registration(leader=NONE), False),
        (_registration(_image(REGISTERS_FROM - 1)), False),
        (_registration(_image(registered=uuid(OWN))), False),
        (_registration(_image(registered=uuid(1))), True),
    ],
)
def test_when_it_is_needed(registration: SelfRegistration, needed: bool) -> None:
    assert registration.deadline_ms == (0 if needed else None)
    assert (registration.poll(T) is not None) is needed


def test_what_it_says_of_itself_to_whom() -> None:
    asked = _registration().poll(T)
    assert (asked.node_id, asked.epoch) == (LEADER, 7)
    request = asked.message
    assert isinstance(request, m.ControllerRegistrationRequest)
    assert (request.controller_id, request.incarnation_id) == (OWN, uuid(OWN))
    assert request.zk_migration_ready
    (listener,) = request.listeners
    assert (listener.name, listener.host, listener.port) == ("CONTROLLER", "127.0.0.1", 23000)
    assert listener.security_protocol == 0
    found = {one.name: one for one in request.features}[FEATURE_NAME]
    assert (found.min_supported_version, found.max_supported_version) == (1, 21)


def test_it_asks_once_at_a_time_and_again_after_a_moment() -> None:
    registration = _registration()
    assert registration.poll(T) is not None
    assert registration.deadline_ms is None
    assert registration.poll(T + 9 * RETRY_MS) is None
    registration.answered(None, T)
    assert registration.deadline_ms == T + RETRY_MS
    assert registration.poll(T + RETRY_MS - 1) is None
    assert registration.poll(T + RETRY_MS) is not None


def test_a_refusal_is_kept_until_an_answer_without_one() -> None:
    registration = _registration()
    answer = m.ControllerRegistrationResponse
    assert registration.refusal == ""
    for one, refusal in (
        (answer(error_code=41, error_message="not the controller"), "not the controller"),
        (None, "not the controller"),
        (answer(error_code=41), "error 41"),
        (answer(), ""),
    ):
        registration.answered(one, T)
        assert registration.refusal == refusal
