"""What a controller's trace says of its changes and of ZooKeeper, for the model.

The trace is read by pyarrow alone: no Java is needed.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import statistics
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.predict.model import CHAIN_OPS, OPERATION_S, Arrival, Change, Speed, Stall
from emulator.trace.rows import (
    PROCESS_COLUMN,
    RUN_ID_COLUMN,
    SCHEMA_VERSION,
    STREAM,
    PipelineStage,
    parquet_of,
)

BOUND_KEY: Final = "kraftbridge.zk.write.behind.max.records"
BOUND: Final = 10_000
"""Of a controller that does not say another."""
_SPREAD: Final = 4.0
"""The slope is measured where requests differ that much in size, else it is the one above."""
_ROUNDS: Final = 30
_COPY: Final = 1_000
"""Records of a copy that is long beside what comes once."""
_STALL: Final = 10.0
_STALL_S: Final = 0.1
"""An answer is a stall if it took ten times what its size explains, and 0.1 s more than that."""
_COLUMNS: Final = {
    "requests": ("api", "received_ns", "answered_ns", "first_offset", "last_offset"),
    "ranges": ("stage", "first_offset", "last_offset", "time_ns"),
    "multis": ("sent_ns", "ops", "first_offset", "last_offset", "result"),
    "blocks": ("begin_ns", "end_ns"),
    "runs": ("parameters", "schema_version"),
}


_WHOLE: Final = ("_ns", "_offset", "ops")
"""Columns whose names end so are whole numbers."""


class UnusableTraceError(ValueError):
    """Nothing can be predicted from it; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a trace shows. Times begin at its first change.

    ``speed_known``: whether ``speed.operation_s`` was measured. ``stalls``: times in which
    ZooKeeper answered nothing. ``waits``: (begin, end) of the operations that waited.
    ``channel_s``: of a forwarded change, and from it to the next one; None: none was forwarded.
    """

    run_id: str
    process: str
    bound: int
    arrivals: Sequence[Arrival]
    change: Change
    speed: Speed
    speed_known: bool
    stalls: Sequence[Stall]
    units: int
    waits: Sequence[tuple[float, float]]
    channel_s: tuple[float, float] | None
    missing: int = 0
    """Records of which the trace does not say when ZooKeeper had them: it has gaps."""
    left_out: Sequence[str] = ()
    """Other controllers that wrote to ZooKeeper in this run, and less."""
    copied: Copied | None = None
    """Its first copy, if that is in the trace and large enough to say what a record takes."""

    @property
    def rate(self) -> float:
        """Changes a second, from the first to the last."""
        length_s = self.arrivals[-1].at_s - self.arrivals[0].at_s
        return (len(self.arrivals) - 1) / length_s if length_s else float(len(self.arrivals))

    @property
    def union_s(self) -> float:
        """Time in which at least one operation waited."""
        total, covered = 0.0, float("-inf")
        for begin, end in sorted(self.waits):
            total += max(0.0, end - max(begin, covered))
            covered = max(covered, end)
        return total


@dataclass(frozen=True, slots=True)
class Copied:
    """A first copy out of ZooKeeper, in seconds.

    ``read_s``: from the claim until its first records are appended. ``written_s``: from then until
    ZooKeeper is told that all are in the log.
    """

    records: int
    read_s: float
    written_s: float


@dataclass(frozen=True, slots=True)
class _Unit:
    """Changes that ZooKeeper got together: from when they could be sent until it held them."""

    begin_s: float
    end_s: float
    operations: int

    @property
    def took_s(self) -> float:
        return self.end_s - self.begin_s


def read(folder: Path, run_id: str | None = None) -> Seen:
    """Read the trace of the controller that wrote most to ZooKeeper.

    Args:
        folder: of the trace.
        run_id: which run; may be left out if there is one.

    Raises:
        UnusableTraceError: there is no such trace, or it holds no change that ZooKeeper got.
    """
    run_id = _run_of(folder, run_id)
    tables = {name: _table(folder, name, run_id, columns) for name, columns in _COLUMNS.items()}
    writers = Counter(row[PROCESS_COLUMN] for row in tables["multis"] if row["result"] == "ok")
    if not writers:
        raise UnusableTraceError(
            f"{folder}: run {run_id} has no write to ZooKeeper: "
            "give the folder of a controller in dual write, kraftbridge.trace.dir"
        )
    process, *others = (name for name, _ in writers.most_common())
    found = _seen(
        folder,
        run_id,
        process,
        {
            name: [row for row in rows if row[PROCESS_COLUMN] == process]
            for name, rows in tables.items()
        },
    )
    return dataclasses.replace(found, left_out=others)


def copied(folder: Path, run_id: str) -> Copied | None:
    """The first copy in a trace of one controller; None: it shows none of ``_COPY`` records.

    Raises:
        UnusableTraceError: a file of it cannot be read.
    """
    names = ("multis", "ranges")
    return _copied(*(_table(folder, name, run_id, _COLUMNS[name]) for name in names))


def waits(folder: Path, run_id: str, from_ns: int) -> list[tuple[float, float]]:
    """Begin and end, in seconds of the clock, of what waited from an instant on; of all processes.

    Raises:
        UnusableTraceError: a file of it cannot be read.
    """
    rows = _table(folder, "blocks", run_id, _COLUMNS["blocks"])
    return [
        (row["begin_ns"] / 1e9, row["end_ns"] / 1e9) for row in rows if row["begin_ns"] >= from_ns
    ]


def _run_of(folder: Path, asked: str | None) -> str:
    place = folder / "multis"
    if not place.is_dir():
        raise UnusableTraceError(
            f"{folder}: no trace of a controller is there (one has a folder multis)"
        )
    prefix = f"{RUN_ID_COLUMN}="
    there = sorted(one.name.removeprefix(prefix) for one in place.glob(f"{prefix}*"))
    if asked is None and len(there) == 1:
        return there[0]
    if asked in there:
        return str(asked)
    names = ", ".join(there) or "none"
    if asked is None:
        raise UnusableTraceError(f"{folder}: give --run-id, one of: {names}")
    raise UnusableTraceError(f"{folder}: no run {asked}; there are: {names}")


def _table(folder: Path, name: str, run_id: str, columns: Iterable[str]) -> list[dict[str, Any]]:
    import pyarrow as pa  # noqa: PLC0415 - an optional extra

    place = folder / name / f"{RUN_ID_COLUMN}={run_id}"
    rows: list[dict[str, Any]] = []
    wanted = [*columns, PROCESS_COLUMN]
    # A stream before the file that it may become meanwhile.
    for file in [*sorted(place.glob(f"_*{STREAM}")), *sorted(place.glob("[!_.]*.parquet"))]:
        try:
            found = _content(file)
            if found is None:
                continue
            if lacking := set(wanted) - set(found.column_names):
                raise UnusableTraceError(f"{file}: it has no column {min(lacking)}")
            for column in wanted:
                kind = found.schema.field(column).type
                if column.endswith(_WHOLE) and not pa.types.is_integer(kind):
                    raise UnusableTraceError(f"{file}: its column {column} is {kind}, not int64")
            rows += found.select(wanted).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise UnusableTraceError(f"{file}: {str(error).splitlines()[0]}") from error
    return rows


def _content(file: Path) -> Any:
    """The rows of a file, or of a stream that has not become one; None: it has."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - an optional extra

    from bench.analysis.tails import whole_blocks  # noqa: PLC0415 - the same

    if file.suffix == ".parquet":
        # A file by itself: a folder's name would become a column, and of another type.
        return pq.ParquetFile(file).read()
    return None if parquet_of(file).exists() else whole_blocks(file)


