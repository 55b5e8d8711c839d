"""Log lines on stderr, whatever stands behind it."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.io import log_output
from emulator.io.log_output import logger
from emulator.seam import Log


class Full(io.StringIO):
    """A file on a full disk."""

    def write(self, _text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("json", [False, True])
def test_a_line_that_cannot_be_written_is_lost_and_counted_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, json: bool
) -> None:
    log, before = logger("1", json=json), log_output.lines_lost()
    with monkeypatch.context() as full:
        full.setattr(sys, "stderr", Full())
        log(Log("warning", "said", {"why": "nobody hears"}))
        assert log_output.lines_lost() == before + 1
    log(Log("info", "again", {}))
    log(Log("info", "once more", {}))
    said = capsys.readouterr().err
    assert "again" in said
    assert said.count("log lines could not be written") == 1
    assert log_output.lines_lost() == before + 1


def test_a_line_for_which_nothing_can_be_loaded_is_lost_and_the_next_one_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log, before = logger("1"), log_output.lines_lost()

    def none_left(_name: str) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as full:
        full.setattr("emulator.io.log_output.importlib.import_module", none_left)
        log(Log("warning", "no descriptor is left", {}))
    assert log_output.lines_lost() == before + 1
    log(Log("info", "again", {}))
    assert "again" in capsys.readouterr().err


def test_each_line_has_the_id_of_its_event(capsys: pytest.CaptureFixture[str]) -> None:
    lines = {
        "active controller": "controller_active",
        ">> Received": "event",
        "<< Send": "effect",
        "said by nobody": "unlisted",
    }
    for text in lines:
        for as_json in (False, True):
            log = logger("1", json=as_json, level="trace")
            log(Log("trace", text, {"why": "asked"}))
    written = capsys.readouterr().err.splitlines()
    assert [line.split("[trace    ] ")[1] for line in written[::2]] == [
        f"{text} event_id={event_id} node=1 why=asked" for text, event_id in lines.items()
    ]
    assert {one["event"]: one["event_id"] for one in map(json.loads, written[1::2])} == lines


def test_a_field_of_that_name_takes_its_place_no_more_than_the_reverse(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log, before = logger("1"), log_output.lines_lost()
    log(Log("info", "active controller", {"event_id": "own"}))
    assert log_output.lines_lost() == before + 1
    log(Log("info", "stopped", {}))
    said = capsys.readouterr().err
    assert "own" not in said
    assert "event_id=log_lines_lost" in said


CONTROLS = [chr(one) for one in (*range(32), *range(0x7F, 0xA1), 0xAD, 0x61C)]
CONTROLS += [chr(one) for one in (0x200E, 0x2028, 0x2029, 0x202E, 0x2066, 0xFEFF, 0xE0001, 0xD800)]


@pytest.mark.parametrize("blank", ["", " "])
@pytest.mark.parametrize("as_json", [False, True])
def test_no_value_makes_a_line_or_moves_a_terminal(
    capsys: pytest.CaptureFixture[str], *, as_json: bool, blank: str
) -> None:
    log = logger("1", json=as_json)
    for one in CONTROLS:
        log(Log("info", "said", {"why": f"a{blank}{one}b", "all": [f"x{one}y"]}))
    lines = capsys.readouterr().err.removesuffix("\n").split("\n")
    assert len(lines) == len(CONTROLS)
    assert all(line.isprintable() for line in lines)
    if as_json:
        assert [json.loads(line)["why"] for line in lines] == [f"a{blank}{c}b" for c in CONTROLS]


SPEAKER = """
import sys
from emulator.io import log_output
from emulator.io.log_output import logger
from emulator.seam import Log

log_output.never_wait()
log = logger("1")
for number in range(int(sys.argv[1])):
    log(Log("info", "said", {"number": number, "text": "x" * int(sys.argv[2])}))
sys.stderr.write("a warning of somebody else\\n")
print(log_output.lines_lost(), flush=True)
sys.stdin.read(1)
log(Log("info", "at the end", {}))
"""


def speaker(lines: int, length: int, stderr: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SPEAKER, str(lines), str(length)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
    )


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    both = os.pipe()
    yield both
    for end in both:
        with contextlib.suppress(OSError):
            os.close(end)


def test_a_pipe_that_nobody_reads_is_not_waited_for(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    with speaker(1_000, 1_000, writing) as child:
        lost = int(child.stdout.readline())
        assert 900 < lost < 1_000
        said = b""
        while select.select([reading], [], [], 0)[0]:
            said += os.read(reading, 1 << 20)
        child.communicate("\n")
    os.close(writing)
    while more := os.read(reading, 1 << 20):
        said += more
    assert child.returncode == 0
    *whole, told = said.decode().splitlines()
    assert "at the end" in whole[-1]
    assert f"log lines could not be written event_id=log_lines_lost lines={lost}" in told
    assert [f"number={number} " in line for number, line in enumerate(whole[:30])] == [True] * 30


def test_long_lines_are_cut_and_do_not_spoil_the_next_one(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    with speaker(2, 100_000, writing) as child:
        assert int(child.stdout.readline()) > 1
        said = os.read(reading, 1 << 20)
        child.communicate("\n")
    os.close(writing)
    while more := os.read(reading, 1 << 20):
        said += more
    (last,) = (line for line in said.decode().splitlines() if "at the end" in line)
    assert last.startswith("20")


@pytest.mark.parametrize("behind", ["a full disk", "a closed pipe", "nothing"])
def test_what_stands_behind_it_ends_nobody(behind: str, pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    to = os.open("/dev/full", os.O_WRONLY) if behind == "a full disk" else pipe[1]
    with speaker(3, 1, to) as child:
        assert int(child.stdout.readline()) == 4
        child.communicate("\n")
    if behind == "a full disk":
        os.close(to)
    assert child.returncode == 0


def test_a_closed_standard_error_is_no_file_of_the_node(tmp_path: Path) -> None:
    """Its number is not that of the next file: C code writes there."""
    program = (
        "from emulator.commands import boundary; boundary.have_streams(); import os, sys;"
        f"made = os.open({str(tmp_path / 'log')!r}, os.O_CREAT | os.O_WRONLY);"
        "os.write(2, b'abort'); sys.stderr.write('x'); sys.stderr.flush(); assert made > 2"
    )
    command = ["/bin/sh", "-c", 'exec "$0" -c "$1" 2>&- 1>&- 0<&-', sys.executable, program]
    assert subprocess.run(command, check=False).returncode == 0
    assert (tmp_path / "log").read_bytes() == b""
