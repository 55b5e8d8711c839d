"""The same code over Spark Connect: a client without a JVM behind it, a server of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from bench.analysis.job import results
from bench.analysis.read import read
from emulator.io.trace_file import TraceFile
from tests.spark.write_behind_model import WriteBehindModel

pytestmark = [
    pytest.mark.spark,
    pytest.mark.jvm,
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
]

_WRITTEN = ("lag_summary", "blocking", "latency")
_OVER_CONNECT = """
import sys
from bench.analysis.job import results
from bench.analysis.read import read
from bench.analysis.session import session
spark = session(remote="local[2]")
assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
tables = results(read(spark, sys.argv[1]))
assert all(table.columns for table in tables.values())
for name in sys.argv[3:]:
    tables[name].write.parquet(f"{sys.argv[2]}/{name}")
spark.stop()
"""


def test_the_job_gives_the_same_over_connect(spark: SparkSession, tmp_path: Path) -> None:
    trace = TraceFile(tmp_path / "trace", "r", "c")
    for row in WriteBehindModel(seconds=0.5, freeze_ms=(100.0, 200.0)).run():
        trace.append(row)
    trace.close()
    given, out = str(tmp_path / "trace"), str(tmp_path / "out")
    command = [sys.executable, "-c", _OVER_CONNECT, given, out, *_WRITTEN]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    here = results(read(spark, given))
    for name in _WRITTEN:
        assertDataFrameEqual(spark.read.parquet(f"{out}/{name}"), here[name])
