"""One analysis of one trace on one master, in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from bench.analysis.synthetic import Truth, generate
from bench.micro.process_tree import Watched, bytes_below
from emulator.servers.machine import description, machine_cpu_s

BYTES_A_ROW: Final = 60
"""Upper bound of what the trace, the results and Spark's temporary files take on the disk."""
_CLI: Final = ("-c", "from emulator.cli import main; main()")
_END_S: Final = 30.0
_NEAR: Final = 1e-6
_MIB: Final = 2**20


class NoRoomError(Exception):
    """The disk has too little room; the text says how much is needed."""


def trace(folder: Path, rows: int) -> Truth:
    """Write a trace of so many rows, unless it is there; ``truth.json`` beside it is the last file.

    Raises:
        NoRoomError: the disk has too little room for it and its analysis.
    """
    truth = folder / "truth.json"
    if truth.exists():
        return Truth(**json.loads(truth.read_text()))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    free, needed = shutil.disk_usage(folder).free, rows * BYTES_A_ROW
    if free < needed:
        raise NoRoomError(f"{rows:,} rows need {needed / 1e9:.1f} GB; {free / 1e9:.1f} GB are free")
    made = generate(folder / "trace", rows)
    truth.write_text(json.dumps(asdict(made)))
    return made


def analysed(folder: Path, truth: Truth, master: str) -> dict[str, Any]:
    """Run ``kraft-bridge analyze`` over the trace of a folder, and return the row of it.

    Times are s, sizes MiB. ``void``: why it does not count; empty if what was found is the truth.
    """
    out, spill = folder / "out", folder / "out" / "spark"
    shutil.rmtree(out, ignore_errors=True)
    spill.mkdir(parents=True)
    command = [sys.executable, *_CLI, "analyze", str(folder / "trace"), "--master", master]
    environment = {**os.environ, "SPARK_LOCAL_DIRS": str(spill)}
    busy_s, begin_s = machine_cpu_s(), time.monotonic()
    used_before_s = sum(os.times()[:2])
    with (
        (out / "said.txt").open("w") as log,
        subprocess.Popen(
            [*command, "--out", str(out)], stdout=log, stderr=subprocess.STDOUT, env=environment
        ) as program,
    ):
        try:
            with Watched(program.pid, out) as watched:
                _, status, used = os.wait4(program.pid, 0)
                program.returncode = os.waitstatus_to_exitcode(status)
        finally:
            _end(program)
    wall_s = time.monotonic() - begin_s
    cpu_s = used.ru_utime + used.ru_stime
    own_s = sum(os.times()[:2]) - used_before_s
    last = (out / "said.txt").read_text(errors="replace").strip().splitlines()[-1:]
    failed = f"exit code {program.returncode}: {' '.join(last)}" if program.returncode else ""
    row = {
        "rows": truth.rows,
        "master": master,
        "void": failed or wrong(out / "tables", truth),
        "wall_s": round(wall_s, 1),
        "cpu_s": round(cpu_s, 1),
        "memory_mib": round(watched.memory.total / _MIB),
        "java_mib": round(watched.memory.java / _MIB),
        "trace_mib": round(bytes_below(folder / "trace") / _MIB),
        "disk_mib": round(watched.disk / _MIB),
        "others_cores": round(max(0.0, machine_cpu_s() - busy_s - cpu_s - own_s) / wall_s, 2),
        "began": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() - wall_s)),
        "machine": description(),
        "pyspark": metadata.version("pyspark"),
    }
    shutil.rmtree(spill, ignore_errors=True)
    return row


def _end(program: subprocess.Popen[bytes]) -> None:
    """End the processes that still run after an interrupt."""
    if program.returncode is not None:
        return
    program.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        program.wait(_END_S)
    if program.returncode is None:
        program.kill()
        program.wait()


def wrong(tables: Path, truth: Truth) -> str:
    """Results of an analysis that differ from the truth of the trace; empty if none does."""
    try:
        # Without a freeze there is no row of what it blocked.
        blocking, multis = _only(tables / "blocking"), _only(tables / "coalescing")
        latency = pq.read_table(tables / "latency").to_pylist()
        [felt] = [row for row in latency if row["seen"] == "client response"]
    except (OSError, ValueError, KeyError) as error:
        return f"its tables cannot be read: {error}"
    figures = (
        ("blocked operations", blocking.get("blocked_operations"), truth.blocked_operations),
        ("blocked ms, summed", blocking.get("total_ms"), truth.blocked_total_ms),
        ("blocked ms", blocking.get("union_ms"), truth.blocked_union_ms),
        ("multis", multis.get("multis"), truth.multis),
        ("records", multis.get("records"), truth.records),
        ("operations", felt["samples"], truth.operations),
        ("longest response ms", felt["max_ms"], truth.max_response_ms),
    )
    return "; ".join(
        f"{what}: {found}, not {true}"
        for what, found, true in figures
        if abs((found or 0) - true) > _NEAR * max(1.0, abs(true))
    )


def _only(table: Path) -> Mapping[str, Any]:
    """The only row of a table; empty if the table has none."""
    found: list[dict[str, Any]] = pq.read_table(table).to_pylist()
    if len(found) > 1:
        raise ValueError(f"{table.name} has {len(found)} rows")
    return found[0] if found else {}
