"""Streams of a trace: what its files do not have yet, or never will, is read too, once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.analysis.read import read
from bench.analysis.schema import struct_type
from bench.analysis.tails import Tails
from emulator.io.trace_file import TraceFile
from emulator.servers.waiting import wait_for
from emulator.trace import rows

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.xdist_group("spark")]


@pytest.mark.parametrize("small", [False, True])
def test_a_trace_that_is_written_is_read_once(
    spark: SparkSession, tmp_path: Path, small: bool
) -> None:
    """Also what is finished between the look at the streams and the look at the files."""
    trace = TraceFile(tmp_path / "trace", "r", "c")
    for at in range(5):
        trace.append(rows.StallRow(at, at))
    trace.flush()
    streams = tmp_path / "streams"
    table = trace._writer._tables[rows.StallRow]
    wait_for("the writer", lambda: table._stream_rows == 5)

    def stalls() -> list[int]:
        tables = read(spark, str(tmp_path / "trace"), streams, small=small)
        return sorted(row.begin_ns for row in tables["stalls"].collect())

    assert stalls() == list(range(5))
    tails = Tails(str(tmp_path / "trace"), streams)
    trace.append(rows.StallRow(5, 5))
    trace.close()
    schema = struct_type(rows.StallRow)
    files = spark.read.schema(schema).parquet(str(tmp_path / "trace" / "stalls"))
    assert files.count() == 6
    assert tails.read(spark, "stalls", files.inputFiles(), schema) is None
    assert stalls() == list(range(6))
