"""Whether blocked shares of several sweeps fall on one curve of utilisation, by numbers."""

from __future__ import annotations

import pytest

from bench.analysis.sweep.collapse import collapsing


def _curve(utilisation: float) -> float:
    """What a queue would do: nothing below its limit."""
    return max(0.0, utilisation - 0.8)


def test_sweeps_on_one_curve_have_collapsed() -> None:
    at = [0.15, 0.45, 0.85, 0.95, 1.25]
    found = collapsing(
        {
            name: [(point + off, _curve(point + off)) for point in at]
            for name, off in (("0 ms", 0.0), ("2 ms", 0.01), ("10 ms", -0.02))
        }
    )
    assert found.collapses is True
    assert found.apart == pytest.approx(0.03)
    assert found.explained is not None
    assert found.explained > 0.98
    assert [one.sweeps for one in found.bins] == [3] * 5


def test_a_sweep_beside_the_curve_is_seen_at_its_worst_bin() -> None:
    one = [(0.55, 0.0), (0.95, 0.1), (1.05, 0.2)]
    other = [(0.56, 0.0), (0.96, 0.4), (1.06, 0.25)]
    found = collapsing({"bound 100": one, "bound 1,000": other})
    assert found.collapses is False
    assert (found.apart, found.utilisation) == (pytest.approx(0.3), pytest.approx(0.9))
    assert found.explained is not None
    assert found.explained < 0.7


@pytest.mark.parametrize("tenths", range(16))
def test_a_whole_tenth_is_in_its_own_bin(tenths: int) -> None:
    found = collapsing({"a": [(tenths / 10, 0.0)], "b": [(tenths / 10 + 0.09, 0.1)]})
    [one] = found.bins
    assert one.utilisation == pytest.approx(tenths / 10)


def test_medians_are_compared_so_one_odd_repeat_is_not_a_difference() -> None:
    found = collapsing({"a": [(0.5, 0.0)] * 3, "b": [(0.5, 0.0), (0.5, 0.0), (0.5, 0.9)]})
    assert found.collapses is True
    assert found.bins[0].most == 0.9


@pytest.mark.parametrize("sweeps", [{}, {"a": []}, {"a": [(0.1, 0.0), (0.9, 0.4)]}])
def test_with_one_sweep_there_is_nothing_to_compare(
    sweeps: dict[str, list[tuple[float, float]]],
) -> None:
    found = collapsing(sweeps)
    assert (found.collapses, found.apart, found.explained) == (None, None, None)


def test_where_nothing_was_blocked_there_is_no_variance_to_account_for() -> None:
    found = collapsing({"a": [(0.1, 0.0)], "b": [(0.1, 0.0)]})
    assert (found.collapses, found.apart, found.explained) == (True, 0.0, None)
