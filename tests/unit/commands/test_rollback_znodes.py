"""What ``rollback`` makes of ZooKeeper's refusals, and of lost connections."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    NoAuthError,
    RolledBackError,
    RuntimeInconsistency,
)

from emulator.commands.rollback import znodes
from emulator.commands.rollback.acting import LiveRollback
from emulator.commands.rollback.znodes import RollbackZnodes
from emulator.operations.rollback.course import CourseError, Wanted, roll_back
from emulator.servers.zk_dump import UnreadableError
from emulator.zookeeper.ops import Check, Multi
from tests.unit.operations.rollback.model import dual_write

MULTI = Multi((Check("/controller_epoch", 1),))


class Client:
    """Answers each call with the next of ``answers``, and the last one again and again."""

    def __init__(self, *answers: object) -> None:
        self.answers = [*answers]
        self.calls = 0

    def _next(self) -> Any:
        self.calls += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def start(self, timeout: float) -> None:
        pass

    def stop(self) -> None:
        pass

    close = stop

    def sync(self, _path: str) -> None:
        self._next()

    def transaction(self) -> Client:
        return self

    def check(self, _path: str, _version: int) -> None:
        pass

    def commit(self) -> Any:
        return self._next()


def asked(*answers: object) -> tuple[RollbackZnodes, Client]:
    client = Client(*answers)
    connect: Any = lambda _hosts: client  # noqa: E731
    return RollbackZnodes("h:1", connect, True), client


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(znodes, "CONNECT_TIMEOUT_S", 0.05)
    monkeypatch.setattr(znodes, "POLL_S", 0.001)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (NoAuthError(), "does not let this login change"),
        (InvalidACLError(), "zookeeper.set.acl"),
        (KazooException(), "refuses to change the controllers' znodes"),
    ],
)
def test_whatever_refuses_the_trial_is_said_and_a_lost_connection_is_tried_again(
    error: Exception, why: str
) -> None:
    refused = [RolledBackError(), error, RuntimeInconsistency()]
    found, client = asked(ConnectionLoss(), refused)
    assert why in found.forbidden(MULTI)
    assert client.calls == 2
    with pytest.raises(CourseError, match="run this command again"):
        asked(refused)[0].commit(MULTI)


def test_the_trial_is_refused_by_its_last_op_alone_if_all_is_allowed() -> None:
    assert asked([RolledBackError(), BadVersionError()])[0].forbidden(MULTI) == ""


def test_a_zookeeper_that_is_gone_is_said() -> None:
    for error in (ConnectionLoss(), AuthFailedError()):
        found, _ = asked(error)
        why = f"h:1: {type(error).__name__}: run this"
        with pytest.raises(CourseError, match=why):
            found.forbidden(MULTI)
        with pytest.raises(CourseError, match=why):
            found.read()
    with pytest.raises(CourseError, match="does not let this login read"):
        asked(NoAuthError())[0].read()
    assert asked(ConnectionLoss())[0].commit(MULTI) is None, "the next read says what became of it"


class Looks:
    """The first look works."""

    def __init__(self) -> None:
        self.found = [dual_write(up=[]).look()]

    def look(self) -> Any:
        if not self.found:
            raise UnreadableError("ZooKeeper at h:1: gone")
        return self.found.pop()


def test_a_look_that_fails_after_the_release_does_not_hide_what_was_done() -> None:
    nothing: Any = None
    looks: Any = Looks()
    world = LiveRollback(looks, "h:1", nothing, [], 1, False, lambda _text: None)
    model = dual_write(up=[])
    model.look = world.look  # type: ignore[method-assign]
    course = roll_back(model, Wanted())
    assert course.did == ["deleted /controller, marked /kraft_bridge"]
    assert (course.failed, course.controller) == (
        "ZooKeeper at h:1: gone: run this command again",
        0,
    )
    with pytest.raises(CourseError):
        world.look()
    looks.found = []
    first = LiveRollback(looks, "h:1", nothing, [], 1, False, lambda _text: None)
    with pytest.raises(UnreadableError):
        first.look()
