"""Damaged, foreign and hostile traces: one sentence, or a report that shows them as they are."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from bench.analysis.read import TraceError
from bench.report import analyze
from emulator.io.trace_file import TraceFile
from emulator.trace import rows
from tests.spark.sweep_runs import Made, write
from tests.spark.write_behind_model import WriteBehindModel

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.xdist_group("spark")]

MARKUP = '<script>alert("x")</script><img src=x onerror=alert(1)>&\'$x$'
START = "from emulator.cli import main; main()"


@pytest.fixture
def analysed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., analyze.Analysis]:
    monkeypatch.setattr(analyze, "session", lambda *_, **__: spark)
    monkeypatch.setattr(analyze, "end", lambda _: None)

    def run(*traces: Path) -> analyze.Analysis:
        return analyze.analyze([str(one) for one in traces], tmp_path / "out")

    return run


def trace(
    folder: Path, *more: rows.Row, run_id: str = "r", process: str = "c", parameters: str = "{}"
) -> Path:
    """A good trace of a fifth of a second, and ``more``."""
    file = TraceFile(folder, run_id, process)
    for row in WriteBehindModel(seconds=0.2, freeze_ms=(50.0, 100.0)).run():
        if not isinstance(row, rows.RunRow):
            file.append(row)
    file.append(rows.RunRow(rows.SCHEMA_VERSION, 0, 10**18, "h", "0", "3.9", parameters))
    for row in more:
        file.append(row)
    file.close()
    return folder


def request(**change: Any) -> rows.RequestRow:
    plain = {"received_ns": 10**9, "answered_ns": 10**9 + 5, "error_code": 0}
    return rows.RequestRow(900, "Metadata", 1, "me", 900, **(plain | change))


def replaced(folder: Path, table: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Rewrite a file of a table that has rows."""
    for path in (folder / table).rglob("*.parquet"):
        found = pq.ParquetFile(path).read()
        if found.num_rows:
            pq.write_table(change(found), path)


def test_a_trace_of_before_is_analysed_and_says_what_it_does_not_know(
    tmp_path: Path, analysed: Callable[..., analyze.Analysis]
) -> None:
    """Without the columns, and without the gauges, that say how full some resources were."""
    ours = request(forwarded_by="1", begun_ns=1, first_sent_ns=2)
    folder = trace(tmp_path / "trace", ours)
    replaced(
        folder,
        "requests",
        lambda found: found.drop_columns(["begun_ns", "first_sent_ns", "forwarded_by"]),
    )
    first, *_ = analysed(folder).findings
    assert first.about == "what limited this run"
    assert first.says.endswith(
        "Not known: how full the machine's cores, the client, the event loop, the forwarding "
        "channel, the client's connections were"
    )


def as_text(found: pa.Table) -> pa.Table:
    at = found.column_names.index("answered_ns")
    return found.set_column(at, "answered_ns", found["answered_ns"].cast(pa.string()))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def one_of(folder: Path, table: str = "requests") -> Path:
    return max((folder / table).rglob("*.parquet"), key=lambda path: path.stat().st_size)


def ends(analysed: Callable[..., analyze.Analysis], folder: Path) -> str | None:
    """What is said of a trace; None if a report is made."""
    try:
        analysed(folder)
    except TraceError as error:
        return str(error)
    return None


