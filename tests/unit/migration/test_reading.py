"""One reading of the tree: what ends it, and what a lost connection costs."""

from __future__ import annotations

import pytest

from emulator.migration.reading import Reading
from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.seam import Log
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import GetData, MultiRead, ReadFailed, ZkFailed, ZkLost, ZkResult
from tests.unit.migration.test_rounds import Sent


def _begun() -> tuple[Reading, Sent]:
    sent = Sent()
    reading = Reading(sent)
    effects = reading.begin(1_000)
    assert len(effects) == len(sent.requests) > 0
    assert {at_ms for _, at_ms in sent.requests} == {1_000}
    assert reading.began_ms == 1_000
    assert reading.tree is None
    return reading, sent


def _answer(reading: Reading, sent: Sent, code: ZkCode = ZkCode.NO_NODE) -> None:
    """Everything asked so far fails with a code, as long as something is asked."""
    while sent.tags:
        tag, (request, _) = sent.tags.pop(0), sent.requests.pop(0)
        assert isinstance(request, MultiRead)
        assert reading.owns(tag)
        reading.outcome(ZkResult(tag, [ReadFailed(code) for _ in request.reads]), 2_000)


def test_it_ends_with_the_tree() -> None:
    reading, sent = _begun()
    _answer(reading, sent)
    assert reading.failure is None
    assert reading.tree is not None
    assert not reading.owns("another tag")


def test_a_refused_request_ends_it() -> None:
    reading, sent = _begun()
    assert reading.outcome(ZkFailed(sent.tags[0], ZkCode.NO_AUTH, 0), 2_000) == []
    text = "reading the tree: ZooKeeper answers NO_AUTH"
    assert reading.failure == Reason(Why.UNREADABLE, "/", text)
    assert reading.tree is None


def test_a_znode_that_cannot_be_read_ends_it() -> None:
    reading, sent = _begun()
    request = sent.requests[0][0]
    assert isinstance(request, MultiRead)
    path = next(one.path for one in request.reads if isinstance(one, GetData))
    answers = [
        ReadFailed(ZkCode.NO_AUTH if one == GetData(path) else ZkCode.NO_NODE)
        for one in request.reads
    ]
    asked = len(sent.requests)
    assert reading.outcome(ZkResult(sent.tags[0], answers), 2_000) == []
    assert len(sent.requests) == asked
    assert reading.failure == Reason(Why.UNREADABLE, path, f"{path}: ZooKeeper answers NO_AUTH")


def test_after_a_lost_connection_what_was_not_answered_is_asked_again() -> None:
    reading, sent = _begun()
    with pytest.raises(AssertionError):
        reading.resume(1_500)
    tags, requests = list(sent.tags), list(sent.requests)
    assert reading.outcome(ZkLost(tags[0]), 2_000) == []
    assert reading.lost
    sent.tags.clear()
    sent.requests.clear()
    for tag in tags[1:]:
        assert reading.outcome(ZkLost(tag), 2_000) == []
    assert reading.tree is None
    effects = reading.resume(3_000)
    fields: dict[str, object] = {"znodes": 0, "interruptions": 1}
    assert effects[0] == Log("info", "reading the tree goes on", fields)
    asked = {read for request, _ in requests for read in getattr(request, "reads", ())}
    again = {read for request, _ in sent.requests for read in getattr(request, "reads", ())}
    assert again == asked
    assert not reading.lost
    _answer(reading, sent)
    assert reading.tree is not None
    assert (reading.interruptions, reading.began_ms) == (1, 1_000)
