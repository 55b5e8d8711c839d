"""Intervals hold as often as they say, and percentiles are of enough values."""

from __future__ import annotations

import random
import statistics

import pytest

from bench.load.figures import COVERAGE, REPEATS, interval
from emulator.trace.distribution import enough, percentile


@pytest.mark.parametrize(("repeats", "least"), [(REPEATS, 0.93), (8, COVERAGE), (24, COVERAGE)])
def test_an_interval_holds_the_true_median_as_often_as_it_says(repeats: int, least: float) -> None:
    """Times of a bench scatter to one side; the true median of these is 1."""
    chance = random.Random(repeats)
    trials, held = 4_000, 0
    for _ in range(trials):
        low, high = interval([chance.lognormvariate(0, 0.8) for _ in range(repeats)])
        held += low <= 1.0 <= high
    # Three standard deviations of the trials themselves.
    assert held / trials >= least - 3 * (0.06 * 0.94 / trials) ** 0.5 + 0.003


def test_of_too_few_repeats_there_is_none() -> None:
    assert [interval([1.0] * count) is None for count in range(REPEATS)] == [True] * REPEATS


def test_the_interval_of_many_leaves_out_what_chance_seldom_does() -> None:
    assert interval([float(value) for value in range(24, 0, -1)]) == (7.0, 18.0)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 0.999])
def test_a_percentile_has_ten_values_beyond_it(share: float) -> None:
    count = next(count for count in range(20_000) if enough(count, share))
    values = list(range(count))
    random.Random(1).shuffle(values)
    found = percentile(values, share)
    assert found is not None
    assert sum(value > found for value in values) == 10
    assert percentile(values[1:], share) is None


def test_the_median_is_the_nearest_rank() -> None:
    assert percentile(range(41), 0.5) == statistics.median_low(range(41))
