"""Evidence shows every changed byte, and the verdict follows from its rows alone."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.rehearsal.evidence import FILE, SEED, Evidence, chained, verified
from bench.rehearsal.verdict import FAILED, NOT_REHEARSED, REHEARSED
from tests.unit.commands.running import run

ROOT = Path(__file__).parents[3]
PHASES = ["wait", "copy"]


def phase(name: str, begin_s: float, state: str = REHEARSED, **more: Any) -> dict[str, Any]:
    found = {"phase": name, "state": state, "begin_s": begin_s, "end_s": begin_s + 10}
    return {**found, "changes": 0, "longest_change_s": None, **more}


def left(
    folder: Path, *, verdict: str = "go", more: list[tuple[str, dict[str, Any]]] | None = None
) -> str:
    """A folder as a rehearsal leaves it; returns the last hash."""
    (folder / "report.json").write_text("{}\n")
    (folder / "logs").mkdir()
    (folder / "logs/a.out").write_text("a line\n")
    evidence = Evidence(folder)
    evidence.add("begin", phases=PHASES)
    for answered_s, waited_s, error in ((11.0, 0.5, 0), (12.0, 2.25, 0), (13.0, 9.0, 41)):
        evidence.add("change", api="A", answered_s=answered_s, waited_s=waited_s, error=error)
    rows = more or [
        ("phase", phase("wait", 0)),
        ("phase", phase("copy", 10, changes=2, longest_change_s=2.25)),
    ]
    for kind, members in rows:
        evidence.add(kind, **members)
    evidence.add_files()
    evidence.add("end", verdict=verdict)
    evidence.close()
    return evidence.hash


def test_what_was_left_agrees_and_the_hash_is_that_of_the_page(tmp_path: Path) -> None:
    last = left(tmp_path)
    found = verified(tmp_path, last)
    assert (found.problems, found.verdict, found.hash, found.files) == ([], "go", last, 2)
    first = (tmp_path / FILE).read_bytes().splitlines()[0]
    shown, _, row = first.partition(b" ")
    seed = hashlib.sha256(SEED).hexdigest().encode()
    assert shown.decode() == hashlib.sha256(seed + b"\n" + row).hexdigest()


def test_each_changed_byte_is_found(tmp_path: Path) -> None:
    last = left(tmp_path)
    for path in (tmp_path / FILE, tmp_path / "report.json", tmp_path / "logs/a.out"):
        whole = path.read_bytes()
        for at in range(len(whole)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert verified(tmp_path, last).problems, (path, at)
        path.write_bytes(whole)
    assert not verified(tmp_path, last).problems


def chain_anew(rows: list[bytes]) -> bytes:
    """What somebody makes who changes a row and every hash behind it."""
    last, lines = hashlib.sha256(SEED).hexdigest(), []
    for row in rows:
        last = chained(last, row)
        lines.append(last.encode() + b" " + row + b"\n")
    return b"".join(lines)


def test_who_chains_anew_is_found_by_the_hash_that_was_printed(tmp_path: Path) -> None:
    last = left(tmp_path)
    rows = [one.partition(b" ")[2] for one in (tmp_path / FILE).read_bytes().splitlines()]
    rows = [one.replace(b'"waited_s":0.5', b'"waited_s":0.4') for one in rows]
    (tmp_path / FILE).write_bytes(chain_anew(rows))
    assert not verified(tmp_path).problems, "it agrees with itself"
    assert [one.partition(" is ")[0] for one in verified(tmp_path, last).problems] == [
        "the last hash"
    ]


FORGED: dict[str, tuple[Callable[[list[dict[str, Any]]], object], str]] = {
    "a longest wait": (lambda rows: rows[5].update(longest_change_s=0.1), "the longest change"),
    "a count": (lambda rows: rows[5].update(changes=1), "2 changes were carried out, not 1"),
    "a verdict": (lambda rows: rows[-1].update(verdict="no-go"), "the rows say go"),
    "a phase": (lambda rows: rows.pop(4), "not those that were to be played"),
    "the end": (lambda rows: rows.pop(), "the rows are not whole"),
    "a name": (lambda rows: rows[6].update(name="a\0"), "is not in the folder"),
    "a file": (lambda rows: rows[6].update(name="../x"), "../x is not in the folder"),
}


@pytest.mark.parametrize("what", FORGED)
def test_what_contradicts_the_raw_rows_is_found_without_a_hash(what: str, tmp_path: Path) -> None:
    left(tmp_path)
    change, said = FORGED[what]
    lines = (tmp_path / FILE).read_bytes().splitlines()
    rows = [json.loads(one.partition(b" ")[2]) for one in lines]
    change(rows)
    forged = chain_anew([json.dumps(one).encode() for one in rows])
    (tmp_path / FILE).write_bytes(forged)
    assert said in " ".join(verified(tmp_path).problems)


@pytest.mark.parametrize("state", [FAILED, NOT_REHEARSED])
def test_a_phase_that_was_not_rehearsed_is_no_go(state: str, tmp_path: Path) -> None:
    rows = [("phase", phase("wait", 20)), ("phase", phase("copy", 30, state))]
    left(tmp_path, verdict="no-go", more=rows)
    assert (verified(tmp_path).verdict, verified(tmp_path).problems) == ("no-go", [])


def as_file(path: Path) -> None:
    path.write_text("mine\n")


def as_link(path: Path) -> None:
    path.symlink_to("/etc")


@pytest.mark.parametrize("put", [as_file, as_link, os.mkfifo])
@pytest.mark.parametrize("name", ["report.txt", "logs/b.out", ".hidden", "logs/evidence.jsonl"])
def test_what_is_put_there_afterwards_is_found_by_us_and_by_the_program(
    put: Callable[[Path], None], name: str, tmp_path: Path
) -> None:
    last = left(tmp_path)
    put(tmp_path / name)
    assert verified(tmp_path, last).problems == [f"{name} was put there afterwards"]
    assert read(tmp_path, last) == (
        1,
        [*read(tmp_path)[1][:2], f"WRONG: {name} was put there afterwards"],
    )


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    last = left(tmp_path)
    (tmp_path / "logs/a.out").unlink()
    os.mkfifo(tmp_path / "logs/a.out")
    assert verified(tmp_path, last).problems == ["logs/a.out is no file any more"]


def test_the_verb_says_what_it_proves(tmp_path: Path) -> None:
    last = left(tmp_path)
    code, out, _ = run("evidence", "verify", tmp_path)
    assert (code, out.splitlines()[0]) == (0, "go: from 9 rows and 2 files, none was changed")
    assert "only that the folder agrees with itself" in out
    code, out, _ = run("evidence", "verify", tmp_path, "--hash", last)
    assert (code, len(out.splitlines())) == (0, 1)
    (tmp_path / "report.json").write_text("{ }\n")
    code, out, _ = run("evidence", "verify", tmp_path)
    assert (code, out) == (1, "WRONG: report.json was changed\n")
    code, _, err = run("evidence", "verify", tmp_path / "none")
    assert (code, "No such file" in err) == (3, True)


PROGRAM = ROOT / "docs/examples/read_evidence.py"


def read(folder: Path, *more: str) -> tuple[int, list[str]]:
    """What the program of the docs says."""
    command = [sys.executable, "-I", str(PROGRAM), str(folder), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_the_program_of_the_docs_reads_it_without_us(tmp_path: Path) -> None:
    last = left(tmp_path)
    assert len(PROGRAM.read_text().splitlines()) <= 80
    code, lines = read(tmp_path, last)
    assert (code, lines[-2:]) == (0, ["GO", f"none was changed; last hash {last}"])
    assert lines[1] == "copy: rehearsed, 2 changes, the longest waited 2.25 s"
    (tmp_path / "logs/a.out").write_text("another\n")
    code, lines = read(tmp_path, last)
    assert (code, lines[-1]) == (1, "WRONG: logs/a.out was changed")
    assert "GO" not in lines


SPOILT: dict[str, Callable[[list[bytes]], bytes]] = {
    "empty": lambda _: b"",
    "its last byte cut": lambda lines: b"".join(lines)[:-1],
    "a line cut": lambda lines: b"".join(lines[:-1]),
    "other line ends": lambda lines: b"".join(lines).replace(b"\n", b"\r\n"),
    "two lines the other way round": lambda lines: b"".join([lines[0], lines[2], lines[1]]),
    "a line twice": lambda lines: b"".join([*lines, lines[-1]]),
    "no phases": lambda lines: chain_anew([row(lines[0]), row(lines[-1])]),
    "an end that is not there": lambda lines: chain_anew([row(one) for one in lines[:-1]]),
    "another verdict": lambda lines: chain_anew(
        [row(one).replace(b'"go"', b'"no-go"') for one in lines]
    ),
}


def row(line: bytes) -> bytes:
    return line.partition(b" ")[2].rstrip(b"\n")


@pytest.mark.parametrize("what", SPOILT)
def test_the_program_of_the_docs_and_we_find_the_same(what: str, tmp_path: Path) -> None:
    left(tmp_path)
    file = tmp_path / FILE
    file.write_bytes(SPOILT[what](file.read_bytes().splitlines(keepends=True)))
    assert verified(tmp_path).problems
    code, lines = read(tmp_path)
    assert code == 1
    assert lines[-1].startswith("WRONG: ")
    assert not {"GO", "NO-GO"} & {*lines}
