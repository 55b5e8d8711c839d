"""``python -m bench.micro analysis``: what is measured, kept and told; without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.analysis.synthetic import Truth
from bench.micro import __main__ as program
from bench.micro import analysis, one_analysis
from bench.micro.process_tree import Watched, bytes_below, memory_of
from emulator.servers.waiting import wait_for

_CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
_GRANDCHILD = "held = bytearray(64 << 20); print('there', flush=True); input()"


def row(rows: int, master: str, wall_s: float, **more: Any) -> dict[str, Any]:
    plain = {"cpu_s": 1.0, "memory_mib": 900, "java_mib": 700, "trace_mib": 5, "disk_mib": 9}
    return {"rows": rows, "master": master, "wall_s": wall_s, "others_cores": 0.0, "void": ""} | (
        plain | more
    )


def test_the_memory_of_a_program_is_that_of_all_it_started(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD, _GRANDCHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as child:
        assert child.stdout.readline() == b"there\n"
        with Watched(child.pid, tmp_path) as watched:
            wait_for("a look", lambda: watched.disk > 0)
        found = memory_of(child.pid)
        os.killpg(child.pid, 9)
    assert found.total > 64 << 20
    assert (found.java, watched.memory.others) == (0, pytest.approx(found.total, rel=0.2))
    assert watched.disk == bytes_below(tmp_path) >= 100_000
    assert memory_of(child.pid).total == 0


def test_how_long_it_takes_follows_from_smaller_ones() -> None:
    assert analysis.seconds_at(50, []) is None
    assert analysis.seconds_at(50, [row(10, "local[2]", 30.0)]) == 150.0
    assert analysis.seconds_at(5, [row(10, "local[2]", 30.0)]) == 30.0
    known = [row(1, "local[2]", 12.0), row(11, "local[2]", 32.0)]
    assert analysis.seconds_at(50, known) == 110.0


def test_two_masters_are_compared_at_each_size() -> None:
    rows = [
        row(50_000_001, "local[2]", 100.0, memory_mib=2_000),
        row(50_000_000, "local[1]", 180.0, memory_mib=1_500),
        row(2_000_000, "local[2]", 10.0, others_cores=0.9),
        row(2_000_000, "local[1]", 12.0),
        row(2_000_000, "local[1]", 99.0, void="blocked ms: 1, not 2"),
    ]
    small, large = analysis.sentences(rows)
    assert small == "2,000,000 rows: at most 900 MiB (goal: 4,096); local[1] / local[2] = 1.20"
    # 6.25 and 5 s are what no row would take.
    assert large == (
        "50,000,001 rows: at most 2,000 MiB (goal: 4,096); local[1] / local[2] = 1.80, without the "
        "start 1.87 (goal: 1.7); local[2] 1.7 minutes (goal for 50 million: 8)"
    )
    summary, holds = analysis.summary(rows)
    assert not holds
    assert "| 2,000,000 | local[2] | 10 " in summary
    assert "| blocked ms: 1, not 2 |" in summary


def tables(folder: Path, truth: Truth) -> Path:
    """What an analysis that finds the truth leaves."""
    made = {
        "blocking": {
            "blocked_operations": truth.blocked_operations,
            "total_ms": truth.blocked_total_ms,
            "union_ms": truth.blocked_union_ms,
        },
        "coalescing": {"multis": truth.multis, "records": truth.records},
        "latency": {
            "seen": "client response",
            "samples": truth.operations,
            "max_ms": truth.max_response_ms,
        },
    }
    for name, columns in made.items():
        (folder / name).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist([columns]), folder / name / "part.parquet")
    return folder


@pytest.mark.parametrize("name", [name for name in asdict(Truth()) if name != "rows"])
def test_a_result_that_is_not_the_truth_makes_a_row_void(tmp_path: Path, name: str) -> None:
    truth = Truth(100, 10, 30, 4, 2, 20.5, 12.25, 7.5)
    found = tables(tmp_path / "tables", truth)
    assert not one_analysis.wrong(found, truth)
    setattr(truth, name, getattr(truth, name) + 1)
    assert one_analysis.wrong(found, truth)
    assert "cannot be read" in one_analysis.wrong(tmp_path, truth)


def test_a_trace_without_a_freeze_has_no_row_of_what_was_blocked(tmp_path: Path) -> None:
    truth = Truth(rows=100, operations=10, records=30, multis=4, max_response_ms=7.5)
    found = tables(tmp_path / "tables", truth)
    [file] = (found / "blocking").iterdir()
    pq.write_table(pq.read_table(file).slice(0, 0), file)
    assert not one_analysis.wrong(found, truth)
    truth.blocked_operations = 1
    assert one_analysis.wrong(found, truth) == "blocked operations: None, not 1"
    pq.write_table(pa.Table.from_pylist([{"total_ms": 1.0}] * 2), file)
    assert "blocking has 2 rows" in one_analysis.wrong(found, truth)


def test_a_trace_is_written_once_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trace").mkdir()  # of a run that was interrupted
    (tmp_path / "trace" / "torn").touch()
    truth = one_analysis.trace(tmp_path, 1_000)
    assert not (tmp_path / "trace" / "torn").exists()
    monkeypatch.setattr(one_analysis, "generate", None)
    assert one_analysis.trace(tmp_path, 1_000) == truth
    with pytest.raises(one_analysis.NoRoomError, match=r"need \d+\.\d GB"):
        one_analysis.trace(tmp_path / "large", 10**15)
    assert not (tmp_path / "large" / "truth.json").exists()


def played(
    monkeypatch: pytest.MonkeyPatch, out: Path, *more: str, void: str = ""
) -> tuple[int, list[tuple[int, str]]]:
    """Run the program with an analysis that takes no time."""
    calls: list[tuple[int, str]] = []

    def analysed(folder: Path, truth: Truth, master: str) -> dict[str, Any]:
        assert (folder / "trace").is_dir()
        calls.append((truth.rows // 1_000, master))
        if len(calls) == 3 and not void:
            raise KeyboardInterrupt
        return row(truth.rows, master, 1.0, void=void)

    monkeypatch.setattr(one_analysis, "analysed", analysed)
    arguments = ["--rows", "260_000", "--out", str(out), "--patience", "0", *more]
    monkeypatch.setattr(sys, "argv", ["micro", "analysis", *arguments])
    monkeypatch.setattr(program, "interrupt_on_terminate", lambda: None)
    return program.main(), calls


def test_it_goes_on_where_it_was_interrupted_and_leaves_no_trace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, calls = played(monkeypatch, tmp_path)
    assert (code, calls) == (1, [(10, "local[2]"), (260, "local[2]"), (10, "local[1]")])
    assert "the same command goes on" in capsys.readouterr().out
    code, calls = played(monkeypatch, tmp_path)
    assert (code, calls) == (0, [(10, "local[1]"), (260, "local[1]")])
    told = capsys.readouterr().out
    assert "at most 0.4 minutes" in told
    assert "local[1] / local[2] = 1.00" in told
    assert {path.name for path in tmp_path.iterdir()} == {"rows.jsonl", "rows.json", "table.md"}


def test_a_void_row_is_taken_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    options = ("--masters", "local[2]", "--keep")
    code, calls = played(monkeypatch, tmp_path, *options, void="it failed")
    assert (code, len(calls)) == (1, 2)
    code, calls = played(monkeypatch, tmp_path, *options)
    assert (code, len(calls)) == (0, 2)
    assert (tmp_path / "rows-260000" / "truth.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--rows", "1"],
        ["--rows", "many"],
        ["--masters", "spark://x:1"],
        ["--masters", ","],
        ["--masters", "local[0]"],
    ],
)
def test_a_wrong_option_is_refused(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["micro", "analysis", *arguments])
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == 2
    assert arguments[0] in capsys.readouterr().err