def _seen(folder: Path, run_id: str, process: str, tables: dict[str, list[dict[str, Any]]]) -> Seen:
    made = [row for row in tables["requests"] if _appends(row)]
    made.sort(key=lambda row: int(row["received_ns"]))
    if not made:
        raise UnusableTraceError(f"{folder}: {process} of run {run_id} has no change")
    began_ns = int(made[0]["received_ns"])

    def at_s(time_ns: int) -> float:
        return (time_ns - began_ns) / 1e9

    ranges = _Ranges(tables["ranges"], at_s)
    multis = [row for row in tables["multis"] if row["result"] == "ok"]
    units = _units(multis, ranges)
    if not units:
        raise UnusableTraceError(f"{folder}: no change of run {run_id} has reached ZooKeeper")
    request_s, operation_s = fit([(one.operations, one.took_s) for one in units])
    sizes = sorted(one.operations for one in units)
    known = sizes[-1] >= _SPREAD * sizes[len(sizes) // 2]
    waits = [(at_s(row["begin_ns"]), at_s(row["end_ns"])) for row in tables["blocks"]]
    speed = Speed(
        request_s,
        operation_s if known else OPERATION_S,
        ranges.commit_s(),
        _append_s(made, ranges, at_s, waits),
    )
    data = sum(row["ops"] - CHAIN_OPS for row in multis if at_s(row["sent_ns"]) >= 0)
    records = sum(row["last_offset"] - row["first_offset"] + 1 for row in made)
    each = max(0.0, data / records)
    arrivals = [_arrival(row, each, at_s) for row in made]
    return Seen(
        run_id,
        process,
        _bound(tables["runs"]),
        arrivals,
        Change(round(records / len(made)) or 1, max(1, round(each * records / len(made)))),
        speed,
        known,
        _stalls(units, speed),
        len(units),
        waits,
        _channel(made, at_s),
        ranges.missing,
        copied=_copied(multis, tables["ranges"]),
    )


def _copied(multis: Sequence[dict[str, Any]], ranges: Sequence[dict[str, Any]]) -> Copied | None:
    """Between a claim, which covers no record, and the next multi, which covers all copied ones."""
    multis = sorted(multis, key=lambda row: int(row["sent_ns"]))
    for claim, whole in itertools.pairwise(multis):
        if claim["last_offset"] >= claim["first_offset"] or whole["ops"] > CHAIN_OPS:
            continue
        appended = [
            row
            for row in ranges
            if row["stage"] == PipelineStage.APPENDED
            and claim["sent_ns"] <= row["time_ns"] <= whole["sent_ns"]
        ]
        records = sum(row["last_offset"] - row["first_offset"] + 1 for row in appended)
        if records >= _COPY:
            first_ns = min(row["time_ns"] for row in appended)
            read_s = (first_ns - claim["sent_ns"]) / 1e9
            return Copied(records, read_s, (whole["sent_ns"] - first_ns) / 1e9)
    return None


def _appends(row: dict[str, Any]) -> bool:
    first, last = row["first_offset"], row["last_offset"]
    return row["received_ns"] is not None and first is not None and last >= first


def _arrival(row: dict[str, Any], each: float, at_s: Any) -> Arrival:
    records = row["last_offset"] - row["first_offset"] + 1
    return Arrival(at_s(row["received_ns"]), Change(records, max(1, round(each * records))))


def _bound(runs: Sequence[dict[str, Any]]) -> int:
    for row in runs:
        if (version := row["schema_version"]) > SCHEMA_VERSION:
            raise UnusableTraceError(
                f"{row[PROCESS_COLUMN]} wrote trace schema {version}; this version reads "
                f"{SCHEMA_VERSION} and older ones"
            )
    for row in runs:
        try:
            found = dict(json.loads(row["parameters"])).get(BOUND_KEY)
        except (TypeError, ValueError) as error:
            raise UnusableTraceError(f"the parameters of its run are no JSON: {error}") from error
        if found is not None and str(found).isdigit():
            return int(found)
    return BOUND


class _Ranges:
    """When each offset was appended, committed and in ZooKeeper."""

    def __init__(self, rows: Iterable[dict[str, Any]], at_s: Any) -> None:
        self._ends: dict[str, list[int]] = {}
        self._times: dict[str, list[float]] = {}
        self.acked: list[tuple[int, int, float]] = []
        for row in sorted(rows, key=lambda row: int(row["time_ns"])):
            stage, last, time_s = row["stage"], row["last_offset"], at_s(row["time_ns"])
            ends = self._ends.setdefault(stage, [])
            if not ends or last > ends[-1]:
                ends.append(last)
                self._times.setdefault(stage, []).append(time_s)
            if stage == PipelineStage.ZK_ACKED:
                self.acked.append((row["first_offset"], last, time_s))

    def when(self, stage: PipelineStage, offset: int) -> float | None:
        """When an offset reached a stage; None: it is not in the trace."""
        ends = self._ends.get(stage, [])
        at = bisect_left(ends, offset)
        return self._times[stage][at] if at < len(ends) else None

    @property
    def missing(self) -> int:
        """Records between the ranges that ZooKeeper confirmed, which follow each other."""
        ends = sorted((first, last) for first, last, _ in self.acked)
        return sum(max(0, after[0] - one[1] - 1) for one, after in itertools.pairwise(ends))

    def commit_s(self) -> float:
        """Median time from appended to committed."""
        ends, times = (
            self._ends.get(PipelineStage.APPENDED, []),
            self._times.get(PipelineStage.APPENDED, []),
        )
        found = [
            committed - time
            for end, time in zip(ends, times, strict=True)
            if (committed := self.when(PipelineStage.COMMITTED, end)) is not None
        ]
        return max(0.0, statistics.median(found)) if found else 0.0


def _units(multis: Sequence[dict[str, Any]], ranges: _Ranges) -> list[_Unit]:
    """Units with data that were sent after the first change came."""
    operations: Counter[int] = Counter()
    for row in multis:
        operations[row["first_offset"]] += row["ops"] - CHAIN_OPS
    found, free_s = [], float("-inf")
    for first, _, acked_s in ranges.acked:
        committed_s = ranges.when(PipelineStage.COMMITTED, first)
        if operations[first] > 0 and committed_s is not None and committed_s >= 0:
            found.append(_Unit(max(free_s, committed_s), acked_s, operations[first]))
        free_s = acked_s
    return found


def fit(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Time of a request of no operations, and of each operation, by least absolute deviations.

    Args:
        points: operations, seconds.

    >>> request_s, operation_s = fit([(5, 0.0021), (5, 0.0021), (105, 0.0041), (10, 9.0)])
    >>> round(request_s, 4), round(operation_s, 6)
    (0.002, 2e-05)
    """
    middle = statistics.median(seconds for _, seconds in points)
    request_s, slope = middle, 0.0
    for _ in range(_ROUNDS):
        sums = [0.0] * 5
        for size, seconds in points:
            weight = 1 / max(abs(seconds - request_s - slope * size), 1e-6)
            terms = (1.0, size, seconds, size * size, size * seconds)
            sums = [old + weight * term for old, term in zip(sums, terms, strict=True)]
        spread = sums[0] * sums[3] - sums[1] ** 2
        slope = (sums[0] * sums[4] - sums[1] * sums[2]) / spread if spread > 1e-12 else 0.0
        slope = min(max(0.0, slope), sums[2] / sums[1] if sums[1] else 0.0)
        request_s = (sums[2] - slope * sums[1]) / sums[0]
    return max(request_s, 1e-6), slope


def _stalls(units: Sequence[_Unit], speed: Speed) -> list[Stall]:
    found = []
    for one in units:
        usual_s = speed.unit_s(one.operations)
        if one.took_s > max(_STALL * usual_s, usual_s + _STALL_S):
            found.append(Stall(one.begin_s, one.took_s - usual_s))
    return found


def _append_s(
    made: Sequence[dict[str, Any]],
    ranges: _Ranges,
    at_s: Any,
    waits: Sequence[tuple[float, float]],
) -> float:
    """Time of the controller for one change, from what did not wait and came alone."""
    batches: dict[float, list[float]] = {}
    begins = sorted(begin for begin, _ in waits)
    for row in made:
        received_s, appended_s = (
            at_s(row["received_ns"]),
            ranges.when(PipelineStage.APPENDED, row["last_offset"]),
        )
        if appended_s is None or bisect_right(begins, appended_s) > bisect_left(begins, received_s):
            continue
        batches.setdefault(appended_s, []).append(appended_s - received_s)
    each = [max(times) / len(times) for times in batches.values()]
    return max(0.0, statistics.median(each)) if each else 0.0


def _channel(made: Sequence[dict[str, Any]], at_s: Any) -> tuple[float, float] | None:
    rows = [row for row in made if row["api"] == "Envelope"]
    if len(rows) < 2:
        return None
    spans = [(at_s(row["received_ns"]), at_s(row["answered_ns"])) for row in rows]
    gaps = [after[0] - before[1] for before, after in itertools.pairwise(spans)]
    # Of several brokers they overlap, and say nothing of one.
    hop_s = sorted(gaps)[len(gaps) // 10] if min(gaps) >= 0 else 0.0
    return statistics.median(end - begin for begin, end in spans), hop_s
