"""A node with an authorizer: what its properties mean to those who connect."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.config.authorizer import STANDARD
from tests.unit.node.test_machine import World
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import decode_response

RAFT: list[tuple[Any, int, int]] = [
    (m.FetchRequest(), 1, 12),
    (m.DescribeQuorumRequest(), 55, 2),
    (m.VoteRequest(), 52, 0),
]


def told(world: World, request: Any, key: int, version: int) -> int:
    """The error of the one answer."""
    world.answers.clear()
    world.call(request, key, version)
    world.advance(1_000)
    (answer,) = world.answers
    _, response = decode_response(key, version, answer[4:])
    return int(response.error_code)


@pytest.mark.parametrize(("request_", "key", "version"), RAFT)
def test_the_raft_machine_answers_whom_the_authorizer_lets_pass(
    request_: Any, key: int, version: int
) -> None:
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    locked = World(authorizer_class_name=STANDARD, super_users="User:admin")
    assert told(locked, request_, key, version) == denied
    superior = World(authorizer_class_name=STANDARD, super_users="User:ANONYMOUS")
    everyone = World(authorizer_class_name=STANDARD, allow_everyone_if_no_acl_found="true")
    for open_ in (World(), superior, everyone):
        assert told(open_, request_, key, version) != denied
