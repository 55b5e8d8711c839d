"""The same job elsewhere: over Spark Connect, and on a standalone master with two workers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from bench.analysis.job import results
from bench.analysis.read import read
from emulator.io.trace_file import TraceFile
from emulator.servers.spark_cluster import SparkCluster
from tests.spark.write_behind_model import WriteBehindModel

pytestmark = [
    pytest.mark.spark,
    pytest.mark.jvm,
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
]

_WRITTEN = ("lag_summary", "blocking", "latency")
_JOB = """
tables = results(read(spark, sys.argv[1]))
assert all(table.columns for table in tables.values())
for name in sys.argv[3:]:
    tables[name].write.parquet(f"{sys.argv[2]}/{name}")
end(spark)
"""
_IMPORTS = """
import os, sys
from bench.analysis.job import results
from bench.analysis.read import read
from bench.analysis.session import end, session
from emulator.servers.waiting import wait_for
"""
_OVER_CONNECT = f"""{_IMPORTS}
spark = session(remote="local[2]")
assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
{_JOB}
"""
_ON_A_MASTER = f"""{_IMPORTS}
spark = session(os.environ["CLUSTER"])
spark.conf.set("spark.sql.shuffle.partitions", "4")
memory = spark.sparkContext._jsc.sc().getExecutorMemoryStatus
wait_for("second executor", lambda: memory().size() == 3, 120)  # the driver is one
{_JOB}
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """A run of half a second with a freeze."""
    file = TraceFile(tmp_path / "trace", "r", "c")
    for row in WriteBehindModel(seconds=0.5, freeze_ms=(100.0, 200.0)).run():
        file.append(row)
    file.close()
    return str(tmp_path / "trace")


def _same(spark: SparkSession, trace: str, out: str, program: str, **more: str) -> None:
    """Run a program with the job in a process of its own, and compare what it wrote."""
    environment: Mapping[str, str] = {**os.environ, **more}
    command = [sys.executable, "-c", program, trace, out, *_WRITTEN]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 0, ran.stderr
    here = results(read(spark, trace))
    for name in _WRITTEN:
        assertDataFrameEqual(spark.read.parquet(f"{out}/{name}"), here[name])


def test_the_job_gives_the_same_over_connect(
    spark: SparkSession, trace: str, tmp_path: Path
) -> None:
    _same(spark, trace, str(tmp_path / "out"), _OVER_CONNECT)


def test_the_job_gives_the_same_on_a_master_with_two_workers(
    spark: SparkSession, trace: str, tmp_path: Path
) -> None:
    with SparkCluster(tmp_path / "cluster") as cluster:
        given = {**cluster.environment(), "CLUSTER": cluster.url}
        _same(spark, trace, str(tmp_path / "out"), _ON_A_MASTER, **given)
