"""The knee, by each criterion and all, and its interval."""

from __future__ import annotations

import dataclasses
import random

import pytest

from bench.analysis.sweep.knee import Knee, Measured, knee, verdicts

RATES = (100.0, 200.0, 400.0, 800.0, 1600.0)


def _fine(rate: float) -> Measured:
    return Measured(rate, 1.0, 0.0, 4.0)


def _sweep(**at: Measured) -> list[Measured]:
    return [at.get(f"r{rate:.0f}", _fine(rate)) for rate in RATES]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"achieved": 0.989}, "achieved"),
        ({"growth": 0.011}, "lag"),
        ({"p99_ms": 8.1}, "p99"),
        ({"achieved": None}, "achieved"),
        ({"growth": None}, "lag"),
        ({"p99_ms": None}, "p99"),
    ],
)
def test_each_criterion_alone_stops_the_sweep(change: dict[str, float | None], name: str) -> None:
    found = knee(_sweep(r400=dataclasses.replace(_fine(400.0), **change)))
    assert (found.rate, found.next_rate, found.low, found.high) == (200.0, 400.0, None, None)
    others = {each: 1600.0 for each in ("achieved", "lag", "p99") if each != name}
    assert found.by_criterion == {name: 200.0, **others}


def test_at_the_limits_all_still_hold() -> None:
    found = knee(_sweep(r1600=Measured(1600.0, 0.99, 0.01, 8.0)))
    assert (found.rate, found.next_rate) == (1600.0, None)


def test_a_rate_that_holds_above_one_that_does_not_is_no_knee() -> None:
    found = knee(_sweep(r200=Measured(200.0, 0.5, 0.0, 4.0)))
    assert found.rate == 100.0


def test_not_even_the_lowest() -> None:
    found = knee(_sweep(r100=Measured(100.0, 0.5, 0.0, 4.0)))
    assert (found.rate, found.next_rate) == (None, 100.0)
    assert knee([]) is None


def test_one_bad_repeat_of_five_moves_the_interval_and_not_the_knee() -> None:
    good = [run for _ in range(5) for run in _sweep(r1600=Measured(1600.0, 0.6, 0.3, 90.0))]
    assert knee(good) == Knee(
        800.0, 1600.0, 800.0, 800.0, 5, {"achieved": 800.0, "lag": 800.0, "p99": 800.0}
    )
    runs = good[:-5] + _sweep(r800=Measured(800.0, 0.9, 0.0, 4.0), r1600=good[-1])
    found = knee(runs)
    assert (found.rate, found.low, found.high) == (800.0, 400.0, 800.0)


def test_the_order_of_runs_does_not_matter() -> None:
    runs = [run for _ in range(3) for run in _sweep(r800=Measured(800.0, 0.9, 0.0, 4.0))]
    shuffled = random.Random(3).sample(runs, len(runs))
    assert knee(shuffled) == knee(runs)
    assert [verdict.rate for verdict in verdicts(shuffled)] == list(RATES)
