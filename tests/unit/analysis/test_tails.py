"""Streams of a trace as the analysis reads them, on its own."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.analysis.tails import Tails, whole_blocks
from emulator.io.trace_file import TraceFile, TraceLimits
from emulator.servers.waiting import wait_for
from emulator.trace import rows


def test_the_whole_blocks_of_a_stream_are_read_wherever_it_is_cut(tmp_path: Path) -> None:
    trace = TraceFile(tmp_path / "a trace", "r 1", "c", limits=TraceLimits(block_rows=3))
    for at in range(9):
        trace.append(rows.StallRow(at, at))
    out = tmp_path / "out"

    def copied() -> list[int]:
        Tails(f"file://{tmp_path}/a%20trace", out)
        files = list((out / "stalls" / "run_id=r 1").glob("*.parquet"))
        return pq.read_table(files[0], partitioning=None)["begin_ns"].to_pylist() if files else []

    wait_for("the writer", lambda: copied() == list(range(9)))
    [stream] = (tmp_path / "a trace").rglob("stalls/*/_*.arrows")
    whole = stream.read_bytes()
    trace.close()
    found = set()
    for size in {*range(0, len(whole), 5), len(whole)}:
        stream.write_bytes(whole[:size])
        table = whole_blocks(stream)
        begins = [] if table is None else table["begin_ns"].to_pylist()
        assert begins == list(range(len(begins)))
        found.add(len(begins))
    assert found == {0, 3, 6, 9}
    stream.write_bytes(whole + b"no block" * 99)
    assert copied() == list(range(9))
    stream.write_bytes(b"no stream" * 99)
    assert copied() == []


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("trace")
    trace = TraceFile(folder, "r", "c", limits=TraceLimits(block_rows=3))
    for at in range(9):
        chain = rows.MultiOperation("chain", at, 400)
        trace.append(rows.MultiRow(at, at, 3, 400, 3, 5, "ok", (chain,) * at))

    def found() -> list[bytes]:
        streams = list(folder.rglob("multis/*/_*.arrows"))
        whole = [path for path in streams if len(whole_blocks(path) or ()) == 9]
        return [path.read_bytes() for path in whole]

    wait_for("the writer", found)
    [content] = found()
    trace.close()
    return content


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_bit_that_is_flipped_takes_its_block_and_the_next_ones_and_changes_nothing(
    stream: bytes, tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / "x.arrows"
    path.write_bytes(stream)
    good = whole_blocks(path).to_pylist()
    bits = data.draw(st.sets(st.integers(0, len(stream) * 8 - 1), min_size=1, max_size=4))
    damaged = bytearray(stream)
    for bit in bits:
        damaged[bit // 8] ^= 1 << bit % 8
    path.write_bytes(stream[: min(bits) // 8])
    before = whole_blocks(path)
    path.write_bytes(damaged)
    found = whole_blocks(path)
    read = [] if found is None else found.to_pylist()
    assert read == good[: len(read)]
    assert len(read) >= (0 if before is None else before.num_rows)


def test_other_places_have_no_streams_here(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    Tails("s3://bucket/trace", tmp_path / "out")
    assert not (tmp_path / "out").exists()
