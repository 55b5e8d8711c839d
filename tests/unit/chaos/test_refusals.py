"""A refusal has a reason while, by the log, no broker is unfenced; none has one otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from bench.chaos.refusals import Period, none_unfenced, unfounded
from bench.load.changes import TemporaryRefusal

NEVER, EVER = float("-inf"), float("inf")


def registered(broker: int, at_ms: int, *, fenced: bool = True) -> dict[str, Any]:
    data = {"brokerId": broker, "fenced": fenced}
    return {"type": "REGISTER_BROKER_RECORD", "data": data, "at_ms": at_ms}


def changed(broker: int, at_ms: int, **what: int) -> dict[str, Any]:
    data = {"brokerId": broker, **what}
    return {"type": "BROKER_REGISTRATION_CHANGE_RECORD", "data": data, "at_ms": at_ms}


def of_old(kind: str, broker: int, at_ms: int) -> dict[str, Any]:
    """The records of Kafka before 3.3's BrokerRegistrationChangeRecord."""
    return {"type": f"{kind}_BROKER_RECORD", "data": {"id": broker}, "at_ms": at_ms}


BOTH = [
    registered(0, 1_000),
    registered(1, 1_100),
    changed(0, 2_000, fenced=-1),
    changed(1, 3_000, fenced=-1),
]


@pytest.mark.parametrize(
    ("records", "periods"),
    [
        ([], [(NEVER, EVER)]),
        (BOTH[:2], [(NEVER, EVER)]),
        (BOTH, [(NEVER, 2_000)]),
        ([*BOTH, changed(0, 9_000, fenced=1)], [(NEVER, 2_000)]),
        ([*BOTH, registered(0, 9_000)], [(NEVER, 2_000)]),
        (
            [*BOTH, changed(0, 9_000, fenced=1), of_old("FENCE", 1, 9_100)],
            [(NEVER, 2_000), (9_100, EVER)],
        ),
        (
            [*BOTH, registered(0, 9_000), registered(1, 9_100), of_old("UNFENCE", 1, 9_500)],
            [(NEVER, 2_000), (9_100, 9_500)],
        ),
        (
            [
                *BOTH,
                changed(0, 9_000, inControlledShutdown=1),
                {"type": "UNREGISTER_BROKER_RECORD", "data": {"brokerId": 1}, "at_ms": 9_200},
                registered(2, 9_900, fenced=False),
            ],
            [(NEVER, 2_000), (9_200, 9_900)],
        ),
    ],
)
def test_when_no_broker_is_unfenced(
    records: list[dict[str, Any]], periods: list[tuple[float, float]]
) -> None:
    assert [(each.begin_ms, each.end_ms) for each in none_unfenced(records)] == periods


def refused(sent_ms: int, answered_ms: int) -> TemporaryRefusal:
    """Monotonic: 1,000 ms behind the clock of the batches."""
    span = (sent_ms - 1_000) * 1_000_000, (answered_ms - 1_000) * 1_000_000
    return TemporaryRefusal("CreateTopics", "t", "INVALID_REPLICATION_FACTOR", *span)


OUT = [changed(0, 20_000, fenced=1), changed(1, 21_000, fenced=1), changed(1, 22_000, fenced=-1)]


@pytest.mark.parametrize(
    ("sent_ms", "answered_ms", "founded"),
    [
        (21_100, 21_200, True),
        (12_000, 21_010, True),
        (21_990, 30_000, True),
        (12_000, 19_900, False),
        (23_100, 23_200, False),
    ],
)
def test_a_refusal_is_held_against_the_log(
    sent_ms: int, answered_ms: int, *, founded: bool
) -> None:
    """One fenced broker of two is no reason."""
    found = unfounded([refused(sent_ms, answered_ms)], [*BOTH, *OUT], [], 1_000_000_000)
    assert (found == []) is founded
    if not founded:
        assert found == [
            "CreateTopics of t: INVALID_REPLICATION_FACTOR though a broker was unfenced"
        ]


@pytest.mark.parametrize(("sent_ms", "founded"), [(41_000, True), (30_000, False), (90_000, False)])
def test_a_leader_that_was_struck_may_have_fenced_what_no_other_log_has(
    sent_ms: int, *, founded: bool
) -> None:
    struck = [Period(39_000, 45_000)]
    found = unfounded([refused(sent_ms, sent_ms + 100)], BOTH, struck, 1_000_000_000)
    assert (found == []) is founded
