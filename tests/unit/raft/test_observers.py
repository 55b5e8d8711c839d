"""The observers of the metadata log: how many are remembered, and which are forgotten."""

from __future__ import annotations

from emulator.raft.config import OBSERVER_SESSION_MS
from emulator.raft.replica import OBSERVERS_MAX, Observers

NODE = bytes(16)


def ids(observers: Observers, now_ms: int) -> list[int]:
    return [each.replica_id for each in observers.alive(now_ms)]


def test_invented_ids_do_not_grow_the_memory_of_a_leader():
    """Who asks last is remembered; nobody who asks regularly is forgotten."""
    observers = Observers()
    for number in range(3 * OBSERVERS_MAX):
        observers.fetched((number + 10, NODE), 5, 5, number)
        if number % 1_000 == 0:
            observers.fetched((1, NODE), 5, 5, number)
    assert len(observers) == OBSERVERS_MAX
    found = ids(observers, 3 * OBSERVERS_MAX)
    assert found[0] == 1
    assert found[-1] == 3 * OBSERVERS_MAX + 9
    assert observers.of((10, NODE)) is None


def test_those_that_stopped_fetching_leave_when_others_come():
    observers = Observers()
    for number in range(100):
        observers.fetched((number, NODE), 5, 5, 1_000)
    observers.fetched((500, NODE), 5, 5, 1_001 + OBSERVER_SESSION_MS)
    assert len(observers) == 1


def test_they_are_told_in_the_order_of_their_ids():
    observers = Observers()
    for number in (3, 1, 2):
        observers.fetched((number, NODE), 5, 5, 1_000)
    observers.fetched((3, NODE), 6, 6, 1_001)
    assert ids(observers, 1_001) == [1, 2, 3]
    assert ids(observers, 1_001 + OBSERVER_SESSION_MS) == [3]
