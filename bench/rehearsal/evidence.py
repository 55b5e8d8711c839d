"""What a rehearsal leaves as evidence: rows of JSON in one file, chained by hashes.

A line is a SHA-256 in hexadecimal digits, a blank, and a JSON object. The hash is that of the hash
of the line before, a newline, and the object's bytes as they are; the first line follows the hash
of ``SEED``. So whoever knows the last hash knows whether a byte was changed. Every other file of
the folder is named, with its digest.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

FILE: Final = "evidence.jsonl"
SEED: Final = b"kraft-bridge-evidence/1\n"
_REHEARSED: Final = "rehearsed"
_BLOCK: Final = 1 << 20


def sha256_of(path: Path) -> str:
    """Of a file.

    Raises:
        OSError: it cannot be read.
    """
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def chained(last: str, row: bytes) -> str:
    """The hash of a line that follows another one."""
    return hashlib.sha256(last.encode() + b"\n" + row).hexdigest()


class Evidence:
    """Writes rows; each is on its way to the disk when it was added.

    Args:
        folder: of the run.
        resumed: the last hash of the rows that an interrupted run has left, of which one that was
            cut is taken away; empty: a new file.

    Raises:
        NotInterruptedError: another rehearsal writes it, or has written it meanwhile.
        OSError: the file cannot be made, or is there already.
    """

    def __init__(self, folder: Path, *, resumed: str = "") -> None:
        self._folder = folder
        self._file = (folder / FILE).open("r+b" if resumed else "xb")
        try:
            _lock(self._file, folder)
            if resumed:
                self._go_on_behind(resumed)
        except BaseException:
            self._file.close()
            raise
        self.hash = resumed or hashlib.sha256(SEED).hexdigest()
        """Of the last line."""

    def _go_on_behind(self, last: str) -> None:
        text = self._file.read()
        whole = text[: text.rfind(b"\n") + 1]
        if not whole[:-1].rpartition(b"\n")[2].startswith(last.encode()):
            raise NotInterruptedError(f"{self._folder}: another rehearsal has written it meanwhile")
        self._file.truncate(len(whole))
        self._file.seek(len(whole))

    def add(self, kind: str, **members: Any) -> None:
        """Append a row.

        Raises:
            OSError: it cannot be written.
        """
        row = json.dumps({"kind": kind, **members}, separators=(",", ":")).encode()
        self.hash = chained(self.hash, row)
        self._file.write(self.hash.encode() + b" " + row + b"\n")
        self._file.flush()

    def add_files(self) -> None:
        """Append a row for each other file of the folder; nothing may write there any more.

        Raises:
            OSError: one cannot be read.
        """
        for path in _files(self._folder):
            name = path.relative_to(self._folder).as_posix()
            self.add("file", name=name, bytes=path.stat().st_size, sha256=sha256_of(path))

    def close(self) -> None:
        """No more rows."""
        self._file.close()


def _files(folder: Path) -> list[Path]:
    """All that is in a folder and below it, but for folders and the evidence itself."""
    every = (one for one in folder.rglob("*") if one.is_symlink() or not one.is_dir())
    return sorted(one for one in every if one != folder / FILE)


class NotInterruptedError(ValueError):
    """What is in a folder is no interrupted rehearsal; one sentence."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """What an interrupted rehearsal has left; ``hash``: of its last row."""

    rows: Sequence[Mapping[str, Any]]
    hash: str

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        """The rows of a kind."""
        return [one for one in self.rows if one["kind"] == kind]


def interrupted(folder: Path) -> Interrupted:
    """The rows of an interrupted rehearsal, without one that was cut; nothing is written.

    Raises:
        NotInterruptedError: there is none, or it came to its end, was changed, or still runs.
        OSError: it cannot be read.
    """
    path = folder / FILE
    if not path.is_file():
        raise NotInterruptedError(f"{folder} is not the folder of a rehearsal: there is no {FILE}")
    with path.open("rb") as file:
        _lock(file, folder)
        text = file.read()
    found = Verified(hash=hashlib.sha256(SEED).hexdigest())
    rows = list(_rows(text[: text.rfind(b"\n") + 1], found))
    if found.problems or not rows or rows[0]["kind"] != "begin":
        why = next(iter(found.problems), "it does not begin as it should")
        raise NotInterruptedError(f"{folder}: {why}: rehearse anew")
    if rows[-1]["kind"] == "end":
        raise NotInterruptedError(f"{folder}: this rehearsal came to its end: rehearse anew")
    return Interrupted(rows, found.hash)


def _lock(file: BinaryIO, folder: Path) -> None:
    """Have it alone, until it is closed.

    Raises:
        NotInterruptedError: another rehearsal writes it.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise NotInterruptedError(f"{folder}: another rehearsal writes it") from None


