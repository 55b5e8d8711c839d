"""Contrast of two colours, as WCAG 2.1 has it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

TEXT: Final = 4.5
"""Of a text, level AA; of a graphic 3 would do."""


def papers(css: str) -> list[dict[str, list[float]]]:
    """The colours of a page by the names of their variables: the light paper, the dark one."""
    return [
        {name: rgb(value) for name, value in re.findall(r"--(\w+):#([0-9a-f]{3,6})", one)}
        for one in re.findall(r":root(?:[^{]*)\{([^}]*)\}", css)
    ]


def rgb(value: str) -> list[float]:
    """Red, green and blue, 0 to 255, of three or six digits."""
    value = value if len(value) == 6 else "".join(2 * one for one in value)
    return [float(int(value[at : at + 2], 16)) for at in (0, 2, 4)]


def contrast(one: Sequence[float], other: Sequence[float]) -> float:
    """Ratio of the relative luminances of two colours of sRGB."""
    dark, light = sorted(_luminance(each) for each in (one, other))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: Sequence[float]) -> float:
    parts = [part / 255 for part in colour]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
