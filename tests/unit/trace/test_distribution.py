"""Distribution: what it forgets is bounded, what it keeps is exact."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.trace.distribution import EDGES, RELATIVE_ERROR, Distribution

_VALUES = st.lists(st.floats(0, 1e7), min_size=1, max_size=60)


def _of(values: list[float]) -> Distribution:
    distribution = Distribution()
    for value in values:
        distribution.observe(value)
    return distribution


@given(_VALUES, st.floats(0, 1))
def test_a_quantile_is_at_most_one_sixteenth_above_the_true_one(
    values: list[float], fraction: float
) -> None:
    rank = max(1, math.ceil(fraction * len(values)))
    true = sorted(values)[rank - 1]
    found = _of(values).quantile(fraction)
    assert true <= found <= true * (1 + RELATIVE_ERROR)


@given(_VALUES)
def test_cumulative_counts_are_exact(values: list[float]) -> None:
    counted = dict(_of(values).cumulative())
    assert counted == {edge: sum(value <= edge for value in values) for edge in EDGES}


@given(_VALUES, _VALUES, st.floats(0, 1))
def test_what_was_counted_since_a_copy_is_as_if_counted_alone(
    before: list[float], after: list[float], fraction: float
) -> None:
    counted = _of(before)
    earlier = counted.copy()
    for value in after:
        counted.observe(value)
    found, alone = counted.since(earlier), _of(after)
    assert (found.count, dict(found.cumulative())) == (len(after), dict(alone.cumulative()))
    assert math.isclose(found.total, alone.total, rel_tol=1e-6, abs_tol=1)
    true = sorted(after)[max(1, math.ceil(fraction * len(after))) - 1]
    assert true <= found.quantile(fraction) <= true * (1 + RELATIVE_ERROR)
    assert found.smallest <= min(after)
    assert max(after) <= found.greatest


def test_nothing_was_counted_since_a_copy() -> None:
    counted = _of([0.0, 3.0])
    assert counted.since(counted.copy()).quantile(0.5) == 0.0


def test_edges_belong_to_the_bucket_below() -> None:
    assert dict(_of([1.0]).cumulative())[1.0] == 1
    assert dict(_of([math.nextafter(1.0, 2.0)]).cumulative())[1.0] == 0


def test_a_copy_does_not_follow() -> None:
    first = _of([1.0])
    twin = first.copy()
    first.observe(2.0)
    assert (twin.count, twin.quantile(1.0)) == (1, 1.0)
    assert (first.count, first.smallest, first.greatest, first.total) == (2, 1.0, 2.0, 3.0)


def test_nothing_observed() -> None:
    assert Distribution().quantile(0.99) == 0.0


@pytest.mark.parametrize("value", [-1.0, math.nan])
def test_a_negative_time_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="from 0 up"):
        Distribution().observe(value)