@dataclass(slots=True)
class Verified:
    """What a look at evidence found; ``problems`` empty: all agrees."""

    verdict: str = ""
    """``go`` or ``no-go``, from the rows; empty: they do not come to an end."""
    hash: str = ""
    rows: int = 0
    files: int = 0
    problems: list[str] = field(default_factory=list)


def verified(folder: Path, expected: str = "") -> Verified:
    """Look at the evidence in a folder.

    Args:
        folder: of a run.
        expected: the last hash as it was printed; empty: not known.

    Raises:
        OSError: there is none, or it cannot be read.
    """
    found = Verified(hash=hashlib.sha256(SEED).hexdigest())
    rows = list(_rows((folder / FILE).read_bytes(), found))
    if expected and found.hash != expected:
        found.problems.append(f"the last hash is {found.hash}, not {expected}")
    for row in rows:
        if row["kind"] == "file":
            found.files += 1
            found.problems += _of_file(folder, row)
    found.problems += _inserted(folder, rows)
    try:
        if not found.problems:
            found.problems += _derived(rows, found)
    except (TypeError, AttributeError, KeyError, ValueError):
        found.problems.append("the rows are not of the form evidence/1")
    return found


def _rows(text: bytes, found: Verified) -> Iterator[dict[str, Any]]:
    """Each row; a line that does not follow the one before is a problem."""
    *lines, end = text.split(b"\n")
    if end:
        found.problems.append(f"{FILE} is cut")
    for number, line in enumerate(lines, 1):
        found.rows = number
        shown, _, row = line.partition(b" ")
        found.hash = chained(found.hash, row)
        if shown != found.hash.encode():
            found.problems.append(f"line {number} of {FILE} was changed, or one before it")
            found.hash = shown.decode(errors="replace")
        try:
            value = json.loads(row)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and isinstance(value.get("kind"), str):
            yield value
        else:
            found.problems.append(f"line {number} of {FILE} is no row")


def _of_file(folder: Path, row: Mapping[str, Any]) -> Iterator[str]:
    name = str(row.get("name"))
    path = folder / name
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except ValueError:  # no file has such a name
        inside = False
    if not inside:
        yield f"{name} is not in the folder"
        return
    if path.exists() and not path.is_file():  # a pipe is never read to its end
        yield f"{name} is no file any more"
        return
    try:
        same = sha256_of(path) == row.get("sha256")
    except OSError as error:
        yield f"{name}: {error.strerror or error}"
        return
    if not same:
        yield f"{name} was changed"


def _inserted(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Files of which no row says anything: the rehearsal did not leave them."""
    named = {str(row.get("name")) for row in rows if row["kind"] == "file"}
    for path in _files(folder):
        if (name := path.relative_to(folder).as_posix()) not in named:
            yield f"{name} was put there afterwards"


def _derived(rows: Sequence[Mapping[str, Any]], found: Verified) -> Iterator[str]:
    """The verdict from the raw rows, and what contradicts what was written."""
    kinds = [row["kind"] for row in rows]
    if kinds[:1] != ["begin"] or kinds[-1:] != ["end"] or kinds.count("end") != 1:
        yield "the rows are not whole: the run was cut, or rows were taken away"
        return
    phases = [row for row in rows if row["kind"] == "phase"]
    if [one.get("phase") for one in phases] != rows[0].get("phases"):
        yield "the phases are not those that were to be played"
    changes = [row for row in rows if row["kind"] == "change"]
    for one in phases:
        yield from _figures(one, changes)
    against = [row for row in rows if row["kind"] == "reason"]
    against += [one for one in phases if one.get("state") != _REHEARSED]
    found.verdict = "no-go" if against or not phases else "go"
    if rows[-1].get("verdict") != found.verdict:
        yield f"the rows say {found.verdict}, and the last one {rows[-1].get('verdict')}"


def _figures(phase: Mapping[str, Any], changes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the changes of a phase contradict."""
    begin, end = phase.get("begin_s"), phase.get("end_s")
    if begin is None or end is None:
        return
    waits = [
        float(one["waited_s"])
        for one in changes
        if not one.get("error") and begin <= one.get("answered_s", 0.0) < end
    ]
    name, counted = phase.get("phase"), phase.get("changes")
    if counted != len(waits):
        yield f"{name}: {len(waits)} changes were carried out, not {counted}"
    elif max(waits, default=None) != phase.get("longest_change_s"):
        yield f"{name}: the longest change is another one"
