"""The copy of a trace that is followed: each row that a look found once, whatever goes later."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.analysis import mirror as made
from bench.analysis.mirror import GONE, Folder, Found, Lost, Mirror
from bench.verbs.trace_compact import compacted
from emulator.io.trace_file import TraceFile, TraceLimits
from emulator.servers.waiting import wait_for
from emulator.trace import rows

RUN = "run_id=r 1"
Damage = Callable[[Path], object]


class Heard:
    """What a mirror says of rows, by process: how often each came."""

    def __init__(self) -> None:
        self.stalls: Counter[tuple[str, int]] = Counter()

    def __call__(self, table: str, run_id: str, new: pa.Table) -> None:
        assert run_id == "r 1"
        if table == "stalls":
            self.stalls.update(
                (row["process"], row["begin_ns"])
                for row in new.select(["process", "begin_ns"]).to_pylist()
            )


class Followed:
    """A trace and its copy; each row of a life has its number as its instant."""

    def __init__(self, folder: Path, source: Callable[[Path], Folder] = Folder) -> None:
        self.trace, self.copy = folder / "the trace", folder / "the copy"
        (self.trace / "runs").mkdir(parents=True)
        self._source = source
        self.again()

    def again(self) -> None:
        """As after a restart."""
        self.heard = Heard()
        self.mirror = Mirror(self._source(self.trace), self.copy, self.heard)

    def file(self, life: str, begin: int, count: int) -> Path:
        path = self.trace / "stalls" / RUN / f"{life}-7-1700-{begin:012d}.parquet"
        return written(path, life, range(begin, begin + count))

    def kept(self) -> dict[str, list[int]]:
        """Instants of the rows of the copy by process, in the order of its files."""
        found: dict[str, list[int]] = {}
        for path in sorted((self.copy / "stalls").rglob("[!_]*.parquet")):
            table = pq.read_table(path, partitioning=None)
            if table.num_rows:
                begins = table["begin_ns"].to_pylist()
                if made.life_of(path.name):
                    assert begins == list(range(int(path.stem[-12:]), begins[-1] + 1))
                found.setdefault(table["process"][0].as_py(), []).extend(begins)
        rows_of_files = Counter((process, at) for process, every in found.items() for at in every)
        assert rows_of_files == self.heard.stalls
        return found


def written(path: Path, process: str, begins: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = rows.arrow_schema(pa, rows.StallRow)
    each = [{"begin_ns": at, "end_ns": at, "process": process} for at in begins]
    pq.write_table(pa.Table.from_pylist(each, schema), path)
    return path


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    return Followed(tmp_path)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["write", "late", "delete", "compact", "look", "seal", "again", "gone"]),
        st.integers(0, 9),
    ),
    max_size=16,
)


@given(EVENTS)
def test_each_row_that_a_look_found_is_kept_once_whatever_happens_to_files(
    events: list[tuple[str, int]],
) -> None:
    """Two lives write; files are deleted, come late, are put together; programs are restarted."""
    with tempfile.TemporaryDirectory() as folder:
        one = Followed(Path(folder))
        ends, seen = {"a": 0, "b": 0}, {"a": set[int](), "b": set[int]()}
        withheld: list[tuple[str, int, int]] = []
        for what, number in [*events, ("look", 0)]:
            life = "ab"[number % 2]
            there = sorted(one.trace.rglob("stalls/*/*.parquet"))
            if what in {"write", "late"}:
                if what == "write":
                    one.file(life, ends[life], number + 1)
                else:
                    withheld.append((life, ends[life], number + 1))
                ends[life] += number + 1
            elif what == "delete" and there:
                there[number % len(there)].unlink()
                if withheld:
                    one.file(*withheld.pop())
            elif what == "compact":
                compacted(one.trace)
            elif what == "gone":
                shutil.rmtree(one.trace / "stalls", ignore_errors=True)
            elif what == "again":
                one.again()
            elif what == "seal":
                one.mirror.seal()
            elif what == "look":
                one.mirror.take()
                for path in there:
                    table = pq.read_table(path, partitioning=None)
                    seen[path.name[0]].update(table["begin_ns"].to_pylist())
        assert one.kept() == {life: sorted(every) for life, every in seen.items() if every}
        assert one.mirror.lost() == []


def test_a_stream_is_read_as_it_grows_and_its_file_is_not_read_again(followed: Followed) -> None:
    """Nor is it when its process was killed and `trace compact` makes the file."""
    trace = TraceFile(followed.trace, "r 1", "c", limits=TraceLimits(block_rows=2))
    table = trace._writer._tables[rows.StallRow]

    def write(begin: int, end: int) -> None:
        for at in range(begin, end):
            trace.append(rows.StallRow(at, at))
        trace.flush()
        wait_for("the writer", lambda: table._stream_rows == end)
        followed.mirror.take()

    write(0, 5)
    assert followed.kept() == {"c": [*range(5)]}
    write(5, 8)
    followed.again()
    write(8, 9)
    assert followed.kept() == {"c": [*range(9)]}
    trace.close()
    assert not list(followed.trace.rglob("_*"))
    followed.mirror.take()
    assert followed.kept() == {"c": [*range(9)]}
    assert not followed.mirror.unread


def test_what_the_limit_of_a_real_trace_deletes_is_kept(followed: Followed) -> None:
    """Of a life that fills it several times over, and of the one after it."""
    limits = TraceLimits(block_rows=20, file_bytes=1, total_bytes=60_000)
    for life in (1, 2):
        now = [0.0]
        trace = TraceFile(followed.trace, "r 1", "c", limits=limits, clock=lambda now=now: now[0])
        table = trace._writer._tables[rows.StallRow]
        for at in range(500):
            trace.append(rows.StallRow(at, at))
            if at % 20 == 19:
                now[0] += 2.0
                wait_for("the writer", lambda table=table, at=at: table._rows == at + 1)
                followed.mirror.take()
        trace.close()
        followed.mirror.take()
        assert trace.deleted_bytes > 0
        assert sorted(followed.kept()["c"]) == sorted([*range(500)] * life)
    assert not followed.mirror.unread


class Vanishing(Folder):
    """A folder in which a file goes after it was listed, and before it is opened."""

    goes: ClassVar[set[str]] = set()

    def local(self, found: Found) -> Path:
        if found.name in self.goes:
            Path(found.place).unlink(missing_ok=True)
        return super().local(found)


def test_a_file_that_goes_after_it_was_listed_is_named(tmp_path: Path) -> None:
    """Until it comes back; the rows between others are known by their numbers alone."""
    one = Followed(tmp_path, Vanishing)
    paths = [one.file("a", begin, 5) for begin in (0, 5, 10)]
    Vanishing.goes = {paths[1].name, paths[2].name}
    one.mirror.take()
    assert one.kept() == {"a": [*range(5)]}
    assert {key[2]: unread.why for key, unread in one.mirror.unread.items()} == dict.fromkeys(
        Vanishing.goes, GONE
    )
    assert [lost.name for lost in one.mirror.lost()] == sorted(Vanishing.goes)
    Vanishing.goes = set()
    one.file("a", 10, 5)
    one.mirror.take()
    assert [lost.name for lost in one.mirror.lost()] == []
    assert [key[2] for key in one.mirror.unread] == [paths[1].name]
    one.file("a", 5, 5)
    one.mirror.take()
    assert one.kept() == {"a": [*range(15)]}
    assert not one.mirror.unread


def test_files_that_are_put_together_after_they_were_listed_are_read_all(tmp_path: Path) -> None:
    class Compacting(Folder):
        left = 1

        def local(self, found: Found) -> Path:
            if found.name.endswith("-000000000005.parquet") and self.left:
                self.left -= 1
                compacted(one.trace)
            return super().local(found)

    one = Followed(tmp_path, Compacting)
    for begin in (0, 5, 10):
        one.file("a", begin, 5)
    one.mirror.take()
    assert one.kept() == {"a": [*range(15)]}
    assert len(list(one.trace.rglob("stalls/*/*.parquet"))) == 1
    assert not one.mirror.unread


def test_a_compaction_that_was_cut_takes_nothing_from_it(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it removed the files that it has put together, and before theirs had its name."""
    for begin in (0, 5, 10):
        followed.file("a", begin, 5)

    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", cut)
        with pytest.raises(KeyboardInterrupt):
            compacted(followed.trace)
    assert len(list(followed.trace.rglob("stalls/*/a*.parquet"))) == 1
    followed.mirror.take()
    assert followed.kept() == {"a": [*range(15)]}
    compacted(followed.trace)
    followed.mirror.take()
    assert followed.kept() == {"a": [*range(15)]}


