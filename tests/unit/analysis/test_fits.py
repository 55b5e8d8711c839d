"""Fits find the numbers that data were made from, and say when they cannot."""

from __future__ import annotations

import random
import statistics

import pytest

from bench.analysis.sweep import fits


def test_a_trend_is_told_from_noise() -> None:
    chance = random.Random(5)
    flat = [100 + chance.gauss(0, 20) for _ in range(40)]
    rising = [value + 3 * at for at, value in enumerate(flat)]
    trend = fits.theil_sen(range(40), flat)
    assert trend.low < 0 < trend.high
    trend = fits.theil_sen(range(40), rising)
    assert 0 < trend.low < 3 < trend.high


def test_the_slope_is_the_median_of_all_pairs() -> None:
    chance = random.Random(6)
    for _ in range(50):
        xs = [float(chance.randrange(20)) for _ in range(12)]
        ys = [chance.random() for _ in xs]
        pairs = [
            (ys[j] - ys[i]) / (xs[j] - xs[i])
            for i in range(12)
            for j in range(i + 1, 12)
            if xs[i] != xs[j]
        ]
        trend = fits.theil_sen(xs, ys)
        assert trend.slope == pytest.approx(statistics.median(pairs))
        assert trend.low <= trend.slope <= trend.high


def test_the_interval_of_a_trend_holds_it_in_95_percent_however_skewed_the_noise() -> None:
    chance = random.Random(8)
    held = 0
    for _ in range(1_000):
        trend = fits.theil_sen(range(20), [3 * at + chance.expovariate(0.1) for at in range(20)])
        held += trend.low <= 3 <= trend.high
    assert 0.935 <= held / 1_000 <= 0.975


def test_a_lag_that_is_mostly_the_same_has_no_trend() -> None:
    assert fits.theil_sen(range(20), [0.0] * 20) == fits.Trend(0, 0, 0)
    trend = fits.theil_sen(range(20), [0.0] * 18 + [500.0, 0.0])
    assert (trend.slope, trend.low, trend.high) == (0, 0, 0)


@pytest.mark.parametrize("xs", [[], [1, 2, 3], [2, 2, 2, 2, 2]])
def test_without_points_apart_there_is_no_trend(xs: list[float]) -> None:
    assert fits.theil_sen(xs, xs) is None


def test_a_cost_model_is_found_again_with_its_residuals() -> None:
    chance = random.Random(7)
    records = [chance.uniform(0, 5000) for _ in range(300)]
    multis = [chance.uniform(1, 300) for _ in range(300)]
    noise = [chance.gauss(0, 4) for _ in range(300)]
    busy = [20 + 0.05 * r + 1.5 * m + n for r, m, n in zip(records, multis, noise, strict=True)]
    found = fits.cost(records, multis, busy)
    assert found.b_ms == pytest.approx(0.05, rel=0.02)
    assert found.c_ms == pytest.approx(1.5, rel=0.02)
    assert found.residual_rms_ms == pytest.approx(4, rel=0.15)
    assert found.separable
    assert fits.cost(records[:5], multis[:5], busy[:5]) is None


def test_records_in_step_with_multis_cannot_be_told_apart() -> None:
    multis = [float(each) for each in range(1, 50)]
    found = fits.cost([4 * each for each in multis], multis, [3 * each for each in multis])
    assert not found.separable
