"""When observers are told what is new."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.raft.config import PARK_MS_MAX
from emulator.raft.fetch import (
    PAUSE_MS_MAX,
    PAUSE_US_PER_OBSERVER,
    ObserverPace,
    Parked,
    WaitingFetches,
)
from tests.unit.raft.trio import Trio
from tests.unit.raft.world import NOW, World, fetch, no_op
from wire.batch import decode_batches

PAUSE_MS = 50
"""Of 200 observers."""


@pytest.mark.parametrize(
    ("observers", "pause_ms"),
    [
        (0, 0),
        (1, 0),
        (3, 0),
        (4, 1),
        (10, 2),
        (40, 10),
        (100, 25),
        (200, 50),
        (1000, 250),
        (2000, 250),
    ],
)
def test_the_pause_grows_with_those_who_were_told(observers, pause_ms):
    pace = ObserverPace()
    pace.news()
    assert pace.is_due(NOW), "the first news is told at once"
    pace.answered(observers, 5, NOW)
    assert pace.due_ms is None, "nothing is new"
    pace.news()
    assert pace.due_ms == NOW + pause_ms
    assert pace.is_due(NOW + pause_ms)
    assert not pause_ms or not pace.is_due(NOW + pause_ms - 1)


@pytest.mark.parametrize(
    ("news", "offset", "after_ms", "rests"),
    [
        (True, 5, 0, True),
        (True, 7, 49, True),
        (True, 7, 50, False),
        (True, 4, 0, False),
        (False, 5, 0, False),
    ],
)
def test_who_knows_all_that_was_told_last_rests_with_the_others(news, offset, after_ms, rests):
    pace = ObserverPace()
    pace.answered(200, 5, NOW)
    if news:
        pace.news()
    assert pace.rests(offset, NOW + after_ms) is rests


class ObserverFleet:
    """Observers that fetch again ``trip_ms`` after each answer; all that they see is kept."""

    def __init__(self, observers: int, trip_ms: list[int]) -> None:
        self.world = World().start()
        self.trips = [trip_ms[each % len(trip_ms)] for each in range(observers)]
        self.ends = [self.world.raft.log_end_offset] * observers
        self.due: list[int | None] = [NOW] * observers
        self.asked = [NOW] * observers
        self.got: list[dict[int, int]] = [{} for _ in range(observers)]
        """Per observer: end offset -> when everything below was there."""
        self.answers = self.empty = 0

    @property
    def now(self) -> int:
        return self.world.now

    def run(self, ms: int) -> None:
        """Everything that happens before ``ms`` have passed."""
        end = self.now + ms
        while True:
            times = [each for each in (*self.due, self.world.raft.deadline_ms) if each is not None]
            if min(times, default=end) >= end:
                break
            self.world.now = max(self.now, min(times))
            self.step()
        self.world.now = end

    def step(self) -> None:
        raft = self.world.raft
        for each, due_ms in enumerate(self.due):
            if due_ms is not None and due_ms <= self.now:
                self.due[each], self.asked[each] = None, self.now
                request = fetch(self.ends[each], 1)
                request.replica_state.replica_id = each
                ticket: Any = each
                raft.request(request, 17, self.now, ticket)
        if raft.deadline_ms is not None and raft.deadline_ms <= self.now:
            self.world.tick()
        self.look()

    def append(self) -> int:
        """One change; returns the end of the log with it."""
        end = self.world.append(no_op()) + 1
        self.look()
        return end

    def look(self) -> None:
        for reply in self.world.raft.take_replies():
            message: Any = reply.message
            who: Any = reply.ticket
            self.answered(who, message.responses[0].partitions[0])

    def answered(self, each: int, partition: Any) -> None:
        self.answers += 1
        batches = decode_batches(partition.records)
        for batch in batches:
            self.ends[each] = batch.base_offset + len(batch.records)
            self.got[each][self.ends[each]] = self.now
        assert partition.high_watermark == self.ends[each]
        if not partition.records:
            self.empty += 1
            assert self.now - self.asked[each] == PARK_MS_MAX, "woken without news"
        self.due[each] = self.now + self.trips[each]


@pytest.mark.parametrize(
    ("observers", "every_ms", "most"), [(3, 20, 3 * 51), (200, 20, 200 * 21), (200, 2, 200 * 21)]
)
def test_what_a_second_of_changes_costs_in_answers(observers, every_ms, most):
    """Without a pause 200 observers take 10,000 answers at 50 changes a second."""
    fleet = ObserverFleet(observers, [3])
    fleet.run(100)
    fleet.answers = 0
    for _ in range(1_000 // every_ms):
        fleet.append()
        fleet.run(every_ms)
    assert fleet.answers <= most


def test_three_brokers_are_told_each_change_at_once():
    fleet = ObserverFleet(3, [1])
    fleet.run(10)
    for _ in range(50):
        at, end = fleet.now, fleet.append()
        fleet.run(2)
        assert [got[end] for got in fleet.got] == [at] * 3


@given(
    st.integers(1, 230),
    st.lists(st.sampled_from([0, 1, 3, 20, 70, 600]), min_size=1, max_size=4),
    st.lists(st.sampled_from([0, 1, 2, 7, 30, 49, 50, 51, 700]), min_size=1, max_size=12),
)
def test_each_observer_gets_each_record_within_the_longest_pause(observers, trips, gaps):
    """Counted from the commit, or from its next Fetch if that is later; and nobody is woken for
    nothing."""
    fleet = ObserverFleet(observers, trips)
    fleet.run(30)
    committed: dict[int, int] = {}
    for gap in gaps:
        committed[fleet.append()] = fleet.now
        fleet.run(gap)
    fleet.run(1_500)
    pause_ms = min(PAUSE_MS_MAX, observers * PAUSE_US_PER_OBSERVER // 1_000)
    for each, got in enumerate(fleet.got):
        assert fleet.ends[each] == fleet.world.raft.log_end_offset
        for end, at in committed.items():
            assert got[end] <= at + fleet.trips[each] + pause_ms, (each, end)


def test_a_leader_that_stops_tells_those_who_rest_at_once():
    fleet = ObserverFleet(200, [1])
    fleet.run(10)
    fleet.append()
    fleet.run(5)
    fleet.append()
    fleet.run(5)
    assert fleet.world.raft.deadline_ms == fleet.now - 10 + PAUSE_MS
    fleet.world.disk.apply(fleet.world.raft.shutdown(fleet.now))
    replies = fleet.world.raft.take_replies()
    while fleet.world.raft.deadline_ms == 0:
        fleet.world.tick()
        replies += fleet.world.raft.take_replies()
    errors = [reply.message.responses[0].partitions[0].error_code for reply in replies]
    assert errors == [8] * 200


def test_who_is_far_behind_does_not_rest():
    fleet = ObserverFleet(200, [1])
    fleet.run(10)
    for _ in range(2):
        fleet.append()
        fleet.run(5)
    fleet.world.fetch(1)
    (reply,) = fleet.world.replies()
    records = reply.responses[0].partitions[0].records
    assert [batch.base_offset for batch in decode_batches(records)] == [1, 2]


def parked(ticket: str, offset: int, high_watermark: int = 1) -> Parked:
    known: Any = ticket
    return Parked(known, fetch(offset, 1), 17, offset, high_watermark)


def woken(waiting: WaitingFetches) -> list[str]:
    tickets: list[Any] = [one.ticket for one in waiting.take()]
    return tickets


def resting(observers: int = 200) -> WaitingFetches:
    """Observers were told at NOW, up to offset 1."""
    waiting = WaitingFetches()
    for each in range(observers):
        waiting.add(parked(f"{each}", 0), NOW + 500, voter=False)
    waiting.news(1, 1, NOW)
    while woken(waiting):
        pass
    return waiting


def test_voters_are_woken_by_all_that_is_new_and_observers_later():
    waiting = resting()
    waiting.add(parked("observer", 1), NOW + 500, voter=False)
    waiting.add(parked("voter", 1), NOW + 501, voter=True)
    waiting.news(2, 1, NOW + 1)
    assert woken(waiting) == ["voter"]
    waiting.add(parked("voter", 2), NOW + 501, voter=True)
    waiting.news(2, 2, NOW + 2)
    assert woken(waiting) == ["voter"], "the high watermark is news too"
    assert waiting.deadline_ms == NOW + PAUSE_MS
    waiting.tick(2, 2, NOW + PAUSE_MS)
    assert woken(waiting) == ["observer"]


def test_who_has_everything_already_is_not_woken():
    waiting = resting()
    waiting.news(2, 2, NOW + 1)
    waiting.add(parked("has it", 2, 2), NOW + 500, voter=False)
    waiting.add(parked("lacks the mark", 2, 1), NOW + 500, voter=False)
    waiting.add(parked("lacks a record", 1, 2), NOW + 500, voter=False)
    waiting.tick(2, 2, NOW + PAUSE_MS)
    assert woken(waiting) == ["lacks the mark", "lacks a record"]
    assert waiting.deadline_ms == NOW + 500


def test_whose_time_is_up_does_not_rest_on():
    waiting = resting()
    waiting.add(parked("short", 1), NOW + 10, voter=False)
    waiting.news(2, 2, NOW + 1)
    assert waiting.deadline_ms == NOW + 10
    waiting.tick(2, 2, NOW + 10)
    assert woken(waiting) == ["short"]


def test_a_change_of_the_leader_wakes_those_who_rest():
    waiting = resting()
    waiting.add(parked("observer", 1), NOW + 500, voter=False)
    waiting.news(2, 2, NOW + 1)
    waiting.wake()
    assert woken(waiting) == ["observer"]


def test_nothing_is_due_while_nobody_waits():
    waiting = resting()
    waiting.news(2, 2, NOW + 1)
    assert waiting.deadline_ms is None


def test_an_observer_whose_fetch_crosses_a_commit_is_told_of_it_at_once():
    """With several voters it gets records before they are committed, and publishes them after."""
    trio = Trio(4, ids=(1, 2)).start()
    trio.run(5_000)
    leader = trio.leader
    raft = leader.raft
    before = raft.high_watermark
    trio.delay_ms = 400
    end = trio.append(leader, no_op()) + 1
    trio.run(10)

    def asks(offset: int) -> list[Any]:
        request = fetch(offset, raft.leader_epoch, raft.leader_epoch)
        request.replica_state.replica_id = 1000
        ticket: Any = "observer"
        raft.request(request, 17, trio.now, ticket)
        replies: list[Any] = raft.take_replies()
        return [reply.message.responses[0].partitions[0] for reply in replies]

    (first,) = asks(before)
    assert (first.high_watermark, bool(first.records)) == (before, True)
    trio.run(1_000)
    assert raft.high_watermark == end
    (second,) = asks(end)
    assert (second.high_watermark, second.records) == (end, b"")
    assert asks(end) == [], "it knows all"
