"""However a demonstration ends, it says how, and nothing that it started is left."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil

import pytest

from bench.demo.narrator import Narrator
from bench.demo.stage import Options
from emulator.servers.process import ProcessError, ServerProcess, _interrupts


@pytest.fixture
def ends(monkeypatch, tmp_path):
    """Run a demonstration whose first step starts a child and then ends as given."""
    # Loads the plots: not in every process that only looks which tests there are.
    from bench.demo import run as demo

    monkeypatch.setattr(demo, "interrupt_on_terminate", lambda *_: None)
    monkeypatch.setattr(_interrupts, "ending", False)
    child = ServerProcess("child", tmp_path)

    def run(how, speed=lambda _narrator: None, analyse=lambda *_: None):
        def seed(_stage, narrator):
            speed(narrator)
            child.launch(["sleep", "60"])
            narrator.check("something", held=how is None, figures="1 of 2")
            if how is not None:
                raise how

        monkeypatch.setattr(demo, "seed", seed)
        for step in ("migrate", "strain", "judge_and_stop"):
            monkeypatch.setattr(demo, step, lambda *_: None)
        monkeypatch.setattr(demo, "analyse", analyse)
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        code = demo.run(Options(tmp_path / "out"))
        assert not child.alive
        return code

    yield run
    child.kill()


def test_every_check_held(ends, capsys):
    assert ends(None) == 0
    assert "demo OK: 1 of 1 check of safety held; of 1 other: 1 held; " in capsys.readouterr().out


def test_a_failed_step(ends, capsys):
    assert ends(ProcessError("broker-1 ended with 1")) == 1
    out = capsys.readouterr().out
    assert "FAILED      something: 1 of 2" in out
    assert "FAILED      the step came to its end: broker-1 ended with 1" in out
    assert "OK          no process is left behind" in out
    assert "demo FAILED" in out


BUSY = "this machine was busy: other programs used 1.2 of 2 cores, ours 0.7"


@pytest.mark.parametrize(
    ("busy", "line", "end"),
    [
        (BUSY, f"NOT JUDGED  at least 8/s: 3.1/s; {BUSY}", "; of 3 others: 2 held, 1 not judged; "),
        (None, "FAILED      at least 8/s: 3.1/s", "; of 3 others: 2 held, 1 FAILED; "),
    ],
)
def test_safety_alone_decides_the_exit_code(ends, capsys, busy, line, end):
    def speed(narrator):
        narrator.check_speed("at least 8/s", False, "3.1/s", busy)
        narrator.check_speed("within 500 ms", True, "80 ms", busy)

    assert ends(None, speed) == 0
    out = capsys.readouterr().out
    assert f"{line}\n" in out
    assert "OK          within 500 ms: 80 ms\n" in out
    assert f"demo OK: 1 of 1 check of safety held{end}" in out
    assert ends(ProcessError("a lost change"), speed) == 1
    assert "demo FAILED: 1 of 3 checks of safety held" in capsys.readouterr().out


def test_a_report_that_spark_cannot_make_is_not_judged(ends, capsys, monkeypatch):
    from bench.demo import run as demo

    def analyse(*_):
        raise demo.SparkFailedError("no Java; to try again: kraft-bridge analyze trace")

    assert ends(None, analyse=analyse) == 0
    out = capsys.readouterr().out
    assert "NOT JUDGED  the report is written: no Java; to try again: kraft-bridge analyze" in out


def test_a_fault_of_ours_shows_where(ends, capsys):
    assert ends(KeyError("surprise")) == 1
    assert "Traceback" in capsys.readouterr().err


def test_servers_may_be_told_folders_of_any_name(ends, monkeypatch):
    monkeypatch.setenv("LC_ALL", "POSIX")
    seen = []
    assert ends(None, lambda _: seen.append(os.environ["LC_ALL"])) == 0
    assert seen == ["C.UTF-8"]


def test_ctrl_c(ends, capsys):
    assert ends(KeyboardInterrupt()) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_disk_that_gets_full_is_the_reason(ends, capsys, monkeypatch):
    from bench.demo import run as demo

    monkeypatch.setattr(demo, "full", lambda _: "the disk is full")
    for how in (KeyboardInterrupt(), KeyError("surprise")):
        assert ends(how) == 1
        seen = capsys.readouterr()
        assert "the step came to its end: the disk is full" in seen.out
        assert "Traceback" not in seen.err
        assert "interrupted" not in seen.err


def test_a_disk_that_was_full_is_the_reason_also_once_there_is_room_again(
    ends, capsys, monkeypatch
):
    from bench.demo import run as demo

    monkeypatch.setattr(
        demo, "room_watched", lambda _: contextlib.nullcontext(["the disk was full"])
    )
    assert ends(KeyboardInterrupt()) == 1
    assert "the step came to its end: the disk was full" in capsys.readouterr().out


class Full(io.StringIO):
    """A stream onto a disk without room."""

    def write(self, _text):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_standard_output_is_named_and_a_full_standard_error_ends_nothing(monkeypatch):
    monkeypatch.setattr("sys.stderr", Full())
    monkeypatch.setattr("sys.stdout", io.StringIO())
    narrator = Narrator()
    narrator.step(1, "A step")
    narrator.print_line("going on")
    assert narrator.check("it held", held=True)
    monkeypatch.setattr("sys.stdout", Full())
    with pytest.raises(OSError, match="standard output"):
        narrator.check("it held", held=True)


def test_figures_go_to_stdout_progress_to_stderr_without_colour(capsys, monkeypatch):
    monkeypatch.setenv("CI", "true")
    narrator = Narrator()
    assert not narrator.live
    narrator.step(1, "A step")
    narrator.print_line("going on")
    narrator.check("it held", held=True, figures="3")
    seen = capsys.readouterr()
    assert seen.out == "OK          it held: 3\n"
    assert "1. A step" in seen.err
    assert "going on" in seen.err
