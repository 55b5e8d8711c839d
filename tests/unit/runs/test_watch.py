"""What readings say of a lag: its true p99 lies between two values, however late they come."""

from __future__ import annotations

import random
from bisect import bisect_right

import pytest

from bench.analysis.sweep.knee import between
from bench.analysis.sweep.one_run import PERIODS
from bench.load.figures import REPEATS
from bench.runs.watch import PERIOD_S, Held, LagMs, Sample, lag_low, lag_ms

MS = 1_000_000
SECOND = 1_000 * MS
SECONDS = 20
LIMIT_MS = 200.0


def _readings(
    chance: random.Random,
    committed: list[int],
    held: list[int],
    late_ms: float,
    most_ms: float = 2.5,
) -> list[Sample]:
    """Readings ``PERIOD_S`` apart that take 0.5 ms to ``most_ms``, and are late by chance."""
    samples, now_ns = [], -SECOND
    while now_ns < (SECONDS + 1) * SECOND:
        now_ns += int(PERIOD_S * SECOND + chance.expovariate(1 / late_ms) * MS)
        took = [int(chance.uniform(0.5, most_ms) * MS), int(chance.uniform(0.5, 2.5) * MS)]
        when = [now_ns + int(chance.random() * took[0])]
        when.append(now_ns + took[0] + int(chance.random() * took[1]))
        answer = Held(now_ns, now_ns + took[0], bisect_right(held, when[0]) - 1)
        asked_ns, now_ns = answer.end_ns, answer.end_ns + took[1]
        samples.append(Sample(answer, asked_ns, now_ns, bisect_right(committed, when[1]) - 1))
    return samples


def _read(chance: random.Random, committed: list[int], held: list[int], late_ms: float) -> LagMs:
    return lag_ms(_readings(chance, committed, held, late_ms), 0, SECONDS * SECOND)


def _system(
    chance: random.Random, rate: int, lag: float, span: float
) -> tuple[list[int], list[int]]:
    """When each record is committed, and held by ZooKeeper: after ``lag`` to ``lag + span`` ms."""
    committed, held, last = [], [], 0
    for number in range(-rate // 2, SECONDS * rate):
        committed.append(number * SECOND // rate + 2 * MS)
        last = max(last, committed[-1] + int((lag + span * chance.random()) * MS))
        held.append(last)
    return committed, held


def _truth(committed: list[int], held: list[int]) -> float:
    ages = []
    for now_ns in range(0, SECONDS * SECOND, MS // 2):
        oldest = bisect_right(held, now_ns)
        late = oldest < len(committed) and committed[oldest] <= now_ns
        ages.append((now_ns - committed[oldest]) / MS if late else 0.0)
    return sorted(ages)[int(0.99 * len(ages))]


@pytest.mark.parametrize("late_ms", [0.5, 3.0, 30.0])
@pytest.mark.parametrize(("lag", "span"), [(1.0, 0.0), (10.0, 5.0), (90.0, 40.0), (600.0, 80.0)])
def test_the_true_lag_lies_between_what_is_said(late_ms: float, lag: float, span: float) -> None:
    chance = random.Random(f"{late_ms} {lag}")
    for rate in (25, 50, 101):
        committed, held = _system(chance, rate, lag, span)
        found = _read(chance, committed, held, late_ms)
        if late_ms == 30.0:
            assert found == LagMs(None, None, None), "too few readings for a p99"
            continue
        assert found.low_ms is not None
        assert found.high_ms is not None
        assert found.gap_ms is not None
        true_ms = _truth(committed, held)
        assert found.low_ms - 1 <= true_ms <= found.high_ms + 1
        # As wide as two readings, and what they take.
        assert found.high_ms - found.low_ms <= 2 * found.gap_ms + 5


@pytest.mark.parametrize(
    ("lag", "held"), [(10.0, True), (150.0, True), (190.0, None), (260.0, False)]
)
def test_a_lag_is_judged_only_where_readings_can_tell(lag: float, *, held: bool | None) -> None:
    """A true lag of 10 ms was seen as 52 to 56, over a limit of 50, by readings 50 ms apart."""
    chance = random.Random(5)
    found = [_read(chance, *_system(chance, 50, lag, 0.0), 1.0) for _ in range(REPEATS)]
    assert all(each.gap_ms is not None and PERIODS * each.gap_ms <= LIMIT_MS for each in found)
    assert between([(each.low_ms, each.high_ms) for each in found], LIMIT_MS) is held


def test_what_was_behind_before_the_first_reading_has_no_greatest_lag() -> None:
    samples = [
        Sample(Held(at, at + MS, 0), at + MS, at + 2 * MS, 100)
        for at in range(0, 15 * SECOND, 10 * MS)
    ]
    found = lag_ms(samples, SECOND, 14 * SECOND)
    assert found.high_ms is None
    assert found.low_ms is not None
    assert found.low_ms > 13_000 - 200


@pytest.mark.parametrize("seed", range(8))
def test_the_greatest_lag_is_between_what_is_certain_and_what_is_possible(seed: int) -> None:
    chance = random.Random(seed)
    committed, held = _system(chance, rate := chance.choice([20, 200, 2_000]), 100.0, 200.0)
    samples = _readings(chance, committed, held, 0.1, most_ms=400.0)
    greatest = max(n - bisect_right(held, at) + 1 for n, at in enumerate(committed))
    low, high = lag_low(samples), max(one.lag for one in samples)
    assert low is not None
    assert low <= greatest
    assert low <= high
    assert high >= 0.1 * rate * 0.9
    assert lag_low([]) is None
