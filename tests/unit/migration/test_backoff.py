"""When to poll again: later each time, and soon again after progress."""

from __future__ import annotations

from emulator.migration.rounds import CAP_MS, Retry


def test_each_wait_is_twice_the_last_one_up_to_the_longest() -> None:
    retry, waits = Retry(), []
    for now_ms in range(7_000, 7_008):
        waits.append(retry.later(now_ms) - now_ms)
        assert retry.due_ms == now_ms + waits[-1]
    assert waits == [100, 200, 400, 800, 1_600, 3_200, CAP_MS, CAP_MS]
    for _ in range(1_000):
        assert retry.later(0) == CAP_MS


def test_progress_brings_back_the_shortest_wait() -> None:
    retry = Retry()
    for _ in range(4):
        retry.later(0)
    retry.begin(3)
    assert retry.due_ms == 3
    assert retry.later(0) == 100
    retry.later(0)
    retry.sooner(9)
    assert retry.due_ms == 9
    assert retry.later(9) == 109


def test_a_change_alone_causes_no_poll() -> None:
    retry = Retry()
    retry.sooner(9)
    assert retry.due_ms is None
