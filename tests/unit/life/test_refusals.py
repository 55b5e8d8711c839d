"""Refusals of changes: excused where Kafka's own, with a reason where they are of a time."""

from __future__ import annotations

import time

import pytest

from bench.life.refusals import of_ours, unexcused, without_reason
from bench.life.waits import Ruling, RulingWatch
from bench.load.admin import AdminResult, GivenUp
from bench.load.changes import TemporaryRefusal

S = 1_000_000_000


def given_up(api: str, error: str) -> AdminResult:
    """In flight from second 10 to second 11."""
    return AdminResult(given_up={"t": GivenUp(api, error, 1, 10 * S, 11 * S)})


@pytest.mark.parametrize(
    ("api", "error", "moved", "wrong"),
    [
        ("CreateTopics", "STALE_CONTROLLER_EPOCH", [], False),
        ("CreateTopics", "TOPIC_ALREADY_EXISTS", [], True),
        ("CreateTopics", "TOPIC_ALREADY_EXISTS", [(10.5, 10.7)], False),
        ("CreateTopics", "TOPIC_ALREADY_EXISTS", [(1.0, 9.9), (11.1, 12.0)], True),
        ("CreateTopics", "UNKNOWN_SERVER_ERROR", [(10.5, 10.7)], True),
        ("DeleteTopics", "UNKNOWN_TOPIC_OR_PARTITION", [(9.0, 12.0)], False),
        ("IncrementalAlterConfigs", "UNKNOWN_TOPIC_OR_PARTITION", [(9.0, 12.0)], True),
    ],
)
def test_a_change_may_be_refused_as_done_only_when_the_controller_was_replaced(
    api, error, moved, wrong
):
    found = unexcused(given_up(api, error), {"CreateTopics STALE_CONTROLLER_EPOCH"}, moved)
    assert found == ([f"{api} of topic t: {error}"] if wrong else [])


def test_only_what_ours_refused_is_judged():
    watch = RulingWatch(lambda: Ruling(someone=True), lambda: 0.0)
    refused = [
        TemporaryRefusal("CreateTopics", "t", "INVALID_REPLICATION_FACTOR", at * S, (at + 1) * S)
        for at in (1, 3, 4, 6)
    ]
    assert of_ours(AdminResult(not_now=refused), watch) == []
    for at_s in (2.0, 5.0):
        watch.take(Ruling(someone=True, by_log=True), at_s)
    assert of_ours(AdminResult(not_now=refused), watch) == refused[1:3]


def test_it_had_a_reason_while_no_broker_was_unfenced_by_the_log():
    def changed(at_ms: int, fenced: int) -> dict[str, object]:
        data = {"brokerId": 0, "fenced": fenced}
        return {"type": "BROKER_REGISTRATION_CHANGE_RECORD", "data": data, "at_ms": at_ms}

    now_ms = time.time_ns() // 1_000_000
    records = [changed(now_ms - 90_000, -1), changed(now_ms - 60_000, 1), changed(now_ms, -1)]
    ago = time.monotonic_ns()
    during, before = (
        TemporaryRefusal("CreateTopics", "t", "INVALID_REPLICATION_FACTOR", at, at + S)
        for at in (ago - 30 * S, ago - 80 * S)
    )
    assert without_reason([during], records) == []
    assert len(without_reason([during, before], records)) == 1
