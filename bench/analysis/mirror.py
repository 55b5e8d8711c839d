"""A copy of a trace that only grows: what was read once stays, whatever becomes of the trace.

The limit of a trace takes its oldest files away, ``trace compact`` puts one file in the place of
several, folders go. So nothing that is followed is analysed where it lies. A look copies the rows
that are new: each row has a number in its life (`bench.analysis.lives`), so none is copied twice,
in whatever file it comes, and none that is here is read again. Rows that were deleted before a look
came are a hole between numbers, which `bench.analysis.whole` finds as in any trace.

The copy is a trace too, of a few files of up to ``PIECE_ROWS`` rows or of one look, and all that is
known of what was copied: a program that was killed goes on from it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from bench.analysis.tails import whole_blocks
from emulator.trace import rows

PIECE_ROWS: Final = 65_536
"""A file with fewer takes the rows that follow too, until it is in use."""
_NUMBERED: Final = re.compile(r"(.+-\d+-\d+)-(\d{12})\.parquet")
_STREAM: Final = re.compile(rf"_(.+){re.escape(rows.STREAM)}()")
_FILE: Final = re.compile(r"([^_].*)\.parquet|_(.+)\.parquet\.merged")
"""A finished file, or what a compaction is about to put in the place of several."""
_ROUNDS: Final = 5
"""How often files are listed again because some went meanwhile."""
GONE: Final = "was deleted before it was read"


class Found(NamedTuple):
    """A file of a trace: finished, a stream, or what a compaction is about to put in place."""

    table: str
    run: str
    """Its folder, ``run_id=…``."""
    name: str
    """As a finished file."""
    place: str
    state: tuple[int, ...]
    """Differs if its content does."""

    @property
    def is_stream(self) -> bool:
        """Whether its process may still write it."""
        return self.place.endswith(rows.STREAM)


class Unread(NamedTuple):
    """Why a file could not be read; ``end`` is the number behind its last row, if it is known."""

    why: str
    end: int | None


class Lost(NamedTuple):
    """A file that could not be read; ``rows``: how many of it are not here, None: not known."""

    table: str
    run: str
    name: str
    rows: int | None


class Source(Protocol):
    """Where a trace lies."""

    def streams(self) -> list[Found]:
        """Of processes that were killed, or still write; to be listed before the files."""

    def files(self) -> list[Found]:
        """Finished ones."""

    def local(self, found: Found) -> Path:
        """A file of this machine with its content.

        Raises:
            FileNotFoundError: it is not there any more.
        """


class Series(NamedTuple):
    """The rows of one life in one table: they are numbered."""

    table: str
    run: str
    life: str


class _Piece(NamedTuple):
    """The last file of a series, while it may take more rows."""

    path: Path
    begin: int
    end: int


class _GoneError(Exception):
    """A file of the trace is not there any more."""


class _UnreadableError(Exception):
    """A file of the trace cannot be read; the text says why.

    ``end``: the number behind its last row, if it is known. ``again``: whether it may be read later
    though it does not change.
    """

    def __init__(self, why: str, end: int | None = None, *, again: bool = False) -> None:
        super().__init__(why)
        self.end = end
        self.again = again


class Folder:
    """A trace in a folder of this machine; it may go, and come back."""

    def __init__(self, folder: Path) -> None:
        """Nothing is read yet."""
        self._folder = folder

    def streams(self) -> list[Found]:
        """As `Source`."""
        return self._listed(_STREAM)

    def files(self) -> list[Found]:
        """As `Source`."""
        return self._listed(_FILE)

    def local(self, found: Found) -> Path:
        """As `Source`."""
        return Path(found.place)

    def _listed(self, pattern: re.Pattern[str]) -> list[Found]:
        return [
            found
            for table in rows.TABLES
            for folder in sorted((self._folder / table).glob(f"{rows.RUN_ID_COLUMN}=*"))
            for found in _at_one_instant(table, folder, pattern)
        ]


def _at_one_instant(table: str, folder: Path, pattern: re.Pattern[str]) -> list[Found]:
    """The files of a folder, none of them listed while another took its place."""
    made: list[Found] = []
    # It may have gone, and what is in it too.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for _ in range(_ROUNDS):
            made, before = [], folder.stat().st_mtime_ns
            for entry in os.scandir(folder):
                if match := pattern.fullmatch(entry.name):
                    with contextlib.suppress(FileNotFoundError):
                        at = entry.stat()
                        state = (at.st_size, at.st_mtime_ns, at.st_ino)
                        name = f"{match[1] or match[2]}.parquet"
                        made.append(Found(table, folder.name, name, entry.path, state))
            if folder.stat().st_mtime_ns == before:
                break
    return sorted(made)


class Mirror:
    """The copy of one trace in one folder.

    Args:
        source: of the trace.
        folder: of the copy, of this trace only; what is there already is taken up.
        on_rows: called with the table's name, the run's id and rows, once for each row, those that
            are there at the beginning too.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(
        self, source: Source, folder: Path, on_rows: Callable[[str, str, pa.Table], None]
    ) -> None:
        self.folder = folder
        self.unread: dict[tuple[str, str, str], Unread] = {}
        """By table, folder of the run and name: files that were seen and could not be read."""
        self._source = source
        self._on_rows = on_rows
        self._have: defaultdict[Series, list[tuple[int, int]]] = defaultdict(list)
        self._names: set[tuple[str, str, str]] = set()
        self._open: dict[Series, _Piece] = {}
        self._done: dict[str, tuple[int, ...]] = {}
        self._take_up()

    def _take_up(self) -> None:
        for table in rows.TABLES:
            (self.folder / table).mkdir(parents=True, exist_ok=True)
        for path in self.folder.glob(f"*/{rows.RUN_ID_COLUMN}=*/_*"):
            path.unlink()  # was being written when the program ended
        for found in Folder(self.folder).files():
            path = Path(found.place)
            try:
                parts = [part for _, part in _parts(path)]
            except _UnreadableError:
                path.unlink()  # the machine ended; it is copied again if the trace still has it
                continue
            count = sum(self._heard(found, part) for part in parts)
            series, begin = _numbered(found.name, *found[:2])
            if series is None:
                self._names.add(found[:3])
            else:
                self._has(series, begin, begin + count, path)

    def take(self) -> None:
        """Copy what is new.

        Raises:
            OSError: the trace's folder cannot be listed, or the copy not be written.
        """
        listed = self._source.streams()
        self._look_at(listed)
        for _ in range(_ROUNDS):
            files = self._source.files()
            listed += files
            if self._look_at(files):
                break
        there = {found.place for found in listed}
        self._done = {place: state for place, state in self._done.items() if place in there}
        self.unread = {key: why for key, why in self.unread.items() if not self._knows(key)}

    def seal(self) -> None:
        """From now on no file that is there changes: rows that follow get files of their own."""
        self._open.clear()

    def lost(self) -> list[Lost]:
        """Files that could not be read, behind which nothing was read.

        Of others numbers are missing between rows that are there, so they are known without it.
        """
        found = []
        for key, unread in sorted(self.unread.items()):
            series, begin = _numbered(key[2], *key[:2])
            if series is None:
                found.append(Lost(*key, None))
                continue
            have = self._have[series]
            first, _ = next(_lacking(have, begin, unread.end or begin + 1), (begin, 0))
            if all(start < first for start, _ in have):
                found.append(Lost(*key, unread.end - first if unread.end else None))
        return found

    def _knows(self, key: tuple[str, str, str]) -> bool:
        series, begin = _numbered(key[2], *key[:2])
        if series is None:
            return key in self._names
        return not any(_lacking(self._have[series], begin, self.unread[key].end or begin + 1))

    def _look_at(self, listed: Iterable[Found]) -> bool:
        """Copy the rows of files that are not here; returns whether all files were there still."""
        all_there = True
        for found in listed:
            if self._done.get(found.place) == found.state:
                continue
            key, again = found[:3], False
            try:
                self._copy(found)
            except _GoneError:
                # In the place of a stream there is a file, or numbers will be missing.
                again = True
                if not found.is_stream:
                    all_there = False
                    self.unread[key] = Unread(GONE, None)
            except _UnreadableError as error:
                self.unread[key], again = Unread(str(error), error.end), error.again
            else:
                self.unread.pop(key, None)
            if not again:
                self._done[found.place] = found.state
        return all_there

    def _copy(self, found: Found) -> None:
        with _reading():
            path = self._source.local(found)
        series, begin = _numbered(found.name, *found[:2])
        if series is None:
            self._copy_whole(found, path)
            return

        def lacks(at: int, count: int) -> bool:
            return any(_lacking(self._have[series], begin + at, begin + at + count))

        for at, part in _parts(path, lacks, begin):
            _check(part, found.table)
            first_of_part, end = begin + at, begin + at + part.num_rows
            for first, last in list(_lacking(self._have[series], first_of_part, end)):
                new = part.slice(first - first_of_part, last - first)
                self._append(found, series, first, new)

    def _append(self, found: Found, series: Series, begin: int, new: pa.Table) -> None:
        piece = self._open.get(series)
        if piece is not None and piece.end == begin:
            path, parts = piece.path, [self._own(piece), new]
        else:
            name = f"{series.life}-{begin:012d}.parquet"
            path, parts = self.folder / series.table / series.run / name, [new]
        _publish(path, parts)
        self._heard(found, new)
        self._has(series, begin, begin + new.num_rows, path)

    def _own(self, piece: _Piece) -> pa.Table:
        """The rows of a file of the copy."""
        try:
            found = pq.read_table(piece.path, partitioning=None)
        except (pa.ArrowException, OSError):
            found = None
        if found is None or found.num_rows != piece.end - piece.begin:
            raise OSError(
                f"{piece.path}, where what was read is kept, was changed by another program: "
                f"remove {self.folder} to begin anew"
            )
        return found

    def _copy_whole(self, found: Found, path: Path) -> None:
        """One whose rows have no numbers, of earlier versions or without any: it is read once."""
        if found[:3] in self._names:
            return
        parts = [part for _, part in _parts(path)]
        for part in parts:
            _check(part, found.table)
        _publish(self.folder / found.table / found.run / found.name, parts)
        self._names.add(found[:3])
        for part in parts:
            self._heard(found, part)

    def _heard(self, found: Found, part: pa.Table) -> int:
        self._on_rows(found.table, run_id_of(found.run), part)
        return int(part.num_rows)

    def _has(self, series: Series, begin: int, end: int, path: Path) -> None:
        piece = self._open.get(series)
        first = piece.begin if piece is not None and piece.path == path else begin
        self._have[series] = _joined([*self._have[series], (begin, end)])
        if end - first < PIECE_ROWS:
            self._open[series] = _Piece(path, first, end)
        else:
            self._open.pop(series, None)


