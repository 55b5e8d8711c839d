"""The size of requests follows the time that they take on the line."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from emulator.seam import Close, Received, Send
from emulator.zookeeper.frame_limit import (
    BEGIN_BYTES,
    BYTES_MIN,
    ROW,
    SLOW_BYTES_MIN,
    FrameLimit,
    TimeLimit,
)
from emulator.zookeeper.ops import Create, GetData, SetData, ZkLost, ZkResult
from tests.unit.zookeeper.world import World

PATIENCE_MS = 12_000


def sent(limit: TimeLimit, size: int, bytes_per_s: int, round_trip_ms: int = 1) -> bool:
    """Send a request of that size over a line; whether it was answered in time."""
    took_ms = round_trip_ms + size * 1_000 // bytes_per_s
    if took_ms >= PATIENCE_MS:
        limit.overdue(size)
        return False
    limit.took(size, took_ms, PATIENCE_MS, reads=False)
    return True


@given(st.integers(1_000, 10_000_000), st.integers(1, 500))
def test_on_a_line_of_any_speed_few_requests_are_given_up(rate: int, round_trip_ms: int) -> None:
    limit = TimeLimit(BEGIN_BYTES)
    given_up = 0
    for _ in range(1_000):
        given_up += not sent(limit, limit.bytes, rate, round_trip_ms)
    assert given_up <= 9, "one for each halving"
    carried = rate * PATIENCE_MS // 1_000
    assert limit.bytes <= max(carried, BYTES_MIN)
    assert limit.bytes * 33 >= min(carried, BEGIN_BYTES)


def test_a_line_that_changes_is_followed_both_ways() -> None:
    limit, rng, given_up = TimeLimit(BEGIN_BYTES), Random(3), 0
    for _ in range(50):
        rate = rng.choice((5_000, 43_000, 400_000, 50_000_000))
        for _each in range(40):
            given_up += not sent(limit, limit.bytes, rate)
        assert limit.bytes * 33 >= min(rate * PATIENCE_MS // 1_000, BEGIN_BYTES)
    assert given_up <= 9 * 50 // 2


def test_a_server_that_stood_still_costs_ten_requests_at_most() -> None:
    limit = TimeLimit(BEGIN_BYTES)
    for _ in range(20):
        limit.overdue(limit.bytes)
    assert limit.bytes == BYTES_MIN
    requests = 0
    while limit.bytes < BEGIN_BYTES:
        assert sent(limit, limit.bytes, 50_000_000)
        requests += 1
    assert requests == 9


def test_requests_sent_under_one_limit_lower_it_once() -> None:
    """Four in flight, or one change that is longer than the limit, took it far below."""
    limit = TimeLimit(BEGIN_BYTES)
    for _ in range(4):
        limit.took(BEGIN_BYTES, PATIENCE_MS * 58 // 100, PATIENCE_MS, reads=False)
    assert (limit.bytes, limit.halved_count) == (BEGIN_BYTES // 2, 1)
    for _ in range(3):
        limit.overdue(2 * BEGIN_BYTES)
    assert (limit.bytes, limit.halved_count) == (BEGIN_BYTES // 2, 1)


def test_reads_that_fill_less_than_half_of_the_limit_raise_it() -> None:
    """It stayed at its minimum for as long as nothing was written."""
    limit = TimeLimit(BEGIN_BYTES)
    while limit.bytes > BYTES_MIN:
        limit.overdue(limit.bytes)
    for _ in range(9):
        limit.took(limit.bytes // 2 - 60, 1, PATIENCE_MS, reads=True)
    assert limit.bytes == BEGIN_BYTES


def test_short_requests_raise_nothing_and_long_answers_lower_nothing() -> None:
    limit = TimeLimit(BEGIN_BYTES)
    limit.overdue(BEGIN_BYTES)
    for _ in range(100):
        limit.took(500, 1, PATIENCE_MS, reads=False)
        limit.took(limit.bytes, PATIENCE_MS - 1, PATIENCE_MS, reads=True)
    assert (limit.bytes, limit.halved_count) == (BEGIN_BYTES // 2, 1)
    limit.overdue(BYTES_MIN - 1)
    assert limit.halved_count == 1


def test_one_of_a_size_is_too_slow_after_three_in_a_row() -> None:
    limit, size = TimeLimit(BEGIN_BYTES), 900_000
    for _ in range(ROW - 1):
        limit.overdue(size)
        limit.took(10_000, 5_000, PATIENCE_MS, reads=False)
    assert not limit.too_slow(size)
    limit.overdue(size)
    assert limit.too_slow(size)
    assert not limit.too_slow(size - 1)
    limit.took(size, 5_000, PATIENCE_MS, reads=False)
    assert not limit.too_slow(size)
    for _ in range(ROW):
        limit.overdue(SLOW_BYTES_MIN - 1)
    assert not limit.too_slow(SLOW_BYTES_MIN - 1), "so short a one is not to blame"


def test_the_limit_of_requests_is_the_smaller_of_both() -> None:
    limit = FrameLimit()
    limit.in_time.overdue(200_000)
    assert limit.bytes == 100_000
    for _ in range(2):
        limit.broken(100_000, reads=False)
    assert limit.bytes == 50_000
    assert limit.in_time.bytes == 100_000


def test_a_client_learns_it_from_requests_that_it_gives_up() -> None:
    world = World()
    world.start()
    world.ask(Create("/t", b""))
    world.held = []
    world.submit("slow", SetData("/t", b"x" * 100_000))
    world.advance(5_000)
    assert world.client.take_results() == [ZkLost("slow")]
    assert world.client.limit.bytes in range(50_000, 50_100)
    (why,) = {
        str(line.fields["why"])
        for line in world.log
        if getattr(line, "event", "") == "zookeeper connection lost"
    }
    assert why == (
        "nothing received for 2/3 of the session timeout; the oldest request has 100022 bytes"
    )


def test_an_answer_that_arrives_slowly_is_waited_for() -> None:
    """Twenty seconds for one answer, with a session of six."""
    world, conn, answer = _asked_for_much()
    world.held, world.dropping_replies = None, True  # those to pings come behind it
    for at in range(0, len(answer), 500):
        world.advance(1_000)
        world.perform(world.client.handle(Received(conn, answer[at : at + 500]), world.now_ms))
    (outcome,) = world.client.take_results()
    assert isinstance(outcome, ZkResult)
    assert world.client.generation == 1
    assert world.client.limit.bytes == BEGIN_BYTES


def test_an_answer_that_stops_in_the_middle_is_given_up_and_lowers_nothing() -> None:
    world, conn, answer = _asked_for_much()
    world.perform(world.client.handle(Received(conn, answer[:500]), world.now_ms))
    world.advance(5_000)
    assert world.client.take_results() == [ZkLost("long")]
    assert Close(conn) in world.log
    assert world.client.limit.bytes == BEGIN_BYTES


def test_an_answer_of_which_a_part_was_lost_is_given_up_though_pings_are_answered() -> None:
    """A proxy lost bytes: what comes behind fills the frame, a few bytes at a time."""
    world, conn, answer = _asked_for_much()
    world.held, world.dropping_replies = None, True
    world.perform(world.client.handle(Received(conn, answer[:500]), world.now_ms))
    for _ in range(6):
        world.advance(1_000)
        world.perform(world.client.handle(Received(conn, bytes(20)), world.now_ms))
    assert world.client.take_results() == [ZkLost("long")]


def _asked_for_much() -> tuple[World, int, bytes]:
    """A client that waits for 10 kB, its connection, and the answer, which is held back."""
    world = World()
    world.start()
    world.ask(Create("/t", b"x" * 10_000))
    conn = next(conn for conn in range(10) if world.client.owns(conn))
    world.held = []
    world.submit("long", GetData("/t"))
    (answer,) = _answers(world)
    return world, conn, answer


def _answers(world: World) -> list[bytes]:
    """What ZooKeeper answers to the request that is held."""
    assert world.held is not None
    for conn, data in world.held:
        world.model.received(conn, data, world.now_ms)
    return [one.data for one in world.model.run(world.now_ms) if isinstance(one, Send)]
