"""Read a trace by URI, one DataFrame per table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses
from pyspark.sql.types import StringType

from bench.analysis.lives import FILE, files_of, named_lives, with_file, with_lives
from bench.analysis.schema import KEYS, struct_type
from bench.analysis.tails import Tails
from emulator.trace import rows

LONGEST_S: Final = 30 * 86_400.0
"""No request, wait or stall lasts longer: a time beyond it is none."""
_OLDEST_VERSION: Final = 1
_ADDED: Final = frozenset({"fleet"})
"""Tables that traces of the oldest version do not have; their other columns are the same."""
_SPANS: Final = (
    ("requests", "received_ns", "answered_ns"),
    ("requests", "sent_ns", "answered_ns"),
    ("multis", "sent_ns", "answered_ns"),
    ("blocks", "begin_ns", "end_ns"),
    ("stalls", "begin_ns", "end_ns"),
)
"""Table, and what lies between two readings of its process's monotonic clock."""


class TraceError(ValueError):
    """A trace that cannot be analysed; the text says why."""


class TraceVersionError(TraceError):
    """The trace was written with another schema version than this analysis knows."""


class TraceClockError(TraceError):
    """Something ends before it begins, or lasts for months: no analysis of that means anything."""


def read(
    spark: SparkSession, trace: str, streams: Path | None = None, *, small: bool = False
) -> dict[str, DataFrame]:
    """Open every table of a trace.

    Args:
        spark: a classic or a Connect session.
        trace: URI or path of the trace's folder, as the Spark server sees it.
        streams: a folder that Spark sees too, for the rows of streams, which it cannot read; None:
            without these, and all lives of a process together.
        small: with ``streams``, of a folder of this machine: its files are opened once, and Spark
            keeps all rows.

    Returns:
        the tables, and with ``streams`` also ``files``, as `files_of` describes.

    Raises:
        TraceVersionError: a process of the trace wrote a schema version that is not known.
        TraceClockError: times of a process are impossible.
        TraceError: a file of it is empty.
        OSError: a stream cannot be read.
    """
    tails = None if streams is None else Tails(trace, streams)
    places = {name: f"{trace.rstrip('/')}/{name}" for name in rows.TABLES}
    files = {name: _files(spark, name, place) for name, place in places.items()}
    there = [place for name, place in places.items() if files[name]]
    empty = _empty_here(there) if small else _empty(spark, there)
    if empty is not None:
        raise TraceError(f"{empty} is empty: its rows are lost")
    if tails is not None:
        return _opened(spark, files, tails, small=small)
    return checked({name: _table(spark, name, frames) for name, frames in files.items()})


def _files(spark: SparkSession, name: str, place: str) -> list[DataFrame]:
    """A table straight from its files; empty if the trace is older than the table."""
    try:
        found = spark.read.schema(struct_type(rows.TABLES[name])).parquet(place)
        if name in _ADDED:
            found.inputFiles()  # a server says only now that there is none
    except AnalysisException:
        if name in _ADDED:
            return []
        raise
    return [found]


def _table(spark: SparkSession, name: str, frames: Sequence[DataFrame]) -> DataFrame:
    if not frames:
        return spark.createDataFrame([], struct_type(rows.TABLES[name]))
    return reduce(DataFrame.unionByName, frames)


def _table_with_file(spark: SparkSession, name: str, frames: Sequence[DataFrame]) -> DataFrame:
    if not frames:
        return _table(spark, name, ()).withColumn(FILE, F.lit(None).cast(StringType()))
    return reduce(DataFrame.unionByName, map(with_file, frames))


def _opened(
    spark: SparkSession, files: Mapping[str, Sequence[DataFrame]], tails: Tails, *, small: bool
) -> dict[str, DataFrame]:
    """The tables of one trace: files and streams, each life of a process by itself.

    Args:
        spark: the session.
        files: by table: frames straight from its files; none if it has none.
        tails: the streams as they were before the files were listed.
        small: as ``read``.

    Returns:
        the tables, and ``files``, as `files_of` describes.

    Raises:
        TraceVersionError, TraceClockError: as ``read``.
    """
    found: dict[str, list[DataFrame]] = {}
    for name, row in rows.TABLES.items():
        schema = struct_type(row)
        finished = [path for frame in files[name] for path in frame.inputFiles()]
        tail = tails.read(spark, name, finished, schema)
        found[name] = [*files[name], *([] if tail is None else [tail])]
    lives = named_lives(
        path for frames in found.values() for frame in frames for path in frame.inputFiles()
    )
    whole = {name: _table_with_file(spark, name, frames) for name, frames in found.items()}
    if small:
        whole = {name: table.localCheckpoint() for name, table in whole.items()}
    tables = {name: with_lives(table, lives) for name, table in whole.items()}
    return {**checked(tables), "files": files_of(whole, lives)}


def _empty_here(places: Iterable[str]) -> str | None:
    """A file of no bytes in these folders: Spark passes over it, but its rows are lost."""
    files = (file for place in places for file in Path(place).rglob("[!_.]*.parquet"))
    return min((str(file) for file in files if not file.stat().st_size), default=None)


def _empty(spark: SparkSession, places: list[str]) -> str | None:
    """The same of places that Spark sees."""
    files = (
        spark.read.format("binaryFile")
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", "*.parquet")
        .load(places)
    )
    named = files.inputFiles()
    if len(named) == files.count():
        return None
    whole = {urlsplit(row.path).path for row in files.select("path").collect()}
    empty = [name for name in named if unquote(urlsplit(name).path) not in whole]
    return min(empty, default="a file")


def checked(tables: dict[str, DataFrame]) -> dict[str, DataFrame]:
    """The tables as they are.

    Raises:
        TraceVersionError, TraceClockError: as ``read``.
    """
    known = F.col("schema_version").between(_OLDEST_VERSION, rows.SCHEMA_VERSION)
    foreign = tables["runs"].where(~known)
    for run in foreign.select("process", "schema_version").distinct().limit(1).collect():
        raise TraceVersionError(
            f"{run.process} wrote trace schema {run.schema_version}; "
            f"this analysis reads schemas {_OLDEST_VERSION} to {rows.SCHEMA_VERSION}"
        )
    odd = [_odd(tables[name], name, begin, end) for name, begin, end in _SPANS]
    for row in reduce(DataFrame.union, odd).limit(1).collect():
        raise TraceClockError(
            f"run {row.run_id}, {row.process}: something in {row.table} is from {row.begin_ns} to "
            f"{row.end_ns} ns; its clock went backwards, or its rows are damaged"
        )
    return tables


def _odd(table: DataFrame, name: str, begin: str, end: str) -> DataFrame:
    # As doubles: the difference of two damaged integers may not fit into one.
    lasted_s = (F.col(end).cast("double") - F.col(begin).cast("double")) / 1e9
    return table.where((lasted_s < 0) | (lasted_s > LONGEST_S)).select(
        *KEYS,
        F.lit(name).alias("table"),
        F.col(begin).alias("begin_ns"),
        F.col(end).alias("end_ns"),
    )
