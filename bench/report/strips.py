"""Figures under one axis, as dots: by how much something differs, and what of that is noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from bench.analysis.sweep.noise import Noise
from bench.report.blocks import Strip, Strips

_BEGIN: Final = 10.0
_WIDE: Final = 80.0
"""Percent of a picture's width where its axis begins, and how long it is."""
_STEPS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0, 1e3, 1e6)
_FACTORS: Final = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1e3, 1e6)


def in_percent(share: float) -> str:
    """A difference as a person reads it.

    >>> in_percent(0.0), in_percent(0.004), in_percent(0.093), in_percent(12.0)
    ('0%', '0.4%', '9%', '1,200%')
    """
    return f"{share:.1%}" if 0 < share < 0.01 else f"{share:,.0%}"


def of_noise(found: Sequence[Noise]) -> Strips:
    """By how much two halves of the same rows differ; a dot is a rate, the band 95 % of all."""
    most = max((max(one.most, *one.rates) for one in found), default=0.0)
    step = next((one for one in _STEPS if most <= 4 * one), most)
    top = step * max(1, math.ceil(most / step))
    ticks = [step * at for at in range(round(top / step) + 1)]

    def place(share: float) -> float:
        return _BEGIN + _WIDE * min(1.0, share / top)

    return Strips(
        ["figure", "half of the time within", "95 % within"],
        "difference of two halves of the same rows",
        [(place(tick), in_percent(tick)) for tick in ticks],
        [
            Strip(
                one.figure,
                [in_percent(one.middle), in_percent(one.most)],
                [place(each) for each in one.rates],
                (place(0.0), place(one.most)),
            )
            for one in found
        ],
    )


class FactorAxis:
    """A logarithmic axis around 1, wide enough for some factors.

    Args:
        factors: above 0; what is infinite lies at an end.
    """

    def __init__(self, factors: Iterable[float]) -> None:
        sizes = [max(one, 1 / one) for one in factors if 0 < one < math.inf]
        most = max(sizes, default=1.0)
        self._end = next((one for one in _FACTORS if most <= one), most)

    def at(self, factor: float) -> float:
        """Percent of the picture's width; 50: no difference."""
        size = math.log(self._end)
        inside = min(size, max(-size, math.log(factor) if factor > 0 else -size))
        return _BEGIN + _WIDE * (1 + inside / size) / 2

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Place and text."""
        return [
            (self.at(1 / self._end), f"{self._end:g}x better"),
            (self.at(1.0), "same"),
            (self.at(self._end), f"{self._end:g}x worse"),
        ]
