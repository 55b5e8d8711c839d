"""``analyze --follow`` of hours of trace files that come, and are deleted, within minutes.

A synthetic trace is written 48 times as fast as its own time goes, and of its files only those of
the last minutes stay, as with a limit. What is followed must be all of it: the report at the end is
compared with the truth of the trace. Short form: ``--hours 0.5 --minutes 1``. Rows are kept; a row
that was taken is not taken again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser, Namespace
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow.parquet as pq

from bench.analysis.synthetic import FREEZE_EVERY_S, Truth, Writer, written
from bench.micro import table
from bench.micro.kept import KeptRows
from bench.micro.one_analysis import wrong
from bench.micro.process_tree import memory_of
from bench.runs.code import digest_of
from emulator.servers.machine import Shared, description, wait_quiet

FIRST_LINE_S: Final = 30.0
FLAT: Final = 1.5
"""What the last third of the looks may take, by what the second one took."""
LOOK_S: Final = 0.5
"""Looks that take less are not told from each other."""
SHOWN: Final = (
    *("hours", "minutes", "rows", "files", "deleted", "looks", "first_line_s"),
    *("look_s", "python_mib", "java_mib", "report_s", "others_cores", "void"),
)
_ROWS_AN_OPERATION: Final = 7
_IDLE_S: Final = 15.0
_MIB: Final = 2**20
_CODE: Final = ("bench/analysis", "bench/report", "bench/micro", "emulator/trace")
_CLI: Final = ("-c", "from emulator.cli import main; main()")
_LINE: Final = re.compile(r"^([\d,]+) rows? of ")


def options(parser: ArgumentParser) -> None:
    """What may be asked for."""
    parser.add_argument("--hours", type=float, default=8.0, help="of the trace's own time")
    parser.add_argument("--minutes", type=float, default=10.0, help="in which its files come")
    parser.add_argument("--rate", type=float, default=20.0, help="changes a second of its own time")
    parser.add_argument("--stay", type=float, default=30.0, help="minutes of its time that stay")
    parser.add_argument("--every", type=float, default=2.0, help="s between two looks")


def rows(asked: Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """One row, unless it is there."""
    kept = KeptRows(folder / "rows.jsonl", digest_of(*_CODE))
    case = {name: getattr(asked, name) for name in ("hours", "minutes", "rate", "stay", "every")}
    row = kept.find(**case, void="")
    if row is None:
        wait_quiet(asked.patience)
        row = case | _followed(asked, folder / "followed")
        kept.add(row)
        shutil.rmtree(folder / "followed", ignore_errors=True)
    yield row


def summary(rows: Sequence[table.Row]) -> tuple[str, bool]:
    """Every row, a sentence of each goal, and whether all hold."""
    text = table.plain([{name: row[name] for name in SHOWN} for row in rows])
    told = [judged for row in rows for judged in goals(row)]
    lines = [f"{'holds' if held else '**missed**'}: {what}" for what, held in told]
    return "\n".join([text, "", *lines]), all(held for _, held in told)


def goals(row: table.Row) -> list[tuple[str, bool]]:
    """What is asked for, with the figures found, and whether it holds.

    Args:
        row: times and sizes are lists of three: medians of the first, second and last third of the
            looks.
    """
    _, middle_s, last_s = row["look_s"]
    _, middle_mib, last_mib = row["python_mib"]
    return [
        (f"the report is that of the whole trace {row['void']}".rstrip(), not row["void"]),
        (f"files were deleted while it was followed: {row['deleted']:,}", row["deleted"] > 0),
        (
            f"first line after {row['first_line_s']} s (goal: {FIRST_LINE_S:g})",
            row["first_line_s"] <= FIRST_LINE_S,
        ),
        (
            f"a look takes {last_s} s in the last third, {middle_s} s in the second",
            last_s <= max(LOOK_S, FLAT * middle_s),
        ),
        (
            f"memory of Python: {last_mib} MiB, {middle_mib} MiB in the second third",
            last_mib <= FLAT * middle_mib,
        ),
    ]


class Replayed(Writer):
    """Writes a trace in which files are named as `emulator.io.trace_file` names them, and go."""

    def __init__(self, out: Path, stay: int) -> None:
        """``stay``: how many pieces of time stay."""
        super().__init__(out, "replayed")
        self.files = self.deleted = 0
        self._stay = stay
        self._first: dict[tuple[type, str], int] = {}
        self._pieces: deque[list[Path]] = deque([[]])

    def name(self, kind: type, process: str, piece: int, count: int) -> str:  # noqa: ARG002 - as in what it overrides
        """With the number of its first row."""
        first = self._first.get((kind, process), 0)
        self._first[kind, process] = first + count
        return f"{process}-7-1700000000000000000-{first:012d}.parquet"

    def write(self, kind: type, process: str, columns: Mapping[str, Any], piece: int) -> Path:
        """As `Writer`, and note the file."""
        path = super().write(kind, process, columns, piece)
        self.files += 1
        self._pieces[-1].append(path)
        return path

    def piece_is_over(self) -> None:
        """Delete the files of the oldest piece, if more are there than stay."""
        self._pieces.append([])
        while len(self._pieces) > self._stay:
            for path in self._pieces.popleft():
                if path.parent.parent.name != "runs":  # it stays as long as anything of its life
                    path.unlink(missing_ok=True)
                    self.deleted += 1


@dataclass(slots=True)
class _Said:
    """What the program printed, and when, in seconds since its start; its memory then."""

    at_s: list[float] = field(default_factory=list)
    python_mib: list[int] = field(default_factory=list)
    java_mib: list[int] = field(default_factory=list)
    last: str = ""

    def take(self, program: subprocess.Popen[str], begin_s: float) -> None:
        """Read to the end."""
        assert program.stderr is not None
        for line in program.stderr:
            if _LINE.match(line):
                memory = memory_of(program.pid)
                self.at_s.append(time.monotonic() - begin_s)
                self.python_mib.append(round(memory.others / _MIB))
                self.java_mib.append(round(memory.java / _MIB))
            elif line.strip():
                self.last = line.strip()


def thirds(values: Sequence[float]) -> list[float]:
    """The medians of the first, second and last third; 0 of none.

    >>> thirds([1, 1, 2, 3, 9, 9])
    [1.0, 2.5, 9.0]
    """
    size = len(values) / 3
    parts = [values[round(n * size) : round((n + 1) * size)] for n in range(3)]
    return [round(float(median(part)), 2) if part else 0.0 for part in parts]


def _followed(asked: Namespace, folder: Path) -> dict[str, Any]:
    shutil.rmtree(folder, ignore_errors=True)
    trace, out, said = folder / "the trace", folder / "out", _Said()
    (trace / "runs").mkdir(parents=True)
    out.mkdir()
    command = [sys.executable, *_CLI, "analyze", str(trace), "--follow", "--out", str(out)]
    command += ["--every", f"{asked.every:g}", "--until-idle", f"{_IDLE_S:g}"]
    began, begin_s = time.time(), time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ
    ) as program:
        shared = Shared()
        reader = threading.Thread(target=said.take, args=(program, begin_s), daemon=True)
        reader.start()
        try:
            writer, truth = _replay(asked, trace)
            others = shared.read().others
            written_s = time.monotonic() - begin_s
            code = program.wait()
        finally:
            with contextlib.suppress(OSError):
                program.kill()
            reader.join()
    gaps = [a - b - asked.every for b, a in zip(said.at_s, said.at_s[1:], strict=False)]
    failed = f"exit code {code}: {said.last}" if code else ""
    return {
        "void": failed or wrong(out / "tables", truth) or _missing(out / "tables"),
        "rows": truth.rows,
        "files": writer.files,
        "deleted": writer.deleted,
        "looks": len(said.at_s),
        "first_line_s": round(said.at_s[0], 1) if said.at_s else None,
        "look_s": thirds([max(0.0, gap) for gap in gaps]),
        "longest_look_s": round(max(gaps, default=0.0), 2),
        "python_mib": thirds(said.python_mib),
        "java_mib": thirds(said.java_mib),
        "report_s": round(time.monotonic() - begin_s - written_s - _IDLE_S, 1),
        "others_cores": round(others, 2),
        "began": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(began)),
        "machine": description(),
        "pyspark": metadata.version("pyspark"),
    }


def _replay(asked: Namespace, trace: Path) -> tuple[Replayed, Truth]:
    """Write the trace, each piece of time when it is due."""
    writer = Replayed(trace, max(2, round(asked.stay * 60 / FREEZE_EVERY_S)))
    piece_s = FREEZE_EVERY_S * asked.minutes / (60 * asked.hours)
    begin_s = time.monotonic()

    def wait(piece: int) -> None:
        writer.piece_is_over()
        time.sleep(max(0.0, begin_s + (piece + 1) * piece_s - time.monotonic()))

    wanted = int(asked.hours * 3600 * asked.rate * _ROWS_AN_OPERATION)
    return writer, written(writer, wanted, asked.rate, after=wait)


def _missing(tables: Path) -> str:
    """Gaps that the report names; the trace has no end, and that is none."""
    found = pq.read_table(tables / "missing").to_pylist()
    gaps = [row for row in found if row["why"] != "no end"]
    return f"gaps: {json.dumps(gaps[0])} and {len(gaps) - 1} more" if gaps else ""
