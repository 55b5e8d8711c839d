"""The line of a trace that is followed, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from bench.analysis.follow import Follower
from bench.analysis.read import TraceError
from emulator.io.trace_file import TraceFile
from emulator.trace import rows

NO_SPARK = cast("Any", None)


def test_it_says_what_came_what_waited_and_what_could_not_be_read(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    for process, acked in (("c", 7), ("d", 3)):
        file = TraceFile(trace, "r", process)
        for number, error in ((1, 0), (2, 41)):
            file.append(rows.RequestRow(number, "A", 0, None, 1, 9, 1, error_code=error))
        file.append(rows.RequestRow(3, "A", 0, None, 1, 9, None, error_code=5, intended_ns=1))
        file.append(rows.BlockRow(0, 2_000_000, "lag_records", "A"))
        for stage, last in (
            (rows.PipelineStage.COMMITTED, 9),
            (rows.PipelineStage.ZK_ACKED, acked),
        ):
            file.append(rows.RangeRow(str(stage), 0, last, 1))
        file.close()
    for name in ("x", "y"):
        (trace / "stalls" / "run_id=r" / f"{name}.parquet").write_bytes(b"")
    line = str(Follower(NO_SPARK, str(trace), str(tmp_path / "out")).look())
    said, *_, unread = line.split("; ")
    assert said == "14 rows of 2 processes: 4 requests, 2 with an error"
    assert "; 2 operations waited for ZooKeeper, 4 ms summed; 6 records behind; " in line
    assert unread.startswith("stalls/run_id=r/x.parquet cannot be read: ")
    assert unread.endswith(" and 1 more")


def test_a_folder_that_holds_another_trace_is_refused(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    Follower(NO_SPARK, str(tmp_path / "a"), out)
    Follower(NO_SPARK, str(tmp_path / "a"), out)
    with pytest.raises(TraceError, match=r"holds what was read of .*/a: give another --out"):
        Follower(NO_SPARK, str(tmp_path / "b"), out)
