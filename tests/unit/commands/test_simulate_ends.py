"""``simulate --jobs``: the processes that run the seeds end with the command, however it ends."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

_ENDS_S = 30.0


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)]
)
@pytest.mark.slow
def test_its_processes_end_with_it(sent: signal.Signals, code: int) -> None:
    """The signal reaches the command alone, as from a supervisor, not its processes."""
    words = "simulate --kind quick --seed 0 --count 100000 --jobs 2 --story"
    command = [sys.executable, "-c", "from emulator.cli import main; main()", *words.split()]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
        preexec_fn=_no_signal_ignored,  # noqa: PLW1509 - no thread is started before it runs
    ) as program:
        assert program.stdout.readline(), "it has run seeds"
        workers = _workers(program.pid)
        ends = [os.pidfd_open(worker) for worker in workers]
        program.send_signal(sent)
        try:
            program.communicate(timeout=_ENDS_S)
            assert program.returncode == code
            for end in ends:
                assert select.select([end], [], [], _ENDS_S)[0], f"{workers}: one is left"
        finally:
            for worker in workers:
                _kill(worker)
            for end in ends:
                os.close(end)
    assert len(workers) == 2


def _no_signal_ignored() -> None:
    """Who runs the tests in the background may have had SIGINT ignored, which is inherited."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _workers(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(child) for child in text.split()]


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
