"""KIP-599: how fast a client may create and delete partitions, and what it is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.config.limits import MutationQuotaSettings
from emulator.controller.context import MutationQuotas, Sharers, rate_of, shared_by
from emulator.metadata.client_quotas import alter, entity, record_of
from emulator.metadata.pmap import PMap
from tests.kit.requests import create_topics, quota
from tests.unit.controller.world import World, create
from wire import messages as m
from wire.errors import ErrorCode

ALICE = "User:alice"
HOUR_MS = 3_600_000
GROWN = m.CreatePartitionsRequest.CreatePartitionsTopic(name="a", count=21, assignments=None)


def quotas(*limits: tuple[dict[str, str | None], float]) -> Any:
    """Rates by entity."""
    found: Any = PMap()
    for parts, rate in limits:
        record = record_of(entity(parts.items()), "controller_mutation_rate", rate)
        found = alter(found, record)
    return found


@pytest.mark.parametrize(
    ("limits", "user", "client", "shared", "rate"),
    [
        ([], "a", "c", ("", "c"), None),
        ([({"user": "a", "client-id": "c"}, 1), ({"user": "a"}, 2)], "a", "c", ("a", "c"), 1),
        ([({"user": "a", "client-id": None}, 1), ({"user": "a"}, 2)], "a", "c", ("a", "c"), 1),
        ([({"user": "a"}, 1), ({"user": None, "client-id": "c"}, 2)], "a", "c", ("a", ""), 1),
        ([({"user": None, "client-id": "c"}, 1), ({"user": None}, 2)], "a", "c", ("a", "c"), 1),
        ([({"user": None, "client-id": None}, 1), ({"user": None}, 2)], "a", "c", ("a", "c"), 1),
        ([({"user": None}, 1), ({"client-id": "c"}, 2)], "a", "c", ("a", ""), 1),
        ([({"client-id": "c"}, 1), ({"client-id": None}, 2)], "a", "c", ("", "c"), 1),
        ([({"client-id": None}, 1), ({"user": "b"}, 2)], "a", "c", ("", "c"), 1),
        # A client without id has no limit of its own, only that of its user.
        ([({"user": "a", "client-id": None}, 1)], "a", "", ("a", ""), None),
        ([({"user": "a", "client-id": None}, 1), ({"user": "a"}, 2)], "a", "", ("a", ""), 2),
    ],
)
def test_the_most_specific_limit_decides_who_shares_it(
    limits: list[Any], user: str, client: str, shared: tuple[str, str], rate: float | None
) -> None:
    known = quotas(*limits)
    assert shared_by(known, user, client) == Sharers(*shared)
    assert rate_of(known, Sharers(*shared)) == rate


def test_a_limit_of_another_kind_is_none() -> None:
    known = alter(PMap(), record_of(entity([("user", "a")]), "producer_byte_rate", 5.0))
    assert shared_by(known, "a", "c") == Sharers("", "c")
    buckets = MutationQuotas(MutationQuotaSettings(11, 1))
    assert buckets.of(known, "User:a", "c", 5).take(10**9, strict=True) is None


RATE = 2.0
BURST = 11 * RATE


@given(
    st.lists(
        st.tuples(st.integers(0, 60_000), st.integers(1, 60), st.booleans()),
        min_size=1,
        max_size=20,
    )
)
def test_the_bucket_never_gives_more_than_burst_and_rate_and_one_request(
    asked: list[tuple[int, int, bool]],
) -> None:
    """Strictly: what was granted before a grant is at most what time and burst have paid for."""
    known = quotas(({"user": "alice"}, RATE))
    buckets = MutationQuotas(MutationQuotaSettings(11, 1))
    now_ms, granted = 10**12, 0
    began_ms = now_ms
    for pause_ms, count, strict in asked:
        now_ms += pause_ms
        quota = buckets.of(known, ALICE, "c", now_ms)
        before = quota.tokens
        assert before <= BURST
        error = quota.take(count, strict=strict)
        assert quota.spent is not None
        buckets.performed(quota.spent)
        if error is not None:
            assert error.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            assert strict
            assert quota.tokens == before < 0
            # After the time it was told, it is served.
            later = buckets.of(known, ALICE, "c", now_ms + quota.throttle_ms + 1)
            assert later.take(1, strict=True) is None
            continue
        if strict:
            assert granted <= BURST + RATE * (now_ms - began_ms) / 1000 + 1e-6 or before < BURST
            assert quota.throttle_ms == 0
        else:
            assert (quota.throttle_ms > 0) == (quota.tokens < -0.00025)
        granted += count


def test_a_bucket_left_alone_is_forgotten() -> None:
    known = quotas(({"user": None}, RATE))
    buckets = MutationQuotas(MutationQuotaSettings(11, 1))
    now_ms = 10**12
    for number in range(5):
        quota = buckets.of(known, f"User:u{number}", "c", now_ms)
        quota.take(10**6, strict=True)
        assert quota.spent is not None
        buckets.performed(quota.spent)
    assert len(buckets.buckets) == 5
    now_ms += HOUR_MS
    quota = buckets.of(known, "User:u0", "c", now_ms)
    assert quota.tokens == BURST
    assert quota.spent is not None
    buckets.performed(quota.spent)
    assert set(buckets.buckets) == {Sharers("u0", "")}


@pytest.mark.parametrize("rate", [5e-324, 1e-9, 1e308, float("inf")])
def test_extreme_rates_break_nothing(rate: float) -> None:
    known = quotas(({"user": None}, rate))
    buckets = MutationQuotas(MutationQuotaSettings(2**31 - 1, 2**31 - 1))
    for strict in (False, True, False):
        quota = buckets.of(known, ALICE, None, 5)
        quota.take(10_000, strict=strict)
        assert 0 <= quota.throttle_ms <= 2**31 - 1
        if quota.spent is not None:
            buckets.performed(quota.spent)


def limited(rate: float) -> World:
    """A controller with one broker and a rate for every user."""
    world = World().join(0)
    request = quota(rate, None, key="controller_mutation_rate")
    assert world.ask(request).entries[0].error_code == 0
    return world


def test_a_strict_caller_is_refused_while_overdrawn_and_served_after_the_time_it_is_told() -> None:
    world = limited(1.0)
    first = world.ask(create("a", 20), principal=ALICE)
    assert (first.topics[0].error_code, first.throttle_time_ms) == (0, 0)
    refusals: list[tuple[Any, int, str]] = [
        (create("b", 1), 6, "topics"),
        (m.DeleteTopicsRequest(topic_names=("a",)), 5, "responses"),
        (m.CreatePartitionsRequest(topics=[GROWN]), 3, "results"),
    ]
    for request, version, results in refusals:
        answer = world.ask(request, version, principal=ALICE)
        assert [one.error_code for one in getattr(answer, results)] == [89]
        assert answer.throttle_time_ms == 9_000
    offset = world.log.log_end_offset
    assert world.ask(create("b", 1), principal="User:bob").topics[0].error_code == 0
    assert world.log.log_end_offset > offset
    for _ in range(3):
        world.later(3_000)
        world.heartbeat(0)
    served = world.ask(create("c", 1), principal=ALICE)
    assert (served.topics[0].error_code, served.throttle_time_ms) == (0, 0)


def test_an_older_caller_is_served_and_told_to_wait() -> None:
    world = limited(1.0)
    for request, version, waits_ms in (
        (create("a", 20), 5, 9_000),
        (create("b", 2), 5, 11_000),
        (
            m.CreatePartitionsRequest(topics=[GROWN]),
            2,
            12_000,
        ),
        (m.DeleteTopicsRequest(topic_names=("a",)), 4, 33_000),
    ):
        answer = world.ask(request, version, principal=ALICE)
        assert answer.throttle_time_ms == waits_ms
    assert world.tip.topic("a") is None
    assert world.tip.topic("b") is not None


def test_one_request_is_cut_where_the_bucket_is_overdrawn() -> None:
    """The topic that overdraws it is made, the next one is not; trying out costs as much."""
    world = limited(1.0)
    tried = create_topics("a", "b", partitions=12, validate_only=True)
    answer = world.ask(tried, principal=ALICE)
    assert [one.error_code for one in answer.topics] == [0, 89]
    assert answer.throttle_time_ms == 1_000
    asked = create_topics("a", "b", partitions=12)
    assert world.ask(asked, principal=ALICE).topics[0].error_code == 89


def test_what_waits_for_zookeeper_is_counted_once() -> None:
    world = limited(1.0)
    world.controller.hold(room=0, now_ms=world.now_ms)
    assert world.send(create("a", 12), principal=ALICE) == []
    world.controller.hold(now_ms=world.now_ms)
    world.commit()
    (answer,) = world.answers()
    assert (answer.topics[0].error_code, answer.throttle_time_ms) == (0, 0)
    assert world.ask(create("b", 1), principal=ALICE).throttle_time_ms == 1_000


def test_old_buckets_are_looked_for_once_in_a_while() -> None:
    """Not by each request: there may be many."""
    known = quotas(({"user": None}, RATE))
    buckets = MutationQuotas(MutationQuotaSettings(11, 1))

    def performs(user: str, now_ms: int) -> set[str]:
        quota = buckets.of(known, f"User:{user}", "c", now_ms)
        quota.take(10**6, strict=True)
        assert quota.spent is not None
        buckets.performed(quota.spent)
        return {one.user for one in buckets.buckets}

    began_ms = 10**12
    assert performs("a", began_ms) == {"a"}
    assert performs("b", began_ms + 1) == {"a", "b"}
    assert performs("c", began_ms + HOUR_MS) == {"b", "c"}
    assert performs("d", began_ms + HOUR_MS + 2) == {"b", "c", "d"}
    assert performs("e", began_ms + 2 * HOUR_MS) == {"d", "e"}
