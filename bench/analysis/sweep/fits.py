"""Small fits over rows that Spark has already aggregated; nothing here grows with a trace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

Z_95: Final = 1.959964
"""Standard normal quantile of a two-sided interval of 95 %."""


@dataclass(frozen=True, slots=True)
class Trend:
    """A slope and its 95 % interval."""

    slope: float
    low: float
    high: float


def theil_sen(xs: Sequence[float], ys: Sequence[float]) -> Trend | None:
    """The median slope of all pairs of points, with Sen's interval; None under four points.

    The interval is that of the Mann-Kendall test without ties (Sen, 1968): it needs no assumption
    about how values scatter, and one outlier does not move it.

    >>> theil_sen([0, 1, 2, 3, 4], [0, 2, 4, 60, 8]).slope
    2.0
    """
    x, y = np.asarray(xs, float), np.asarray(ys, float)
    first, second = np.triu_indices(len(x), 1)
    apart = x[second] - x[first]
    slopes = np.sort((y[second] - y[first])[apart != 0] / apart[apart != 0])
    if len(x) < 4 or not len(slopes):
        return None
    count = len(x)
    reach = Z_95 * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    last = len(slopes) - 1
    low = slopes[max(0, min(last, math.floor((len(slopes) - reach) / 2)))]
    high = slopes[min(last, max(0, math.ceil((len(slopes) + reach) / 2)))]
    return Trend(float(np.median(slopes)), float(low), float(high))


@dataclass(frozen=True, slots=True)
class Line:
    """``fixed + each * x``; ``off``: the greatest residual, as a share of the value there."""

    fixed: float
    each: float
    r_squared: float
    off: float


def line(xs: Sequence[float], ys: Sequence[float]) -> Line | None:
    """Least squares, weighted to relative errors: sizes lie far apart. None under three sizes.

    >>> line([1, 10, 100], [2.5, 7.0, 52.0])
    Line(fixed=2.0, each=0.5, r_squared=1.0, off=0.0)
    """
    x, y = np.asarray(xs, float), np.asarray(ys, float)
    if len(set(xs)) < 3 or (y <= 0).any():
        return None
    columns = np.column_stack([np.ones_like(x), x])
    (fixed, each), *_ = np.linalg.lstsq(columns / y[:, None], np.ones_like(y), rcond=None)
    off = y - (fixed + each * x)
    spread = float(((y - y.mean()) ** 2).sum())
    r_squared = 1 - float((off**2).sum()) / spread if spread else 1.0
    figures = (fixed, each, r_squared, np.abs(off / y).max())
    return Line(*(round(float(value), 12) for value in figures))


def median(values: Sequence[float]) -> float:
    """The median of at least one value."""
    return float(np.median(values))


@dataclass(frozen=True, slots=True)
class Scaling:
    """Gunther's Universal Scalability Law: X(n) = rate * n / (1 + sigma(n-1) + kappa n(n-1)).

    ``n`` is a rate over ``unit``, the lowest rate. ``peak``: the rate at which X is greatest; None
    if the fit sees none (kappa is 0) or lies past all rates that were measured.
    """

    unit: float
    rate: float
    sigma: float
    kappa: float
    peak: float | None
    r_squared: float


def scaling(offered: Sequence[float], achieved: Sequence[float]) -> Scaling | None:
    """Fit the law by least squares of n / X, weighted to relative errors; sigma, kappa >= 0.

    Args:
        offered: intended rates, per second.
        achieved: rates reached, per second.

    Returns:
        None with fewer than four rates above zero.
    """
    pairs = [(o, a) for o, a in zip(offered, achieved, strict=True) if o > 0 and a > 0]
    if len({o for o, _ in pairs}) < 4:
        return None
    offers, reached = np.asarray([o for o, _ in pairs]), np.asarray([a for _, a in pairs])
    unit = float(offers.min())
    n = offers / unit
    columns = np.column_stack([np.ones_like(n), n - 1, n * (n - 1)])
    kept = [0, 1, 2]
    found = np.zeros(3)
    while True:
        weighted = columns[:, kept] * (reached / n)[:, None]
        solved = np.linalg.lstsq(weighted, np.ones_like(n), rcond=None)[0]
        negative = [at for at, value in zip(kept, solved, strict=True) if at and value < 0]
        if not negative:
            found[kept] = solved
            break
        kept.remove(negative[-1])
    if found[0] <= 0:
        return None
    sigma, kappa = found[1] / found[0], found[2] / found[0]
    predicted = n / (columns @ found)
    spread = float(((reached - reached.mean()) ** 2).sum())
    off = float(((reached - predicted) ** 2).sum())
    peak = unit * math.sqrt((1 - sigma) / kappa) if kappa > 0 and sigma < 1 else None
    if peak is not None and peak > offers.max():
        peak = None
    r_squared = 1 - off / spread if spread else 1.0
    return Scaling(unit, float(1 / found[0]), float(sigma), float(kappa), peak, r_squared)


@dataclass(frozen=True, slots=True)
class Cost:
    """ZooKeeper's busy time per slice: ``a_ms + b_ms * records + c_ms * multis``.

    ``residual_rms_ms`` and ``residual_p95_ms`` are of the slices that the fit was made from.
    ``separable``: whether records and multis vary enough apart from each other to tell b from c.
    """

    slices: int
    a_ms: float
    b_ms: float
    c_ms: float
    residual_rms_ms: float
    residual_p95_ms: float
    r_squared: float
    separable: bool


def cost(
    records: Sequence[float], multis: Sequence[float], busy_ms: Sequence[float]
) -> Cost | None:
    """Least squares over slices of equal length; None with fewer than six."""
    if len(busy_ms) < 6:
        return None
    busy = np.asarray(busy_ms, float)
    matrix = np.column_stack([np.ones(len(busy)), records, multis]).astype(float)
    scale = np.maximum(np.abs(matrix).max(axis=0), 1e-12)
    found, _, rank, singular = np.linalg.lstsq(matrix / scale, busy, rcond=1e-9)
    a, b, c = found / scale
    residual = busy - matrix @ (found / scale)
    spread = float(((busy - busy.mean()) ** 2).sum())
    return Cost(
        slices=len(busy),
        a_ms=float(a),
        b_ms=float(b),
        c_ms=float(c),
        residual_rms_ms=float(np.sqrt((residual**2).mean())),
        residual_p95_ms=float(np.quantile(np.abs(residual), 0.95)),
        r_squared=1 - float((residual**2).sum()) / spread if spread else 1.0,
        separable=bool(rank == 3 and singular[-1] > 1e-3 * singular[0]),
    )


def bootstrap_mean(
    values: Sequence[float], samples: int = 2000, seed: int = 1
) -> tuple[float, float, float] | None:
    """Mean and its 95 % interval by resampling; the interval is the mean alone for one value."""
    if not values:
        return None
    given = np.asarray(values, float)
    drawn = np.random.default_rng(seed).choice(given, (samples, len(given)))
    low, high = np.quantile(drawn.mean(axis=1), [0.025, 0.975])
    return float(given.mean()), float(low), float(high)
