"""What a process that was killed, or still writes, has not finished: its streams, as Parquet.

Rows are appended to ``<table>/run_id=…/_<name>.arrows``, an Arrow IPC stream whose end may be cut,
and become ``<name>.parquet`` when it is long or old enough. Spark reads neither streams nor names
with ``_``: their whole blocks are written again elsewhere, as the trace is not ours to change.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from emulator.trace import rows


def folder_of(trace: str) -> Path | None:
    """The folder of a trace given as path or ``file:`` URI; None: it is of another file system."""
    parts = urlsplit(trace)
    if parts.scheme not in {"", "file"}:
        return None
    return Path(unquote(parts.path) if parts.scheme else trace)


class Tails:
    """The streams of a trace as they are now.

    Args:
        trace: path or ``file:`` URI of a trace; of any other URI nothing is read, as streams are
            left only on the machine of their process.
        out: a folder for the copies; replaced.

    Raises:
        OSError: a stream cannot be read, or ``out`` not be written.
    """

    def __init__(self, trace: str, out: Path) -> None:
        self._out = out
        shutil.rmtree(out, ignore_errors=True)
        folder = folder_of(trace)
        if folder is None:
            return
        for name in rows.TABLES:
            for stream in sorted(folder.glob(f"{name}/{rows.RUN_ID_COLUMN}=*/_*{rows.STREAM}")):
                to = out / rows.parquet_of(stream.relative_to(folder))
                found = whole_blocks(stream)
                if found is not None:
                    to.parent.mkdir(parents=True, exist_ok=True)
                    pq.write_table(found, to)

    def read(
        self, spark: SparkSession, name: str, files: Iterable[str], schema: StructType
    ) -> DataFrame | None:
        """The rows of the streams of a table; None if there are none.

        Args:
            spark: the session of the table.
            name: of the table.
            files: its Parquet files, listed after the streams were read: of a stream that was
                finished in between there is both, and the file counts.
            schema: of the table.
        """
        finished = {Path(unquote(urlsplit(file).path)).name for file in files}
        left = False
        for made in (self._out / name).rglob("*.parquet"):
            if made.name in finished:
                made.unlink()
            else:
                left = True
        return spark.read.schema(schema).parquet(str(self._out / name)) if left else None


def whole_blocks(stream: Path) -> pa.Table | None:
    """The rows of a stream up to its first block that is not whole; None if there is none."""
    with pa.OSFile(str(stream), "rb") as source:
        batches, _ = rows.whole_blocks(pa, source)
    return pa.Table.from_batches(batches) if batches else None