def run_id_of(folder: str) -> str:
    """The id of the run whose folder has this name; Spark and pyarrow decode it too.

    >>> run_id_of("run_id=a%20b")
    'a b'
    """
    return unquote(folder.removeprefix(f"{rows.RUN_ID_COLUMN}="))


def life_of(name: str) -> str | None:
    """The life that a file's name begins with; None of a name without numbers.

    >>> life_of("c-7-1700-000000000000.parquet")
    'c-7-1700'
    """
    match = _NUMBERED.fullmatch(name)
    return None if match is None else match[1]


def _numbered(name: str, table: str, run: str) -> tuple[Series | None, int]:
    match = _NUMBERED.fullmatch(name)
    return (None, 0) if match is None else (Series(table, run, match[1]), int(match[2]))


def _lacking(have: Iterable[tuple[int, int]], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """What of the numbers from ``begin`` to before ``end`` is not in ``have``, which is in order.

    >>> list(_lacking([(0, 5), (7, 9)], 3, 12))
    [(5, 7), (9, 12)]
    """
    for first, last in have:
        if begin < min(first, end):
            yield begin, min(first, end)
        begin = max(begin, last)
    if begin < end:
        yield begin, end


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same numbers in order, in as few ranges as there are.

    >>> _joined([(7, 9), (0, 5), (5, 6), (3, 3)])
    [(0, 6), (7, 9)]
    """
    made: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if made and begin <= made[-1][1]:
            made[-1] = made[-1][0], max(made[-1][1], end)
        else:
            made.append((begin, end))
    return made


def _parts(
    path: Path, lacks: Callable[[int, int], bool] = lambda *_: True, begin: int = 0
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of a file in parts, each with how many are before it.

    Args:
        path: a Parquet file, or a stream.
        lacks: asked whether a part is wanted, by the rows before it and in it; not of streams.
        begin: the number of its first row.

    Raises:
        _GoneError, _UnreadableError: it is not there, or damaged.
    """
    with _reading():
        if path.suffix == rows.STREAM:
            found = whole_blocks(path)
            yield from [] if found is None else [(0, found)]
            return
        opened = pq.ParquetFile(path)
    at = 0
    with opened, _reading(begin + opened.metadata.num_rows):
        for number in range(opened.num_row_groups):
            count = opened.metadata.row_group(number).num_rows
            if lacks(at, count):
                yield at, opened.read_row_group(number)
            at += count
        if not at:
            yield 0, opened.schema_arrow.empty_table()


@contextlib.contextmanager
def _reading(end: int | None = None) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise _GoneError from error
    except (pa.ArrowException, OSError) as error:
        # What cannot be decompressed is an error of the system without a number.
        why = f"cannot be read: {next(iter(str(error).splitlines()), type(error).__name__)}"
        system = isinstance(error, OSError) and error.errno is not None
        raise _UnreadableError(why, end, again=system) from error


def _check(part: pa.Table, table: str) -> None:
    for field in rows.arrow_schema(pa, rows.TABLES[table]):
        if field.name in part.column_names and not pa.types.is_nested(field.type):
            kind = part.schema.field(field.name).type
            if kind != field.type:
                raise _UnreadableError(f"cannot be read: its column {field.name} has type {kind}")


def _publish(path: Path, parts: Iterable[pa.Table]) -> None:
    """Write a file at once, in the place of one of the same name."""
    path.parent.mkdir(exist_ok=True)
    table = pa.concat_tables(parts, promote_options="default")
    made = path.with_name(f"_{path.name}")
    pq.write_table(table, made, compression="zstd", row_group_size=PIECE_ROWS)
    made.replace(path)
