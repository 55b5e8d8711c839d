"""The knee: between two rates, by criteria that hold, fail, or of which nothing can be said."""

from __future__ import annotations

import dataclasses
import random

import pytest

from bench.analysis.sweep.knee import Knee, Measured, knee, verdicts
from bench.load.figures import REPEATS

RATES = (100.0, 200.0, 400.0, 800.0, 1600.0)


def _fine(rate: float) -> Measured:
    return Measured(rate, 1.0, 0.0, 4.0)


def _sweep(repeats: int = REPEATS, **at: Measured) -> list[Measured]:
    return [at.get(f"r{rate:.0f}", _fine(rate)) for _ in range(repeats) for rate in RATES]


@pytest.mark.parametrize(
    ("change", "name"),
    [({"achieved": 0.989}, "achieved"), ({"growth": 0.011}, "lag"), ({"p99_ms": 8.1}, "p99")],
)
def test_each_criterion_alone_stops_the_sweep(change: dict[str, float], name: str) -> None:
    runs = _sweep(r400=dataclasses.replace(_fine(400.0), **change))
    assert knee(runs) == Knee(200.0, 200.0, 400.0, REPEATS)
    assert [each.fails for each in verdicts(runs)] == [(), (), (name,), (), ()]


@pytest.mark.parametrize("name", ["achieved", "growth", "p99_ms"])
def test_of_what_one_repeat_has_not_measured_nothing_can_be_said(name: str) -> None:
    runs = [*_sweep(), dataclasses.replace(_fine(400.0), **{name: None})]
    assert knee(runs) == Knee(200.0, 1600.0, None, REPEATS)


def test_at_the_limits_all_still_hold() -> None:
    found = knee(_sweep(r1600=Measured(1600.0, 0.99, 0.01, 8.0)))
    assert found == Knee(1600.0, 1600.0, None, REPEATS)


def test_a_rate_that_holds_above_one_that_does_not_is_no_knee() -> None:
    assert knee(_sweep(r200=Measured(200.0, 0.5, 0.0, 4.0))).high == 100.0


def test_not_even_the_lowest() -> None:
    found = knee(_sweep(r100=Measured(100.0, 0.5, 0.0, 4.0)))
    assert found == Knee(None, None, 100.0, REPEATS)
    assert knee([]) is None


def test_of_repeats_that_disagree_nothing_can_be_said() -> None:
    runs = _sweep(r1600=Measured(1600.0, 0.6, 0.3, 90.0))
    runs[3] = Measured(800.0, 0.9, 0.0, 4.0)
    assert knee(runs) == Knee(400.0, 800.0, 1600.0, REPEATS)


def test_fewer_repeats_than_an_interval_takes_say_nothing() -> None:
    for repeats in range(1, REPEATS):
        runs = _sweep(repeats, r1600=Measured(1600.0, 0.1, 0.9, 900.0))
        assert knee(runs) == Knee(None, 1600.0, None, repeats)


def test_the_order_of_runs_does_not_matter() -> None:
    runs = _sweep(r800=Measured(800.0, 0.9, 0.0, 4.0))
    shuffled = random.Random(3).sample(runs, len(runs))
    assert knee(shuffled) == knee(runs)
    assert [verdict.rate for verdict in verdicts(shuffled)] == list(RATES)


def _scattered(chance: random.Random, rate: float, p99_ms: float, achieved: float) -> Measured:
    """As rows of one hour scatter: by half, and once in fifteen by a factor of ten and more."""
    noise = chance.lognormvariate(0, 0.5) * (15.0 if chance.random() < 1 / 15 else 1.0)
    missed = (1 - achieved) * chance.lognormvariate(0, 0.5)
    return Measured(rate, 1 - missed, max(0.0, chance.gauss(-0.005, 0.005)), p99_ms * noise)


def test_where_nothing_changes_with_the_rate_a_knee_is_seldom_declared() -> None:
    """A/A: each rate is measured on the same system, by as many repeats as ``make bench`` takes."""
    chance, trials, declared = random.Random(7), 1_000, 0
    for _ in range(trials):
        runs = [_scattered(chance, rate, 10.0, 0.998) for rate in RATES for _ in range(REPEATS)]
        found = knee(runs)
        assert found is not None
        declared += found.high != RATES[-1]
    assert declared / trials <= 0.05


def test_the_true_knee_lies_where_it_is_said_to() -> None:
    """p99 triples from 800/s on, and at 1,600/s some changes are not carried out."""
    chance, trials, held, told = random.Random(8), 1_000, 0, 0
    truth = {100.0: 10.0, 200.0: 10.0, 400.0: 14.0, 800.0: 60.0, 1600.0: 400.0}
    for _ in range(trials):
        found = knee(
            [
                _scattered(chance, rate, p99, 0.9 if rate == 1600.0 else 0.999)
                for rate, p99 in truth.items()
                for _ in range(REPEATS)
            ]
        )
        assert found is not None
        held += (found.low or 0.0) <= 400.0 <= (found.high or 0.0)
        told += found.high != RATES[-1]
    assert held / trials >= 0.93
    assert told / trials >= 0.93, "an interval that always holds all rates would say nothing"
