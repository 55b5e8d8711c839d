"""What is read from the trace of a real node in virtual time is what it ran on."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.predict import model, trace
from bench.predict.model import OPERATION_S, Speed, Stall
from emulator.io.trace_file import TraceFile, run_row
from emulator.trace.rows import MultiRow, PipelineStage, RangeRow, Row, checksum
from tests.unit.commands.running import run
from tests.unit.predict.virtual import measured

SPEED = Speed(0.02, 0.0002)


def write(
    folder: Path,
    rows: list[Row],
    run_id: str = "7",
    bound: str = "150",
    process: str = "controller-3000",
) -> None:
    file = TraceFile(folder, run_id, process)
    file.append(run_row("3.9", {trace.BOUND_KEY: bound}))
    for one in rows:
        file.append(one)
    file.close()


def a_copy(records: int, read_s: float, written_s: float) -> list[Row]:
    """Rows of a controller from its claim until ZooKeeper holds that all is copied."""
    first_ns, last_ns = int(read_s * 1e9), int((read_s + written_s) * 1e9)
    half = records // 2
    return [
        MultiRow(0, 10**6, model.CHAIN_OPS, 500, 0, -1),
        RangeRow(PipelineStage.APPENDED, 13, 12 + half, first_ns),
        RangeRow(PipelineStage.APPENDED, 13 + half, 12 + records, first_ns + 1),
        MultiRow(last_ns, last_ns + 10**6, model.CHAIN_OPS, 500, 0, 12 + records),
    ]


def test_the_first_copy_is_between_the_claim_and_the_multi_that_covers_it(tmp_path: Path) -> None:
    write(tmp_path, a_copy(20_000, read_s=0.2, written_s=0.3))
    assert trace.copied(tmp_path, "7") == trace.Copied(20_000, 0.2, 0.3)
    write(tmp_path / "small", a_copy(900, read_s=0.2, written_s=0.3))
    assert trace.copied(tmp_path / "small", "7") is None
    data = msgspec.structs.replace(a_copy(9_000, 0.2, 0.3)[3], ops=50)
    write(tmp_path / "compared", [*a_copy(9_000, 0.2, 0.3)[:3], data])
    assert trace.copied(tmp_path / "compared", "7") is None, "a comparison writes what differs"


def test_a_trace_says_what_zookeeper_takes_and_its_replay_blocks_as_long(tmp_path: Path) -> None:
    rows: list[Row] = []
    stall = Stall(0.5, 1.5)
    found = measured(100, 150, SPEED, 2.6, stall, rows)
    write(tmp_path, rows)
    seen = trace.read(tmp_path)
    assert (seen.run_id, seen.process, seen.bound) == ("7", "controller-3000", 150)
    assert (len(seen.arrivals), seen.change) == (260, model.creation(1))
    assert seen.rate == pytest.approx(100, rel=0.01)
    assert seen.speed.request_s == pytest.approx(SPEED.request_s, rel=0.2)
    assert seen.speed.operation_s == pytest.approx(SPEED.operation_s, rel=0.2)
    assert seen.speed_known
    assert (len(seen.waits), seen.union_s) == (found.operations, pytest.approx(found.union_s))
    assert len(seen.stalls) == 1
    assert seen.stalls[0].seconds == pytest.approx(1.5, abs=0.05)
    again = model.replay(seen.arrivals, seen.bound, seen.speed, seen.stalls)
    assert again.union_s == pytest.approx(found.union_s, abs=0.06)
    assert again.operations == pytest.approx(found.operations, abs=6)
    # The same arrivals under another bound, as another run has it.
    other = measured(100, 100, SPEED, 2.6, stall)
    predicted = model.replay(seen.arrivals, 100, seen.speed, seen.stalls)
    assert predicted.union_s == pytest.approx(other.union_s, abs=0.06)
    assert other.union_s > found.union_s + 0.2


def test_a_trace_of_a_newer_schema_is_refused(tmp_path: Path) -> None:
    rows: list[Row] = []
    measured(20, 0, SPEED, 0.5, None, rows)
    write(tmp_path, [msgspec.structs.replace(run_row("3.9", {}), schema_version=9), *rows])
    with pytest.raises(trace.UnusableTraceError, match="controller-3000 wrote trace schema 9"):
        trace.read(tmp_path)


def test_of_requests_that_were_alike_the_slope_is_not_known(tmp_path: Path) -> None:
    rows: list[Row] = []
    measured(20, 0, SPEED, 0.5, None, rows)
    write(tmp_path, rows, bound="0")
    seen = trace.read(tmp_path)
    assert not seen.speed_known
    assert seen.speed.operation_s == OPERATION_S
    assert seen.bound == 0
    assert not seen.stalls


def test_what_a_killed_controller_left_in_streams_is_read(tmp_path: Path) -> None:
    rows: list[Row] = []
    measured(20, 0, SPEED, 0.5, None, rows)
    write(tmp_path, rows)
    whole = trace.read(tmp_path)
    for file in [*tmp_path.rglob("*.parquet")]:
        stream = file.with_name(f"_{file.stem}.arrows")
        table = pq.ParquetFile(file).read()
        with pa.OSFile(str(stream), "wb") as to, pa.ipc.new_stream(to, table.schema) as out:
            for batch in table.to_batches():
                out.write_batch(batch, custom_metadata=checksum(table.schema, batch))
    # Both are there for a moment, and count once.
    assert trace.read(tmp_path) == whole
    for file in [*tmp_path.rglob("*.parquet")]:
        file.unlink()
    assert trace.read(tmp_path) == whole


def test_what_is_no_trace_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(trace.UnusableTraceError, match="no trace of a controller is there"):
        trace.read(tmp_path)
    rows: list[Row] = []
    measured(20, 0, SPEED, 0.2, None, rows)
    write(tmp_path / "two", rows, "a")
    write(tmp_path / "two", rows, "b")
    with pytest.raises(trace.UnusableTraceError, match="give --run-id, one of: a, b"):
        trace.read(tmp_path / "two")
    with pytest.raises(trace.UnusableTraceError, match="no run c; there are: a, b"):
        trace.read(tmp_path / "two", "c")
    assert trace.read(tmp_path / "two", "b").run_id == "b"
    write(tmp_path / "empty", [])
    with pytest.raises(trace.UnusableTraceError, match="run 7 has no write to ZooKeeper"):
        trace.read(tmp_path / "empty")
    idle = [one for one in rows if type(one).__name__ != "RequestRow"]
    write(tmp_path / "idle", idle)
    with pytest.raises(trace.UnusableTraceError, match="controller-3000 of run 7 has no change"):
        trace.read(tmp_path / "idle")
    file = next((tmp_path / "idle/multis/run_id=7").glob("[!_.]*.parquet"))
    file.write_bytes(b"no parquet")
    with pytest.raises(trace.UnusableTraceError, match=r"controller-3000.*parquet: "):
        trace.read(tmp_path / "idle")
    pq.write_table(pa.table({"x": [1]}), file)
    with pytest.raises(trace.UnusableTraceError, match=r"parquet: it has no column first_offset"):
        trace.read(tmp_path / "idle")
    write(tmp_path / "json", rows)
    file = next((tmp_path / "json/runs/run_id=7").glob("*000.parquet"))
    table = pq.ParquetFile(file).read()
    at = table.column_names.index("parameters")
    pq.write_table(table.set_column(at, "parameters", pa.array(["{"])), file)
    with pytest.raises(trace.UnusableTraceError, match="the parameters of its run are no JSON"):
        trace.read(tmp_path / "json")
    write(tmp_path / "text", rows)
    file = next((tmp_path / "text/requests/run_id=7").glob("*000.parquet"))
    table = pq.ParquetFile(file).read()
    texts = pa.array([str(one) for one in table.column("received_ns").to_pylist()])
    at = table.column_names.index("received_ns")
    pq.write_table(table.set_column(at, "received_ns", texts), file)
    with pytest.raises(trace.UnusableTraceError, match="column received_ns is string, not int64"):
        trace.read(tmp_path / "text")


def test_gaps_and_controllers_that_are_left_out_are_said(tmp_path: Path) -> None:
    rows: list[Row] = []
    measured(20, 0, SPEED, 0.5, None, rows)
    write(tmp_path, rows)
    whole = trace.read(tmp_path)
    assert (whole.missing, whole.left_out) == (0, [])
    acked = [x for x in rows if isinstance(x, RangeRow) and x.stage == PipelineStage.ZK_ACKED]
    gone = acked[len(acked) // 2]
    few = [x for x in rows if isinstance(x, MultiRow | RangeRow)][:40]
    write(tmp_path / "gap", [one for one in rows if one is not gone])
    write(tmp_path / "gap", few, process="controller-3001")
    seen = trace.read(tmp_path / "gap")
    assert seen.missing == gone.last_offset - gone.first_offset + 1
    assert (seen.process, seen.left_out) == ("controller-3000", ["controller-3001"])
    out = run("predict", "--trace", tmp_path / "gap")[1]
    assert f"\nthe trace has gaps: {seen.missing} records in it have no time in ZooKeeper" in out
    assert "\nleft out, as they wrote less to ZooKeeper: controller-3001\n" in out
