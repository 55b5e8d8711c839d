"""Places that Spark reads and this machine has no folder of: ``s3a://``, ``hdfs://``, a pattern."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from bench.analysis.mirror import Found
from emulator.trace import rows

_FETCHED: Final = "fetched.parquet"


class Store:
    """A folder of a file system of Hadoop's; a `bench.analysis.mirror.Source` of finished files.

    Args:
        spark: a classic session, whose settings reach the place.
        place: URI of the folder.
        out: a folder of this machine, for one file at a time.
    """

    def __init__(self, spark: SparkSession, place: str, out: Path) -> None:
        self._java: Any = spark._jvm  # noqa: SLF001 - pyspark has no other way to Hadoop's classes
        self._place = place.rstrip("/")
        self._out = out
        path = self._path(self._place)
        self._files: Any = path.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001 - as above
        self._sent: dict[Path, tuple[int, int]] = {}

    def _path(self, place: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(place)

    def streams(self) -> list[Found]:
        """None: they are left only on the machine of their process."""
        return []

    def files(self) -> list[Found]:
        """Finished files of all tables."""
        tables = ",".join(rows.TABLES)
        pattern = f"{self._place}/{{{tables}}}/{rows.RUN_ID_COLUMN}=*/[^_]*.parquet"
        made = []
        for each in self._files.globStatus(self._path(pattern)) or ():
            place = each.getPath().toString()
            *_, table, run, name = place.split("/")
            made.append(Found(table, run, name, place, (each.getLen(), each.getModificationTime())))
        return sorted(made)

    def local(self, found: Found) -> Path:
        """A copy of a file, until the next one.

        Raises:
            FileNotFoundError: it is not there any more.
            OSError: it cannot be copied.
        """
        to = self._out / _FETCHED
        try:
            self._files.copyToLocalFile(False, self._path(found.place), self._path(str(to)), True)
        except Py4JJavaError as error:
            kind = str(error.java_exception.getClass().getName())
            failure = FileNotFoundError if kind.endswith("FileNotFoundException") else OSError
            raise failure(f"{found.place}: {error.java_exception.getMessage()}") from error
        return to

    def put_all(self, folder: Path) -> str:
        """Copy the files below a folder that are new or changed; returns the URI of the copy."""
        for table in rows.TABLES:  # Spark reads no table that has no folder
            self._files.mkdirs(self._path(f"{self._place}/{table}"))
        for path in sorted(folder.rglob("[!_]*.parquet")):
            at = path.stat()
            state = (at.st_size, at.st_mtime_ns)
            if self._sent.get(path) != state:
                to = f"{self._place}/{path.relative_to(folder)}"
                self._files.copyFromLocalFile(False, True, self._path(str(path)), self._path(to))
                self._sent[path] = state
        return self._place
