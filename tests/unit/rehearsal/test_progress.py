"""What a terminal and a pipe show while a rehearsal is played."""

from __future__ import annotations

import re
import sys
from contextlib import redirect_stderr

import pytest

from bench.eta import Course
from bench.rehearsal.phases import PHASES
from bench.rehearsal.progress import Progress
from emulator.io import log_output
from emulator.servers.waiting import wait_for
from tests.kit.screen import terminal, unfolded


def write(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def test_a_pipe_gets_the_place_and_the_time_left_with_each_phase() -> None:
    lines: list[str] = []
    with Progress(PHASES, 30, 20_000, lines.append) as progress:
        for number in range(len(PHASES)):
            progress.begin(number)
    assert re.fullmatch(
        r" +[\d.]+ s  copy: the metadata is copied \(phase 4 of 13, about [\w ]+ left\)", lines[3]
    )
    assert len(lines) == len(PHASES)
    # All before it took no time here, so of this one only the waiting counts.
    assert lines[-1].endswith("(phase 13 of 13, about 5 s left)")


@pytest.fixture(autouse=True)
def _a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def test_a_terminal_shows_it_in_its_last_line_and_no_frame_is_torn() -> None:
    with terminal(60) as shown, redirect_stderr(shown.stream):

        def foot(begins: str) -> None:
            wait_for("the foot", lambda: "".join(shown.settle()[-1:]).startswith(begins))

        with Progress(PHASES, 3, 60, write) as progress:
            foot("about ")
            progress.begin(6)
            foot("phase 7 of 13, abou")
            for number in range(20):
                progress.note(f"broker {number} is in KRaft mode " + "x" * 60)
            assert all(len(one) <= 57 for one in shown.settle()[-1:])
        first, *lines = unfolded(shown.settle())
        assert "to KRaft mode: brokers restart in KRaft mode (phase 7 of 13, " in first
        assert len(lines) == 20
        assert all(
            re.fullmatch(r" +[\d.]+ s  broker \d+ is in KRaft mode x+", one) for one in lines
        )


def test_no_frame_is_torn_where_standard_error_never_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the verb has it; what ends without a newline was taken for cut, and got one."""
    with terminal(60) as shown, redirect_stderr(shown.stream):
        monkeypatch.setattr(sys, "__stderr__", shown.stream)
        log_output.never_wait()

        def lines() -> list[str]:
            shown.stream.flush()
            return unfolded(shown.screen.text)

        with Progress(PHASES, 3, 60, write) as progress:
            wait_for("the foot", lambda: "".join(lines()).startswith("about "))
            progress.begin(6)
            progress.note("a line")
            wait_for("a frame", lambda: "to KRaft mode, 1 s" in "".join(lines()))
        wait_for("the end of the foot", lambda: len(lines()) == 2)
        assert [one[10:].partition(":")[0] for one in lines()] == ["to KRaft mode", "a line"]


def test_the_time_is_as_it_was_measured() -> None:
    """2,000 topics x 10 with 30 brokers took 553 to 604 s on two cores."""
    course = Course([one.takes.step(30, 20_000) for one in PHASES])
    assert 500 < course.left_s(0.0) < 620
