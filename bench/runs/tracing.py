"""What the bench itself saw of a row, in the tables of the controllers' traces."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence

import pyarrow.parquet as pq

from bench.runs.row import BenchRow
from bench.runs.scenario import Planned
from bench.runs.store import Store
from emulator.io.trace_file import TraceFile
from emulator.trace.metrics import TRACE_DELETED_BYTES, TRACE_MISSING_S
from emulator.trace.rows import RUN_ID_COLUMN, SCHEMA_VERSION, STREAM, Row, RunRow


def write(store: Store, planned: Planned, row: BenchRow, seen: Mapping[str, Sequence[Row]]) -> None:
    """Write a trace beside the controller's own.

    Every row leaves one, so that all tables exist when the run is analysed.

    Args:
        store: of the run.
        planned: the row.
        row: with the times of its load, if it has one.
        seen: process -> its rows.

    Raises:
        TraceFailedError: it cannot be written.
    """
    parameters = {
        "scenario": planned.scenario.name,
        "case": planned.case.name,
        "target": planned.target,
        "repeat": planned.repeat,
        "phase_begin_ns": row.begin_ns,
        "phase_end_ns": row.end_ns,
    }
    for process, rows in seen.items():
        file = TraceFile(store.trace, planned.run_id, process)
        file.append(
            RunRow(
                schema_version=SCHEMA_VERSION,
                monotonic_ns=time.monotonic_ns(),
                wall_ns=time.time_ns(),
                host=os.uname().nodename,
                product_version="bench",
                release=process,
                parameters=json.dumps(parameters),
            )
        )
        for each in rows:
            file.append(each)
        file.close()


def lacks(store: Store, run_id: str) -> str:
    """Why a row must not be compared: its trace is marked as incomplete; empty if it is not.

    Args:
        store: of the run.
        run_id: of the row, whose controllers have ended.
    """
    for stream in store.trace.glob(f"*/{RUN_ID_COLUMN}={run_id}/_*{STREAM}"):
        return f"the trace of {stream.name[1:].rsplit('-', 3)[0]} has no end"
    folder = store.trace / "gauges" / f"{RUN_ID_COLUMN}={run_id}"
    if not folder.is_dir():
        return ""
    marked = [("gauge", "in", [TRACE_MISSING_S.name, TRACE_DELETED_BYTES.name])]
    found = pq.read_table(folder, columns=["process", "value"], filters=marked, partitioning=None)
    if not found.num_rows:
        return ""
    return f"the trace of {found['process'][0]} lacks rows, not written or deleted"
