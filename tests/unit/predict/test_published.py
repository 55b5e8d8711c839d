"""What is published of predictions is what the kept rows give; rows that prove nothing are not."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.predict import __main__ as program
from bench.predict import cells
from bench.predict.cells import KEPT, Waited
from tools import predicted
from tools.predicted import Axis, Cell


def test_the_kept_rows_are_of_cells_taken_after_the_predictions_and_their_input() -> None:
    file, found = cells.kept()
    assert file.parent == KEPT
    names = [one.case.name for one in program._plan("cells")]
    assert list(found.predictions["cells"]) == names
    assert {one["case"] for one in found.rows} <= set(names)
    assert found.input["scenario"] == "input"
    speed = cells.Speed(**found.predictions["speed"])
    for one in program._plan("cells"):
        again = cells.predicted(one.case, speed)
        wrote = Waited(**found.predictions["cells"][one.case.name])
        assert again.union_s == pytest.approx(wrote.union_s, abs=1e-6)
    for one in found.rows:
        assert next(iter(one)) == "predictions"
        assert one["measured"]["union_s"] * 1e3 == pytest.approx(one["row"]["blocked_union_ms"])
        assert one["holds"] is cells.holds(Waited(**one["predicted"]), Waited(**one["measured"]))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A run's folder, made again from what is kept of it."""
    _, found = cells.kept()
    (tmp_path / "bench/rows").mkdir(parents=True)
    (tmp_path / "rows").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "predictions.json").write_text(json.dumps(found.predictions, indent=1))
    (tmp_path / "bench/rows/input.bursts.json").write_text(json.dumps(found.input))
    for one in found.rows:
        (tmp_path / f"rows/{one['run_id']}.json").write_text(json.dumps(one))
    return tmp_path


def test_a_run_goes_on_from_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, found = cells.kept()
    cells.restore(tmp_path)
    asked: list[str] = []
    monkeypatch.setattr(program, "_taken", lambda one, *_: asked.append(one.case.name))
    program.play(tmp_path, None, 0)
    there = {one["case"] for one in found.rows}
    assert asked == [one.case.name for one in program._plan("cells") if one.case.name not in there]
    assert capsys.readouterr().out.count("(is there)") == len(there)
    (tmp_path / "docs").mkdir()
    assert cells.publish(tmp_path, tmp_path / "docs").read_bytes() == file.read_bytes()
    # What was begun there stays.
    next((tmp_path / "rows").glob("*.json")).unlink()
    cells.restore(tmp_path)
    assert len(list((tmp_path / "rows").glob("*.json"))) == len(there) - 1


def test_a_row_of_another_case_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells.restore(tmp_path)
    path = next((tmp_path / "rows").glob("*.json"))
    row = json.loads(path.read_text())
    row["row"]["digest"] = "0" * 16
    path.write_text(json.dumps(row))
    asked: list[str] = []
    monkeypatch.setattr(program, "_taken", lambda one, *_: asked.append(one.case.name))
    program.play(tmp_path, None, 0)
    assert row["case"] in asked


def test_rows_are_kept_instead_of_those_before(out: Path) -> None:
    old = out / "docs/predict-00000000.jsonl"
    old.write_text("{}")
    file = cells.publish(out, out / "docs")
    assert not old.exists()
    assert cells.kept(out / "docs") == (file, cells.kept()[1])


def _prediction(row: dict[str, Any]) -> None:
    row["predicted"]["union_s"] += 1


def _digest(row: dict[str, Any]) -> None:
    row["predictions"] = "0" * 64


def _earlier(row: dict[str, Any]) -> None:
    row["row"]["started_wall_ns"] = 0


def _void(row: dict[str, Any]) -> None:
    row["row"]["void"] = "the trees differ"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_void, "its row is void: the trees differ"),
        (_prediction, "another prediction than was written"),
        (_digest, "not taken after these predictions"),
        (_earlier, "taken before the predictions' input"),
    ],
)
def test_a_row_that_proves_nothing_is_not_kept(
    out: Path, change: Callable[[dict[str, Any]], None], why: str
) -> None:
    file = next((out / "rows").glob("*.json"))
    row = json.loads(file.read_text())
    change(row)
    file.write_text(json.dumps(row))
    with pytest.raises(cells.UnpublishableError, match=why):
        cells.publish(out, out / "docs")
    assert not list((out / "docs").iterdir())


def test_predictions_that_were_changed_afterwards_are_not_kept(out: Path) -> None:
    file = out / "predictions.json"
    file.write_text(file.read_text().replace('"operations": 28', '"operations": 29', 1))
    with pytest.raises(cells.UnpublishableError, match="not taken after these predictions"):
        cells.publish(out, out / "docs")


def test_without_the_row_of_the_input_nothing_is_kept(out: Path) -> None:
    (out / "bench/rows/input.bursts.json").unlink()
    with pytest.raises(cells.UnpublishableError, match="no row of the predictions' input"):
        cells.publish(out, out / "docs")


def test_the_page_says_how_many_of_the_predicted_cells_are_measured() -> None:
    found = cells.kept()[1]
    text = " ".join("".join(predicted.table()).split())
    assert f" of {len(found.predictions['cells'])} cells, written before" in text
    assert f"; {len(found.rows)} are measured:" in text


def test_the_picture_has_each_cell_and_marks_what_missed() -> None:
    pairs = [(0.0, 0.0), (0.0, 0.25), (0.0, 0.3), (1.0, 1.2), (8.1, 10.0), (7.9, 10.0), (3.0, 0.5)]
    found = [
        Cell(25, 5, 100, *pair, cells.holds(Waited(pair[0], 0, 0), Waited(pair[1], 0, 0)))
        for pair in pairs
    ]
    drawn = "".join(predicted.drawn(found))
    assert drawn.count('class="held"') == 4
    assert drawn.count('class="missed"') == 3
    assert "4 of 7" in drawn
    assert "✕ missed: 3" in drawn
    assert ">1 of them<" in drawn
    assert "prefers-color-scheme: dark" in drawn
    # What holds lies in the band, and nothing else.
    axis = Axis(0.2, 20)
    band = [predicted._edge(axis, side) for side in (-1, 1)]
    for one in found:
        low, high = (_at(edge, one.measured_s) for edge in band)
        assert (low - 0.02 <= one.predicted_s <= high + 0.02) is one.holds, one


def _at(edge: list[tuple[float, float]], measured_s: float) -> float:
    """Predicted seconds on an edge of the band."""
    for (x, y), (after_x, after_y) in itertools.pairwise(edge):
        if y <= measured_s <= after_y:
            return x + (after_x - x) * (measured_s - y) / (after_y - y)
    raise AssertionError(measured_s)
