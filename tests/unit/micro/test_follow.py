"""``python -m bench.micro follow``: what is written, deleted and judged; without Spark."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.analysis.synthetic import written
from bench.micro import follow
from bench.micro.follow import Replayed, goals, summary, thirds


def test_files_are_numbered_and_only_the_last_ones_stay(tmp_path: Path) -> None:
    stay = 3
    writer = Replayed(tmp_path, stay)
    seen: dict[str, int] = {}

    def after(_: int) -> None:
        for path in tmp_path.rglob("*.parquet"):
            seen[str(path)] = max(seen.get(str(path), 0), pq.read_metadata(path).num_rows)
        writer.piece_is_over()

    truth = written(writer, 7 * 30 * 20 * 10, 20.0, after=after)
    assert sum(seen.values()) == truth.rows
    left = list(tmp_path.rglob("requests/*/load-*.parquet"))
    assert len(left) == stay - 1
    assert writer.deleted == writer.files - len(list(tmp_path.rglob("*.parquet"))) > 50
    [first] = {re.sub(r"\d{12}\.parquet$", "", path) for path in seen if "ranges" in path}
    numbers = sorted(
        (int(path.removeprefix(first)[:12]), count)
        for path, count in seen.items()
        if path.startswith(first)
    )
    assert all(begin + count == following for (begin, count), (following, _) in pairwise(numbers))
    assert len(list(tmp_path.rglob("runs/*/*.parquet"))) == 2


def test_thirds_are_medians() -> None:
    assert thirds([]) == [0.0, 0.0, 0.0]
    assert thirds([5]) == [0.0, 5.0, 0.0]
    assert thirds([1, 2, 3, 4, 5, 6, 7, 8, 90]) == [2.0, 5.0, 8.0]


def row(**change: Any) -> dict[str, Any]:
    plain = dict.fromkeys(follow.SHOWN, 1)
    return (
        plain
        | {
            "void": "",
            "first_line_s": 12.0,
            "look_s": [0.1, 0.2, 0.5],
            "python_mib": [100, 200, 300],
        }
        | change
    )


@pytest.mark.parametrize(
    "change",
    [
        {"void": "multis: 3, not 4"},
        {"deleted": 0},
        {"first_line_s": 30.1},
        {"look_s": [1.0, 1.0, 1.6]},
        {"python_mib": [1, 200, 301]},
    ],
    ids=["figures", "deleted", "first line", "looks", "memory"],
)
def test_what_does_not_hold_is_said(change: dict[str, Any]) -> None:
    assert all(held for _, held in goals(row()))
    text, holds = summary([row(**change)])
    assert not holds
    assert text.count("**missed**: ") == 1


def test_a_gap_that_the_report_names_makes_a_row_void(tmp_path: Path) -> None:
    (tmp_path / "missing").mkdir()
    path = tmp_path / "missing" / "one.parquet"
    pq.write_table(pa.Table.from_pylist([{"why": "no end"}]), path)
    assert follow._missing(tmp_path) == ""
    pq.write_table(pa.Table.from_pylist([{"why": "deleted"}, {"why": "file missing"}]), path)
    assert follow._missing(tmp_path) == 'gaps: {"why": "deleted"} and 1 more'
