"""The one figure of the README is what its kept rows give, with the resource that limited them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import figure

ROOT = Path(figure.__file__).resolve().parents[1]


def test_the_readme_says_what_the_kept_rows_give() -> None:
    """At 4,000 ISR changes a second the machine is full, of both."""
    rows = figure.kept()
    assert [row["target"] for row in rows].count("kafka") == len(rows) - 3 == 3
    assert figure.sentence(rows) in " ".join((ROOT / "README.md").read_text().split())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"machine_busy": 0.5}, "the fullest was the machine.s cores with 50%"),
        ({"others_cores": 0.7}, "other programs used 0.7 cores"),
        ({"achieved_per_s": 3_000.0}, "ours committed 3,000 of 4,000/s"),
    ],
)
def test_rows_that_something_else_limited_give_no_figure(
    change: dict[str, float], why: str
) -> None:
    rows = [row | change if row["target"] == "kraft-bridge" else row for row in figure.kept()]
    with pytest.raises(ValueError, match=why):
        figure.sentence(rows)