def cut_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def a_column_of_texts(path: Path) -> None:
    found = pq.read_table(path, partitioning=None)
    pq.write_table(found.set_column(0, "begin_ns", found["begin_ns"].cast(pa.string())), path)


DAMAGES: dict[str, Damage] = {
    "half a file": cut_in_half,
    "an empty file": lambda path: path.write_bytes(b""),
    "a text": lambda path: path.write_text("no Parquet, " * 99),
    "a column of texts": a_column_of_texts,
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_a_file_that_is_damaged_is_named_until_it_is_whole(
    followed: Followed, damage: Damage
) -> None:
    whole = followed.file("a", 0, 5).read_bytes()
    path = followed.file("a", 5, 5)
    last = path.read_bytes()
    damage(path)
    followed.mirror.take()
    assert followed.kept() == {"a": [*range(5)]}
    [(key, unread)] = followed.mirror.unread.items()
    assert key == ("stalls", RUN, path.name)
    assert unread.why.startswith("cannot be read: ")
    assert "\n" not in unread.why
    assert followed.mirror.lost() == [Lost(*key, None)]
    if path.is_dir():
        path.rmdir()
    path.write_bytes(last)
    path.with_name("copy").write_bytes(whole)
    followed.mirror.take()
    assert followed.kept() == {"a": [*range(10)]}
    assert not followed.mirror.unread


def test_a_file_that_was_read_may_shrink_be_damaged_or_be_replaced(followed: Followed) -> None:
    path = followed.file("a", 0, 8)
    followed.mirror.take()
    for change in (lambda: followed.file("a", 0, 3), lambda: cut_in_half(path), path.unlink):
        change()
        followed.mirror.take()
        assert followed.kept() == {"a": [*range(8)]}
        assert not followed.mirror.unread
    followed.file("a", 0, 9)
    followed.mirror.take()
    assert followed.kept() == {"a": [*range(9)]}


def test_a_damaged_group_of_rows_leaves_those_before_it(followed: Followed) -> None:
    path = followed.file("a", 0, 10)
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table, path, row_group_size=5)
    chunk = pq.read_metadata(path).row_group(1).column(0)
    damaged = bytearray(path.read_bytes())
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    damaged[begin : begin + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(damaged)
    followed.mirror.take()
    assert followed.kept() == {"a": [*range(5)]}
    assert followed.mirror.lost() == [Lost("stalls", RUN, path.name, 5)]


def test_files_of_earlier_versions_are_read_once_by_their_names(followed: Followed) -> None:
    old = followed.trace / "stalls" / RUN / "a-7-1700-00003.parquet"
    written(old, "a", range(5))
    followed.mirror.take()
    written(old, "a", range(9))
    followed.again()
    followed.mirror.take()
    old.unlink()
    followed.mirror.take()
    assert followed.kept() == {"a": [*range(5)]}


def test_rows_that_follow_are_put_into_the_last_file_until_it_is_long_or_in_use(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made, "PIECE_ROWS", 10)

    def files(begin: int, end: int) -> list[int]:
        for at in range(begin, end, 2):
            followed.file("a", at, 2)
            followed.mirror.take()
        return [
            int(path.stem[-12:]) for path in sorted((followed.copy / "stalls").rglob("*.parquet"))
        ]

    assert files(0, 12) == [0, 10]
    followed.mirror.seal()
    assert files(12, 14) == [0, 10, 12]
    followed.again()
    assert files(14, 16) == [0, 10, 12]
    assert followed.kept() == {"a": [*range(16)]}


def test_what_a_kill_left_half_written_of_the_copy_is_read_again(followed: Followed) -> None:
    followed.file("a", 0, 5)
    followed.mirror.take()
    [path] = (followed.copy / "stalls").rglob("*.parquet")
    path.with_name(f"_{path.name}").write_bytes(b"half")
    cut_in_half(path)
    followed.again()
    assert not list((followed.copy / "stalls").rglob("*.parquet"))
    followed.mirror.take()
    assert followed.kept() == {"a": [*range(5)]}


def test_a_copy_that_another_program_changes_or_removes_ends_it_in_one_sentence(
    followed: Followed,
) -> None:
    """Such as the same call a second time, which would count rows twice."""
    followed.file("a", 0, 5)
    followed.mirror.take()
    other = Mirror(Folder(followed.trace), followed.copy, Heard())
    for begin in (5, 10):
        followed.file("a", begin, 5)
    other.take()
    says = r"the copy.*, where what was read is kept, was changed by another program: remove .*copy"
    with pytest.raises(OSError, match=says):
        followed.mirror.take()
    shutil.rmtree(followed.copy)
    with pytest.raises(OSError, match=says):
        followed.mirror.take()


def test_the_folder_may_go_and_come_back(followed: Followed) -> None:
    followed.file("a", 0, 5)
    followed.mirror.take()
    shutil.rmtree(followed.trace)
    followed.mirror.take()
    assert followed.kept() == {"a": [*range(5)]}
    followed.file("a", 5, 2)
    followed.mirror.take()
    assert followed.kept() == {"a": [*range(7)]}
    assert not followed.mirror.unread
