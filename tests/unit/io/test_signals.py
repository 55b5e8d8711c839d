"""Signals of a served process: an orderly stop, also when the terminal is closed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

SERVED = """
import asyncio, sys
from pathlib import Path
from emulator.io.clock import Clock
from emulator.io.disk import Disk
from emulator.io.run import Shell
from emulator.io.serving import own_process
from emulator.seam import Halt

class Drains:
    begun = deadline_ms = None

    def start(self, now_ms):
        return []

    def shutdown(self, now_ms):
        if self.begun:
            return [Halt(1, "cut off")]
        self.begun, self.deadline_ms = True, now_ms + 400
        print("stopping", flush=True)
        return []

    def step(self, events, now_ms):
        return [Halt(0, "drained")]

async def main():
    disk = Disk(Path(sys.argv[1])) if sys.argv[1:] else None
    shell = Shell(Drains(), disk, Clock(), log=lambda _: None, row=lambda _: None)
    own_process(shell)
    return (await shell.run(lambda: print("runs", flush=True))).exit_code

raise SystemExit(asyncio.run(main()))
"""
"""Its orderly stop takes 0.4 s; a second signal cuts it off, with code 1. It may have a folder."""
DEFAULT = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)"
IGNORED = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)"


@contextmanager
def served(before: str) -> Iterator[subprocess.Popen[str]]:
    """It runs; ``before``: what its process did first, as nohup does."""
    line = [sys.executable, "-c", before + SERVED]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as child:
        assert told(child) == "runs\n"
        try:
            yield child
        finally:
            child.kill()


def told(child: subprocess.Popen[str]) -> str:
    return child.stdout.readline()


@pytest.mark.requirement("B03")
@pytest.mark.parametrize("first", [signal.SIGHUP, signal.SIGTERM])
def test_a_terminal_that_is_closed_asks_for_an_orderly_stop_however_often(
    first: signal.Signals,
) -> None:
    with served(DEFAULT) as child:
        child.send_signal(first)
        assert told(child) == "stopping\n"
        child.send_signal(signal.SIGHUP)
        assert child.wait() == 0


def test_a_second_sigterm_after_it_stops_at_once() -> None:
    with served(DEFAULT) as child:
        child.send_signal(signal.SIGHUP)
        assert told(child) == "stopping\n"
        child.send_signal(signal.SIGTERM)
        assert child.wait() == 1


def test_under_nohup_a_closed_terminal_is_nothing() -> None:
    with served(IGNORED) as child:
        child.send_signal(signal.SIGHUP)
        child.send_signal(signal.SIGTERM)
        assert told(child) == "stopping\n"
        assert child.wait() == 0