DAMAGES: dict[str, Callable[[Path], object]] = {
    "half a file": lambda folder: cut(one_of(folder)),
    "an empty file": lambda folder: one_of(folder).write_bytes(b""),
    "a text": lambda folder: one_of(folder).write_text("no Parquet, " * 99),
    "half of runs": lambda folder: cut(one_of(folder, "runs")),
    "a column of texts": lambda folder: replaced(folder, "requests", as_text),
    "a folder for a file": lambda folder: (
        one_of(folder).unlink(),
        (folder / "requests" / "run_id=r" / "x.parquet" / "y").mkdir(parents=True),
        (folder / "requests" / "run_id=r" / "x.parquet" / "y" / "z.parquet").write_bytes(b"?"),
    ),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_a_damaged_trace_is_one_sentence(
    analysed: Callable[..., analyze.Analysis], tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    folder = trace(tmp_path / "trace")
    damage(folder)
    with pytest.raises(TraceError) as caught:
        analysed(folder)
    said = str(caught.value)
    assert said
    assert "\n" not in said
    assert "Traceback" not in said


def test_a_column_that_is_missing_in_one_file_ends_in_one_sentence_or_a_report(
    analysed: Callable[..., analyze.Analysis], tmp_path: Path
) -> None:
    """One job over three runs, each without another column."""
    folder = tmp_path / "trace"
    for missing in ("answered_ns", "api", "error_code"):
        trace(folder, run_id=missing)
        for path in (folder / "requests" / f"run_id={missing}").glob("*.parquet"):
            found = pq.ParquetFile(path).read()
            pq.write_table(found.drop_columns([missing]), path)
    said = ends(analysed, folder)
    assert said is None or "\n" not in said


@pytest.mark.parametrize(
    "row",
    [
        request(answered_ns=10**9 - 1),
        request(answered_ns=2**63 - 1, received_ns=-(2**63)),
        rows.BlockRow(5 * 10**9, 10**9, "lag_records", "CreateTopics"),
        rows.BlockRow(0, 2**62, "lag_records", "CreateTopics"),
        rows.StallRow(0, 2**62),
        rows.StallRow(2**62, 0),
    ],
    ids=["backwards", "all of 64 bits", "wait backwards", "endless wait", "endless", "back"],
)
def test_times_that_cannot_be_are_refused_by_name(
    analysed: Callable[..., analyze.Analysis], tmp_path: Path, row: rows.Row
) -> None:
    with pytest.raises(TraceError, match=r"run r, c: something in .*its clock went backwards"):
        analysed(trace(tmp_path / "trace", row))


def test_a_trace_without_rows_is_said_to_have_none(
    analysed: Callable[..., analyze.Analysis], tmp_path: Path
) -> None:
    TraceFile(tmp_path / "trace", "r", "c").close()
    with pytest.raises(TraceError, match="no row"):
        analysed(tmp_path / "trace")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(TraceError, match="nothing"):
        analysed(tmp_path / "nothing")


def test_names_and_parameters_are_shown_as_they_are(
    analysed: Callable[..., analyze.Analysis], tmp_path: Path
) -> None:
    names = (request(), rows.GaugeRow(5, MARKUP, math.nan))
    hostile = rows.RequestRow(901, MARKUP, 1, MARKUP, 901, 10**9 + 5, 10**9, error_code=0)
    folder = trace(tmp_path / "trace", *names, hostile, process="<b>c", parameters="[")
    html = analysed(folder).html.read_text(encoding="utf-8")
    for forbidden in ("<script>alert", "<img", "<b>c"):
        assert forbidden not in html
    assert "&lt;script&gt;alert(" in html


def test_any_parameters_are_shown(
    analysed: Callable[..., analyze.Analysis], tmp_path: Path
) -> None:
    folder = tmp_path / "trace"
    for number, parameters in enumerate(["", "[1]", "{", "[" * 10_000, '{"a": "<i>"}']):
        far = rows.RunRow(rows.SCHEMA_VERSION, 0, 2**62, "h", "0", "3.9", parameters)
        trace(folder, far, process=f"c{number}")
    found = analysed(folder)
    assert "<i>" not in found.html.read_text(encoding="utf-8")
    said = {one.about: one for one in found.findings}
    for number in range(5):
        assert said[f"starts of c{number}"].warning
        assert said[f"starts of c{number}"].says.startswith("2 in run r")


def bench_run(folder: Path, **change: Any) -> Path:
    """Two rows of a bench, changed."""
    write(folder, [Made(20.0), Made(40.0)])
    found = pq.read_table(folder / "rows.parquet").to_pylist()
    pq.write_table(pa.Table.from_pylist([row | change for row in found]), folder / "rows.parquet")
    return folder


IMPOSSIBLE: list[dict[str, Any]] = [
    {"rate_per_s": math.nan},
    {"rate_per_s": math.inf},
    {"rate_per_s": 1e300, "latency_ms": math.nan, "others_cores": -math.inf},
    {"intended": 2**62},
    {"begin_ns": None, "end_ns": None, "intended": None},
    {"machine": "<script>", "versions": "[", "command": "\x00"},
    {"target": None, "scenario": None, "void": None, "kind": "copy"},
]


def test_rows_of_a_bench_with_impossible_numbers_make_a_report(
    analysed: Callable[..., analyze.Analysis], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    write(folder, [Made(20.0 + number) for number in range(len(IMPOSSIBLE))])
    made = pq.read_table(folder / "rows.parquet").to_pylist()
    changed = [row | change for row, change in zip(made, IMPOSSIBLE, strict=True)]
    columns = dict.fromkeys(name for row in changed for name in row)
    given = [{name: row.get(name) for name in columns} for row in changed]
    pq.write_table(pa.Table.from_pylist(given), folder / "rows.parquet")
    found = analysed(folder)
    html = found.html.read_text(encoding="utf-8")
    assert html.count("<script>") == 1, "its own"
    assert "nan" not in found.findings[0].says
    for row in made:
        assert row["run_id"] in html


@pytest.mark.parametrize("change", [{"begin_ns": 2**63 - 5}, {"warm_up_s": 1e14}])
def test_a_window_beyond_all_times_is_one_sentence_or_a_report(
    analysed: Callable[..., analyze.Analysis], tmp_path: Path, change: dict[str, Any]
) -> None:
    said = ends(analysed, bench_run(tmp_path / "run", **change))
    assert said is None or "\n" not in said


def test_a_folder_given_twice_and_a_run_named_twice_are_refused(
    analysed: Callable[..., analyze.Analysis], tmp_path: Path
) -> None:
    folder = bench_run(tmp_path / "run")
    with pytest.raises(TraceError, match="given twice"):
        analysed(folder, Path(f"{folder}/"))
    found = pq.read_table(folder / "rows.parquet")
    pq.write_table(pa.concat_tables([found, found]), folder / "rows.parquet")
    with pytest.raises(TraceError, match="has 2 rows of the run"):
        analysed(folder)
    (folder / "rows.parquet").write_bytes(b"PAR1")
    with pytest.raises(TraceError):
        analysed(folder)


@pytest.mark.slow
def test_the_command_says_one_sentence_and_no_stack(tmp_path: Path) -> None:
    cut(one_of(trace(tmp_path / "trace")))
    done = subprocess.run(
        [sys.executable, "-c", START, "analyze", str(tmp_path / "trace"), "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if not line.startswith("WARNING: Using inc")]
    assert len(lines) == 1
    assert lines[0].startswith("kraft-bridge: ")
    assert "requests" in lines[0]
