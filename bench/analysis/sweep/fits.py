"""Small fits over rows that Spark has already aggregated; nothing here grows with a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Trend:
    """A slope and its 95 % interval."""

    slope: float
    low: float
    high: float


def theil_sen(xs: Sequence[float], ys: Sequence[float]) -> Trend | None:
    """The median slope of all pairs of points, with Sen's interval; None under four points.

    The interval is that of the Mann-Kendall test (Sen, 1968): it needs no assumption about how
    values scatter, and one outlier does not move it.

    >>> theil_sen([0, 1, 2, 3, 4], [0, 2, 4, 60, 8]).slope
    2.0
    """
    if len(xs) < 4 or len(set(xs)) < 2:
        return None
    from scipy.stats import theilslopes  # noqa: PLC0415 - half a second

    found = theilslopes(ys, xs)
    return Trend(float(found.slope), float(found.low_slope), float(found.high_slope))


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
