"""Predictions are written before a cell is taken, and stay; what is missing is taken later."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from bench.predict import __main__ as program
from bench.predict import cells, trace
from bench.predict.cells import Waited
from bench.predict.model import Speed
from bench.runs import run as runner
from bench.runs.row import BenchRow
from bench.runs.scenario import Planned
from bench.runs.store import Store
from emulator.io.trace_file import TraceFile
from emulator.trace.rows import BlockRow
from tests.unit.predict.test_trace import SPEED

BEGIN_NS = 10**9


def row_of(planned: Planned, union_ms: float) -> BenchRow:
    row = BenchRow.of(planned)
    row.begin_ns, row.blocked_union_ms = BEGIN_NS, union_ms
    return row


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The bench is replaced: each cell blocks as long as its freeze."""
    found: list[str] = []

    def run(planned: list[Planned], store: Store, **_: object) -> list[BenchRow]:
        (one,) = planned
        if (row := store.taken(one)) is not None:
            return [row]
        found.append(one.case.name)
        row = row_of(one, one.case.freeze_s * 1e3)
        file = TraceFile(store.trace, one.run_id, "controller-3000")
        for begin_ns in (0, BEGIN_NS, BEGIN_NS):
            file.append(BlockRow(begin_ns, begin_ns + 2 * 10**9, "lag_records", "CreateTopics", 1))
        file.close()
        store.keep(row)
        return [row]

    monkeypatch.setattr(runner, "run", run)
    seen = dataclasses.make_dataclass("Seen", [("speed", Speed)])(SPEED)
    monkeypatch.setattr(trace, "read", lambda *_: seen)
    return found


def rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(one.read_text()) for one in sorted((out / "rows").glob("*.json"))]


def test_27_cells_of_which_most_block_are_predicted_before_the_first(
    taken: list[str], tmp_path: Path
) -> None:
    assert program.play(tmp_path, 2, 0) == 1
    assert taken[0] == "bursts"
    predictions = (tmp_path / "predictions.json").read_bytes()
    before = json.loads(predictions)["cells"]
    assert len(before) == 27
    assert sum(one["union_s"] >= cells.BLOCKS_S for one in before.values()) >= 15
    assert any(one["union_s"] == 0 for one in before.values())
    digest = hashlib.sha256(predictions).hexdigest()
    assert [next(iter(one.items())) for one in rows(tmp_path)] == [("predictions", digest)] * 2
    # Only what waited since the load began.
    assert {one["measured"]["operations"] for one in rows(tmp_path)} == {2}
    assert {one["measured"]["longest_s"] for one in rows(tmp_path)} == {2.0}
    assert "25 are missing" in (tmp_path / "verdict.json").read_text()
    # The next run takes the others, and nothing again.
    program.play(tmp_path, None, 0)
    assert len(taken) == len(set(taken)) == 28
    assert (tmp_path / "predictions.json").read_bytes() == predictions
    assert len(rows(tmp_path)) == 27
    assert "are missing" not in (tmp_path / "verdict.json").read_text()


def test_other_cells_need_another_folder_once_a_row_is_there(
    taken: list[str], tmp_path: Path
) -> None:
    program.play(tmp_path, 1, 0)
    some = [one.case for one in program._plan("cells")][:5]
    with pytest.raises(cells.StalePredictionsError, match="give another --out"):
        cells.written(tmp_path, some, lambda: cells.document(some, SPEED))
    cells.written(tmp_path / "other", some, lambda: cells.document(some, SPEED))
    assert taken


def test_a_prediction_holds_within_a_fifth_or_250_ms() -> None:
    def pair(before_s: float, after_s: float) -> tuple[Waited, Waited]:
        return Waited(before_s, 0, 0.0), Waited(after_s, 0, 0.0)

    assert cells.holds(*pair(0.0, 0.25))
    assert not cells.holds(*pair(0.0, 0.26))
    assert cells.holds(*pair(8.1, 10.0))
    assert not cells.holds(*pair(7.9, 10.0))
    assert "MISSED" in cells.line("a", *pair(7.9, 10.0))
    good, bad = pair(1.0, 1.0), pair(1.0, 3.0)
    assert cells.verdict([good] * 9 + [bad], 10)[1]
    text, held = cells.verdict([good] * 8 + [bad] * 2, 10)
    assert not held
    assert text == "8 of 10 cells within 20% or 250 ms; 10 block for 0.5 s or more"
    quiet = pair(0.0, 0.0)
    assert cells.verdict([good] * 15 + [quiet] * 12, 27)[1]
    text, held = cells.verdict([good] * 14 + [quiet] * 13, 27)
    assert not held
    assert text.endswith("; 14 block for 0.5 s or more; 15 are needed")
