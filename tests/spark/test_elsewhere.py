"""The same job elsewhere: over Spark Connect, and on a standalone master with two workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from bench.analysis.job import results
from bench.analysis.read import read
from bench.report.analyze import report
from emulator.io.trace_file import TraceFile
from emulator.servers.spark_cluster import SparkCluster
from emulator.servers.waiting import wait_for
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
from bench.analysis.session import end, session
spark = session(remote="local[2]")
assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
tables = results(read(spark, sys.argv[1]))
assert all(table.columns for table in tables.values())
for name in sys.argv[3:]:
    tables[name].write.parquet(f"{sys.argv[2]}/{name}")
end(spark)
"""
_ANALYZE = ("-c", "from emulator.cli import main; main()", "analyze")
_SETTINGS = (
    *("--conf", "spark.sql.shuffle.partitions=4"),
    *("--conf", "spark.sql.codegen.wholeStage=false"),
    *("--conf", "spark.sql.codegen.factoryMode=NO_CODEGEN"),
)


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """A run of half a second with a freeze; the folder and the run have blanks."""
    file = TraceFile(tmp_path / "the trace", "run 1", "c")
    for row in WriteBehindModel(seconds=0.5, freeze_ms=(100.0, 200.0)).run():
        file.append(row)
    file.close()
    return str(tmp_path / "the trace")


def test_the_job_gives_the_same_over_connect(
    spark: SparkSession, trace: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", _OVER_CONNECT, trace, str(out), *_WRITTEN]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    here = results(read(spark, trace))
    for name in _WRITTEN:
        assertDataFrameEqual(spark.read.parquet(f"{out}/{name}"), here[name])


def _rows(table: Path) -> list[str]:
    """Rows in an order of their own; sums differ in their last digits by the order of parts."""
    return sorted(
        str({key: f"{value:.9g}" if isinstance(value, float) else value for key, value in row})
        for row in (each.items() for each in pq.read_table(table, partitioning=None).to_pylist())
    )


def test_one_of_two_workers_is_killed_and_folders_that_they_do_not_share_are_refused(
    spark: SparkSession, trace: str, tmp_path: Path
) -> None:
    here = Path(report(spark, trace, tmp_path / "here").parquet)
    there = tmp_path / "the report"
    with SparkCluster(tmp_path / "cluster") as cluster:
        options = ("--master", cluster.url, *_SETTINGS)
        given = {**os.environ, **cluster.environment()}
        # A path that names another folder in each process, as if it were on another machine.
        command = [sys.executable, *_ANALYZE, trace, "--out", "/proc/self/cwd/report", *options]
        refused = subprocess.run(
            command, capture_output=True, text=True, check=False, env=given, cwd=tmp_path
        )
        assert refused.returncode == 1, refused.stderr
        assert "Traceback" not in refused.stderr
        said = refused.stderr.strip().splitlines()[-1]
        assert re.search(r"of \d+ rows that workers wrote to .*, 0 are there: .* --tables", said)

        command = [sys.executable, *_ANALYZE, trace, "--out", str(there), *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=given) as analysis:
            first = there / "tables" / "files" / "_SUCCESS"
            wait_for("first table", lambda: first.exists() or analysis.poll() is not None)
            assert analysis.poll() is None
            cluster.kill_worker(0)
            done = {path.name for path in (there / "tables").iterdir()}
            printed, _ = analysis.communicate()
        assert analysis.returncode == 0, printed
    tables = {path.name for path in here.iterdir()}
    assert len(tables - done) > 10
    for name in sorted(tables):
        assert _rows(there / "tables" / name) == _rows(here / name), name
