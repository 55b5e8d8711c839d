"""What the bench itself saw of a row, in the tables of the controllers' traces."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence

from bench.runs.row import BenchRow
from bench.runs.scenario import Planned
from bench.runs.store import Store
from emulator.io.trace_file import TraceFile
from emulator.trace.rows import SCHEMA_VERSION, Row, RunRow


def write(store: Store, planned: Planned, row: BenchRow, seen: Mapping[str, Sequence[Row]]) -> None:
    """Write a trace beside the controller's own.

    Every row leaves one, so that all tables are there for whoever reads the run.

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
