"""Traces of any size whose truth is known: ``python -m bench.analysis.synthetic``.

A client asks for one topic every ``1 / rate`` seconds, each of a few records. A commit takes a
millisecond; a multi takes all that was committed since the last one, up to four operations, so at
most one is in flight. Every ``FREEZE_EVERY_S`` ZooKeeper stands still for ``FREEZE_S``; operations
that arrive after the first ``ADMITTED_S`` of it wait for its end. Columns and file names are those
of ``emulator.io.trace_file``; arrays instead of row objects make 50 million rows in minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from emulator.trace import metrics, rows
from emulator.trace.rows import arrow_schema

FREEZE_EVERY_S: Final = 30.0
FREEZE_S: Final = 2.0
ADMITTED_S: Final = 0.5
_RECORDS: Final = 3
_PER_MULTI: Final = 4
_MS: Final = 1_000_000
_COMMIT_NS: Final = _MS
_PLAN_NS: Final = 100_000
_ANSWER_NS: Final = 50_000
_SERVER, _CLIENT = "controller-3000", "load"
_Array = Any


@dataclass(slots=True)
class Truth:
    """What an analysis must find; times in milliseconds."""

    rows: int = 0
    operations: int = 0
    records: int = 0
    multis: int = 0
    blocked_operations: int = 0
    blocked_total_ms: float = 0.0
    blocked_union_ms: float = 0.0
    max_response_ms: float = 0.0


@dataclass(slots=True)
class _Cursor:
    operation: int = 0
    free_ns: int = 0  # when the last multi so far is answered
    acked: int = -1


class _Changes(NamedTuple):
    """Operations: their number, and when each was received, appended and committed."""

    index: _Array
    received: _Array
    appended: _Array
    committed: _Array


class _Multis(NamedTuple):
    sent: _Array
    answered: _Array
    first: _Array
    last: _Array


class Writer:
    """Files of one trace, one per table and piece of time."""

    def __init__(self, out: Path, run_id: str) -> None:
        self._out = out
        self._run_id = run_id
        self.rows = 0

    def write(self, kind: type, process: str, columns: Mapping[str, _Array], piece: int) -> Path:
        """Write one file; columns that are not given are null."""
        schema = arrow_schema(pa, kind)
        length = len(next(iter(columns.values())))
        arrays = [
            pa.array(columns[field.name], field.type)
            if field.name in columns
            else pa.nulls(length, field.type)
            for field in schema
            if field.name != rows.PROCESS_COLUMN
        ]
        table = pa.Table.from_arrays([*arrays, pa.repeat(process, length)], schema=schema)
        folder = self._out / rows.TABLE_OF[kind] / f"{rows.RUN_ID_COLUMN}={self._run_id}"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.name(kind, process, piece, length)
        made = path.with_name(f"_{path.name}")
        pq.write_table(table, made, compression="zstd", row_group_size=65_536)
        self.rows += length
        return made.replace(path)

    def name(self, kind: type, process: str, piece: int, count: int) -> str:  # noqa: ARG002 - others need it
        """The name of a file of ``count`` rows."""
        return f"{process}-0-{piece:05d}.parquet"


def generate(
    out: Path, wanted: int, *, rate: float = 4000.0, seed: int = 1, run_id: str = "synthetic"
) -> Truth:
    """Write a trace of at least ``wanted`` rows, and at most one operation's more.

    Args:
        out: the folder of the trace; created.
        wanted: rows of all tables together.
        rate: operations per second of the trace's time.
        seed: of the times that multis take.
        run_id: the run's name.
    """
    return written(Writer(out, run_id), wanted, rate, seed)


def written(
    writer: Writer,
    wanted: int,
    rate: float,
    seed: int = 1,
    after: Callable[[int], None] = lambda _: None,
) -> Truth:
    """As `generate`, by a writer; ``after`` is called with the number of each piece of time."""
    random = np.random.default_rng(seed)
    truth, cursor = Truth(), _Cursor()
    _begin(writer, rate)
    piece = 0
    while writer.rows < wanted:
        # Seven rows an operation or less: the last piece is as long as what is missing.
        count = max(1, min(int(FREEZE_EVERY_S * rate), (wanted - writer.rows) // 7))
        _piece(writer, truth, cursor, _Plan(piece, count, rate), random)
        after(piece)
        piece += 1
    truth.rows = writer.rows
    return truth


@dataclass(frozen=True, slots=True)
class _Plan:
    piece: int
    count: int
    rate: float


def _begin(writer: Writer, rate: float) -> None:
    for process, release in ((_SERVER, "3.9"), (_CLIENT, "synthetic")):
        one = rows.RunRow(
            rows.SCHEMA_VERSION, 0, 10**18, "host", "0", release, json.dumps({"rate": rate})
        )
        values = {name: [getattr(one, name)] for name in rows.RunRow.__struct_fields__}
        writer.write(rows.RunRow, process, values, 0)
    for kind in (rows.BlockRow, rows.StallRow, rows.FleetRow, rows.GaugeRow):
        empty: dict[str, list[int]] = {name: [] for name in kind.__struct_fields__}
        writer.write(kind, _SERVER, empty, 0)


def _piece(
    writer: Writer, truth: Truth, cursor: _Cursor, plan: _Plan, random: np.random.Generator
) -> None:
    """Operations of one stretch of time, with one freeze at its middle if it is long enough."""
    index = cursor.operation + np.arange(plan.count, dtype=np.int64)
    step_ns = 1e9 / plan.rate
    received = (10**12 + index * step_ns).astype(np.int64)
    middle = int(received[0]) + int(FREEZE_EVERY_S / 2 * 1e9)
    freeze_end = middle + int(FREEZE_S * 1e9)
    held = (received >= middle + int(ADMITTED_S * 1e9)) & (received < freeze_end)
    appended = np.where(held, freeze_end, received)
    committed = appended + _COMMIT_NS
    multis = _multis(committed, cursor, middle, freeze_end, random)
    changes = _Changes(index, received, appended, committed)
    _write_requests(writer, plan, changes)
    _write_ranges(writer, plan, changes, multis)
    _write_multis(writer, plan, multis)
    _write_gauges(writer, plan, changes, multis, cursor.acked)
    if held.any():
        blocked = {
            "begin_ns": received[held],
            "end_ns": appended[held],
            "cause": [str(rows.BlockCause.LAG_RECORDS)] * int(held.sum()),
            "api": ["CreateTopics"] * int(held.sum()),
            "request_id": index[held],
            "end": [str(rows.BlockEnd.RELEASED)] * int(held.sum()),
        }
        writer.write(rows.BlockRow, _SERVER, blocked, plan.piece + 1)
        truth.blocked_total_ms += float((appended - received)[held].sum()) / _MS
        truth.blocked_union_ms += float(freeze_end - received[held][0]) / _MS
    truth.operations += plan.count
    truth.records += plan.count * _RECORDS
    truth.multis += len(multis.sent)
    truth.blocked_operations += int(held.sum())
    response = committed + _ANSWER_NS - received + 2 * _MS
    truth.max_response_ms = max(truth.max_response_ms, float(response.max()) / _MS)
    cursor.operation += plan.count
    cursor.free_ns, cursor.acked = int(multis.answered[-1]), int(multis.last[-1])


def _multis(
    committed: _Array, cursor: _Cursor, freeze: int, freeze_end: int, random: np.random.Generator
) -> _Multis:
    """The multis of a stretch: a queue with one server.

    With c the time a group is complete and s what its multi takes, the answer is
    a[g] = max(a[g-1], c[g]) + s[g], so a = S + the running maximum of c - (S before g).
    """
    ends = np.minimum(
        np.arange(_PER_MULTI, len(committed) + _PER_MULTI, _PER_MULTI), len(committed)
    )
    ready = committed[ends - 1] + _PLAN_NS
    takes = (random.lognormal(-0.9, 0.35, len(ends)) * _MS).astype(np.int64)
    takes = np.minimum(takes, 5 * _MS)
    struck = np.flatnonzero(ready >= freeze)
    if len(struck) and ready[struck[0]] < freeze_end:
        takes[struck[0]] += freeze_end - ready[struck[0]]
    before = np.cumsum(takes) - takes
    free = np.maximum.accumulate(np.maximum(ready, cursor.free_ns) - before)
    sent = free + before
    starts = ends - np.diff(ends, prepend=0)
    first = (cursor.operation + starts) * _RECORDS
    last = (cursor.operation + ends) * _RECORDS - 1
    return _Multis(sent, sent + takes, first, last)


def _write_requests(writer: Writer, plan: _Plan, changes: _Changes) -> None:
    index, received, _, committed = changes
    answered = committed + _ANSWER_NS
    both = {
        "request_id": index,
        "api_version": np.zeros(plan.count, np.int64),
        "client_id": ["load"] * plan.count,
        "correlation_id": index,
        "error_code": np.zeros(plan.count, np.int64),
    }
    server = {
        **both,
        "api": ["Envelope"] * plan.count,
        "inner_api": ["CreateTopics"] * plan.count,
        "received_ns": received,
        "answered_ns": answered,
        "first_offset": index * _RECORDS,
        "last_offset": (index + 1) * _RECORDS - 1,
    }
    client = {
        **both,
        "api": ["CreateTopics"] * plan.count,
        "intended_ns": received - _MS,
        "sent_ns": received - _MS // 2,
        "answered_ns": answered + _MS,
    }
    writer.write(rows.RequestRow, _SERVER, server, plan.piece)
    writer.write(rows.RequestRow, _CLIENT, client, plan.piece)


def _write_ranges(writer: Writer, plan: _Plan, changes: _Changes, multis: _Multis) -> None:
    index, _, appended, committed = changes
    sent, answered, first, last = multis
    batch = (index * _RECORDS, (index + 1) * _RECORDS - 1)
    parts = [
        (rows.PipelineStage.APPENDED, *batch, appended),
        (rows.PipelineStage.COMMITTED, *batch, committed),
        (rows.PipelineStage.PLANNED, first, last, sent),
        (rows.PipelineStage.ZK_SENT, first, last, sent),
        (rows.PipelineStage.ZK_ACKED, first, last, answered),
        (rows.PipelineStage.PROPAGATED, first, last, sent),
    ]
    order = np.argsort(np.concatenate([at for *_, at in parts]), kind="stable")
    lengths = [len(at) for *_, at in parts]
    names = pa.DictionaryArray.from_arrays(
        np.repeat(np.arange(len(parts), dtype=np.int32), lengths)[order],
        [str(stage) for stage, *_ in parts],
    )
    columns = {
        "stage": names.cast(pa.string()),
        "first_offset": np.concatenate([first for _, first, _, _ in parts])[order],
        "last_offset": np.concatenate([last for _, _, last, _ in parts])[order],
        "time_ns": np.concatenate([at for *_, at in parts])[order],
        "no_op_records": np.zeros(sum(lengths), np.int64),
    }
    writer.write(rows.RangeRow, _SERVER, columns, plan.piece)


def _write_multis(writer: Writer, plan: _Plan, multis: _Multis) -> None:
    sent, answered, first, last = multis
    count = len(sent)
    work = last - first + 1
    kinds = pa.StructArray.from_arrays(
        [
            pa.array(["topic_create", "chain"] * count),
            pa.array(np.column_stack([work, np.full(count, 3)]).ravel()),
            pa.array(np.column_stack([work * 100, np.full(count, 500)]).ravel()),
        ],
        [field.name for field in _operation_fields()],
    )
    offsets = np.arange(0, 2 * count + 1, 2, dtype=np.int32)
    columns = {
        "sent_ns": sent,
        "answered_ns": answered,
        "ops": work + 3,
        "bytes": work * 100 + 500,
        "first_offset": first,
        "last_offset": last,
        "result": [str(rows.MultiResult.OK)] * count,
        "operations": pa.ListArray.from_arrays(offsets, kinds),
    }
    writer.write(rows.MultiRow, _SERVER, columns, plan.piece)


def _operation_fields() -> list[rows.Column]:
    [operations] = [each for each in rows.columns(rows.MultiRow) if each.kind == "list"]
    return list(operations.fields)


def _write_gauges(
    writer: Writer, plan: _Plan, changes: _Changes, multis: _Multis, acked_before: int
) -> None:
    """Ten readings a second of the lag, from the first acknowledgement on."""
    index, committed = changes.index, changes.committed
    answered, last = multis.answered, multis.last
    begin = max(int(committed[0]), int(answered[0])) if acked_before < 0 else int(committed[0])
    at = np.arange(begin, int(committed[-1]), 100 * _MS, dtype=np.int64)
    done = np.searchsorted(committed, at, side="right") - 1
    through = (index[done] + 1) * _RECORDS - 1
    acks = np.searchsorted(answered, at, side="right") - 1
    acked = np.where(acks >= 0, last[acks], acked_before)
    behind = np.maximum(through - acked, 0)
    oldest = np.clip((acked + 1) // _RECORDS - index[0], 0, len(index) - 1)
    age = np.where(behind > 0, (at - committed[oldest]) / _MS, 0.0)
    # A record of the piece before may be the oldest: those readings are left out.
    known = acked + 1 >= index[0] * _RECORDS
    names = (
        (metrics.ZK_WRITE_BEHIND_LAG.name, behind.astype(float)),
        (metrics.ZK_WRITE_BEHIND_LAG_WITHOUT_NO_OPS.name, behind.astype(float)),
        (metrics.ZK_WRITE_BEHIND_LAG_MS.name, age),
    )
    count = int(known.sum())
    columns = {
        "time_ns": np.concatenate([at[known]] * 3),
        "gauge": [name for name, _ in names for _ in range(count)],
        "value": np.concatenate([value[known] for _, value in names]),
    }
    writer.write(rows.GaugeRow, _SERVER, columns, plan.piece + 1)


def main() -> None:
    """Write a trace and print its truth as JSON."""
    parser = argparse.ArgumentParser(description="Write a synthetic trace and print its truth.")
    parser.add_argument("--rows", type=int, required=True, help="rows of all tables together")
    parser.add_argument("--out", type=Path, required=True, help="folder of the trace")
    parser.add_argument("--rate", type=float, default=4000.0, help="operations per second")
    chosen = parser.parse_args()
    truth = generate(chosen.out, chosen.rows, rate=chosen.rate)
    sys.stdout.write(json.dumps(asdict(truth), indent=1) + "\n")


if __name__ == "__main__":
    main()
