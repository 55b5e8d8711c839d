"""The folder of a run: a file for each row taken, all rows as Parquet, the trees left behind.

A row is written when it is complete, under another name first. So whatever ends a run, the rows
that are there are whole, and the next run takes those that are missing.
"""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import shutil
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.runs import tree
from bench.runs.code import code_digest
from bench.runs.row import BenchRow, column_types, row_of
from bench.runs.scenario import Planned

PARQUET = "rows.parquet"
_SHOWN = 3


class Store:
    """One run's folder; made if absent.

    Args:
        folder: of one scenario.
        any_code: whether rows that other source code took count as taken.
    """

    def __init__(self, folder: Path, *, any_code: bool = False) -> None:
        self.folder = folder
        self._any_code = any_code
        self.trace = folder / "trace"
        self.servers = folder / "servers"
        self._rows = folder / "rows"
        self._trees = folder / "trees"

    def taken(self, planned: Planned) -> BenchRow | None:
        """The row, if it was taken for the same case by this source code.

        One that cannot be read was not.
        """
        found = _read(self._rows / f"{planned.run_id}.json")
        if found is None or found.digest != planned.digest:
            return None
        return found if self._any_code or found.code == code_digest() else None

    def forget(self, planned: Planned) -> None:
        """Remove what an earlier attempt at a row left, its trace too."""
        run_id = planned.run_id
        (self._rows / f"{run_id}.json").unlink(missing_ok=True)
        (self._trees / f"{run_id}.json.gz").unlink(missing_ok=True)
        for folder in self.trace.glob(f"*/run_id={run_id}"):
            shutil.rmtree(folder)
        shutil.rmtree(self.servers / run_id, ignore_errors=True)

    def keep(self, row: BenchRow) -> None:
        """Write a row that is complete."""
        text = json.dumps(dataclasses.asdict(row), indent=1)
        _write(self._rows / f"{row.run_id}.json", text.encode())

    def keep_tree(self, run_id: str, found: tree.Tree, doubtful: Iterable[str]) -> None:
        """Write the tree that a row left, and the topics that were not answered with success."""
        document = {
            "doubtful": sorted(doubtful),
            "tree": {
                path: None if data is None else base64.b64encode(data).decode()
                for path, data in found.items()
            },
        }
        data = gzip.compress(json.dumps(document).encode(), 5)
        _write(self._trees / f"{run_id}.json.gz", data)

    def rows(self) -> list[BenchRow]:
        """All rows taken by this source code, in the order they were started.

        Of the rows of one case and target, only those of the newest form of the case: when a
        scenario is changed, rows of repeats that are not taken again are still there.

        Raises:
            OSError: the folder is there and cannot be listed.
        """
        try:
            files = [*self._rows.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            files = []
        found = [
            row
            for path in files
            if path.suffix == ".json"
            and (row := _read(path)) is not None
            and (self._any_code or row.code == code_digest())
        ]
        found.sort(key=lambda row: row.started_wall_ns)
        newest = {(row.case, row.target): row.digest for row in found}
        return [row for row in found if row.digest == newest[row.case, row.target]]

    def judge(self, planned: Sequence[Planned]) -> None:
        """Compare the trees of one round; rows of trees that differ become void."""
        rows = {one.run_id: row for one in planned if (row := self.taken(one)) is not None}
        trees = {
            run_id: read
            for run_id, row in rows.items()
            if not row.void and (read := self._tree(run_id)) is not None
        }
        if len(trees) < 2:
            return
        (first, (one, doubt)), *rest = trees.items()
        for name, (other, more) in rest:
            paths = differing(one, other, {*doubt, *more})
            if paths:
                shown = ", ".join(paths[:_SHOWN])
                why = f"the trees of {first} and {name} differ at {len(paths)} paths: {shown}"
                for run_id in trees:
                    rows[run_id].void = rows[run_id].void or why
                    self.keep(rows[run_id])

    def write_parquet(self) -> Path:
        """Write all rows as one file; returns it."""
        import pyarrow as pa  # noqa: PLC0415 - the rest works without
        import pyarrow.parquet as pq  # noqa: PLC0415 - the rest works without

        kinds = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
        schema = pa.schema([(name, kinds[kind]) for name, kind in column_types().items()])
        rows = [dataclasses.asdict(row) for row in self.rows()]
        path = self.folder / PARQUET
        fresh = path.with_name(f"_{PARQUET}")
        self.folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, schema), fresh)
        fresh.replace(path)
        return path

    def _tree(self, run_id: str) -> tuple[dict[str, bytes | None], set[str]] | None:
        path = self._trees / f"{run_id}.json.gz"
        try:
            document = json.loads(gzip.decompress(path.read_bytes()))
            tree_read = {
                path: None if data is None else base64.b64decode(data)
                for path, data in document["tree"].items()
            }
            return tree_read, set(document["doubtful"])
        except (OSError, ValueError, EOFError, zlib.error):
            return None  # it is no file, or damaged
        except (TypeError, KeyError, AttributeError):
            return None  # it is JSON of another form


def differing(one: tree.Tree, other: tree.Tree, doubtful: Iterable[str]) -> list[str]:
    """Paths at which two trees differ, those of some topics left out.

    >>> one = {"/brokers/topics/a": b"1", "/config/topics/b": b"2"}
    >>> differing(one, {}, ["b"])
    ['/brokers/topics/a']
    """
    left_out = set(doubtful)

    def counts(path: str) -> bool:
        part = path.split("/")
        of_topic = len(part) > 3 and part[1] in {"brokers", "config"} and part[2] == "topics"
        return not (of_topic and part[3] in left_out)

    return [path for path in tree.differences(one, other) if counts(path)]


def _read(path: Path) -> BenchRow | None:
    """The row of a file; None if it cannot be read, or is a copy of another one's."""
    try:
        row = row_of(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return row if row.run_id == path.stem else None


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"_{path.name}")
    fresh.write_bytes(data)
    fresh.replace(path)
