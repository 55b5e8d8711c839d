"""The lives of a process in one run: each start of it writes files of its own.

A file is named ``<process>-<pid>-<start>-<number>.parquet``: ``start`` is when its process began,
in ns since 1970, and ``number`` has 12 digits and is that of its first row (5 digits, of the file:
in traces of earlier versions). Request ids of two lives have nothing in common, nor have clocks of
two starts of a machine, so each life counts as a process: of ``controller-3000`` that was started
twice there is ``controller-3000 life 1`` and ``controller-3000 life 2``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Final
from urllib.parse import unquote, urlsplit

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark text uses

from bench.analysis.schema import KEYS
from emulator.trace import rows

_NAME: Final = re.compile(
    rf"/{rows.RUN_ID_COLUMN}=([^/]*)/((.+)-(\d+)-(\d+))-(?:\d{{5}}|\d{{12}}|empty)\.parquet$"
)
FILE: Final = "_file"
_ONE_START_NS: Final = 1_000_000_000
_LIFE: Final = r"^(.+-\d+-\d+)-[^-]+$"
_BEGAN: Final = r"-(\d+)-[^-]+$"
_FIRST_ROW: Final = r"-(\d{12})\.parquet$"
_TIMES: Final = {
    "requests": "answered_ns",
    "ranges": "time_ns",
    "blocks": "end_ns",
    "multis": "answered_ns",
    "stalls": "end_ns",
    "gauges": "time_ns",
    "runs": "monotonic_ns",
    "fleet": "intended_ns",
}
"""The instant of a row, by table."""


def named_lives(files: Iterable[str]) -> dict[str, str]:
    """Names for the lives of processes that have several, by the first part of their files' names.

    Args:
        files: paths or URIs of all files of a trace.

    >>> start = "t/runs/run_id=r/c-7-1700-000000000000.parquet"
    >>> named_lives([start, start.replace("7-1700", "9-1800")])
    {'c-7-1700': 'c life 1', 'c-9-1800': 'c life 2'}
    """
    found: defaultdict[tuple[str, str], set[tuple[int, int, str]]] = defaultdict(set)
    for file in files:
        if match := _NAME.search(unquote(urlsplit(file).path)):
            run_id, start, process, pid, began = match.groups()
            found[run_id, process].add((int(began), int(pid), start))
    names: dict[str, str] = {}
    for (_, process), starts in found.items():
        number = last_ns = last_pid = 0
        for began_ns, pid, start in sorted(starts):
            # Earlier versions took the time once for each table.
            if pid != last_pid or began_ns - last_ns > _ONE_START_NS:
                number += 1
            names[start] = f"{process} life {number}"
            last_ns, last_pid = began_ns, pid
        if number == 1:
            for _, _, start in starts:
                del names[start]
    return names


def with_file(table: DataFrame) -> DataFrame:
    """A table, straight from its files, with the name of each row's file in the column ``FILE``."""
    # Spark gives it encoded, as in a URI.
    name = F.url_decode(F.replace(F.col("_metadata.file_name"), F.lit("+"), F.lit("%2B")))
    return table.withColumn(FILE, name)


def with_lives(table: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """A table of ``with_file``, without that column, in which each life is a process of its own."""
    if names:
        table = table.withColumn(rows.PROCESS_COLUMN, _named(F.col(FILE), names))
    return table.drop(FILE)


def _named(file: Column, names: Mapping[str, str]) -> Column:
    process = F.col(rows.PROCESS_COLUMN)
    if not names:
        return process
    known = F.create_map(*(F.lit(each) for pair in names.items() for each in pair))
    return F.coalesce(F.try_element_at(known, F.regexp_extract(file, _LIFE, 1)), process)


def files_of(tables: Mapping[str, DataFrame], names: Mapping[str, str]) -> DataFrame:
    """What each file of a trace holds; files without rows are none.

    Args:
        tables: name -> the table of ``with_file``.
        names: the result of ``named_lives``.

    Returns:
        run_id, process, origin (the process, whatever its life), began_ns (of the life, since 1970;
        null if the file is named otherwise), table, first_row (its number; null of earlier
        versions), rows, first_ns, last_ns.
    """
    return reduce(
        DataFrame.unionByName, [_summary(table, name, names) for name, table in tables.items()]
    )


def _summary(table: DataFrame, name: str, names: Mapping[str, str]) -> DataFrame:
    return (
        table.select(*KEYS, F.col(_TIMES[name]).alias("_ns"), F.col(FILE).alias("file"))
        .groupBy(*KEYS, "file")
        .agg(
            F.count("*").alias("rows"),
            F.min("_ns").alias("first_ns"),
            F.max("_ns").alias("last_ns"),
        )
        .withColumn("origin", F.col(rows.PROCESS_COLUMN))
        .withColumn(rows.PROCESS_COLUMN, _named(F.col("file"), names))
        .select(
            *KEYS,
            "origin",
            _number("file", _BEGAN).alias("began_ns"),
            F.lit(name).alias("table"),
            _number("file", _FIRST_ROW).alias("first_row"),
            "rows",
            "first_ns",
            "last_ns",
        )
    )


def _number(column: str, pattern: str) -> Column:
    found = F.regexp_extract(column, pattern, 1)
    return F.when(found != "", found).cast("long")
