"""First copies are predicted from two of other sizes, before the first of them is taken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.predict import __main__ as program
from bench.predict import cells, copies, trace
from bench.predict.copies import CopySpeed
from bench.predict.trace import Copied
from bench.runs import run as runner
from bench.runs.row import BenchRow
from bench.runs.scenario import Case, Planned
from bench.runs.store import Store

SLOW = "t600-p100"


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The bench is replaced: 10 µs a znode, 30 a record, 50 a topic; one takes twice as long."""
    found: list[str] = []
    parts: dict[str, Copied] = {}

    def run(planned: list[Planned], store: Store, **_: object) -> list[BenchRow]:
        (one,) = planned
        if (row := store.taken(one)) is not None:
            return [row]
        found.append(one.case.name)
        topics = one.case.topics_present
        records, znodes = copies.size(topics, one.case.partitions)
        parts[one.run_id] = Copied(records, znodes * 10e-6, records * 30e-6 + topics * 50e-6)
        row = BenchRow.of(one)
        row.started_wall_ns, row.claim_s = len(found), 1.0
        row.dual_write_s = 1.1 + parts[one.run_id].read_s + parts[one.run_id].written_s
        if one.case.name == SLOW:
            row.dual_write_s = 2 * row.dual_write_s - 1
        store.keep(row)
        return [row]

    monkeypatch.setattr(runner, "run", run)
    monkeypatch.setattr(trace, "copied", lambda _folder, run_id: parts[run_id])
    return found


def test_copies_are_predicted_from_two_and_judged(taken: list[str], tmp_path: Path) -> None:
    plan = program._plan("copies")
    assert len(plan) >= 10
    assert program.play_copies(tmp_path, 0) == 0
    assert taken == ["t600-p25", "t3000-p1", *(one.case.name for one in plan)]
    speed = json.loads((tmp_path / "predictions.json").read_text())["speed"]
    assert list(speed.values()) == pytest.approx([0.1, 10e-6, 30e-6, 50e-6], rel=1e-3)
    (tmp_path / "docs").mkdir()
    file = cells.publish(tmp_path, tmp_path / "docs", "copies")
    assert file.name.startswith("copies-")
    _, kept = cells.kept(tmp_path / "docs", "copies")
    assert [one["case"] for one in kept.rows if not one["holds"]] == [SLOW]
    # Another folder goes on from what is kept.
    cells.restore(tmp_path / "again", tmp_path / "docs", "copies")
    assert program.play_copies(tmp_path / "again", 0) == 0
    assert len(taken) == 2 + len(plan)


def test_a_copy_holds_within_a_fifth_of_what_it_took() -> None:
    def pair(before_s: float, after_s: float) -> tuple[dict[str, float], dict[str, float]]:
        return {"seconds": before_s}, {"seconds": after_s}

    assert copies.holds(*pair(1.2, 1.0))
    assert not copies.holds(*pair(1.21, 1.0))
    assert not copies.holds(*pair(0.1, 0.3)), "no copy is too short to be judged"
    assert "MISSED" in copies.line("a", *pair(1.3, 1.0))
    good, bad = pair(1.0, 1.0), pair(2.0, 1.0)
    assert copies.verdict([good] * 9 + [bad], 10) == ("9 of 10 copies within 20%", True)
    assert not copies.verdict([good] * 8 + [bad] * 2, 10)[1]
    assert copies.verdict([good], 2) == ("1 of 1 copies within 20%; 1 are missing", False)


def test_a_copy_is_as_long_as_its_znodes_and_records() -> None:
    speed = CopySpeed(0.1, 10e-6, 30e-6, 50e-6)
    case = Case("", topics_present=100, partitions=10)
    wanted = 0.1 + 2_300 * 10e-6 + 1_100 * 30e-6 + 100 * 50e-6
    assert copies.predicted_s(case, speed) == pytest.approx(wanted)
