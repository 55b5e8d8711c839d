"""``python -m bench``: every scenario, the request path and the codec, then the report of all.

What was measured already is not measured again, so an interrupted run goes on. ``--quick`` takes
the quick cases once: about half an hour on two cores, the most important first; without it every
case five times, a night.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from bench.runs.code import code_digest

SCENARIOS: Final = (
    "create-storm",
    "knee",
    "freeze",
    "isr-churn",
    "growth",
    "initial-copy",
    "restart",
    "latency",
    "order",
    "raw-limit",
    "leader-killed",
    "config-churn",
    "knee-bounds",
    "slow-log",
    "busy-disk",
    "long-stall",
    "broker-restart",
    "counterfactual",
    "scale",
)
"""The most important first."""
OUT: Final = Path("out/bench")
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CTRL_C_S: Final = 10.0
"""A program that got Ctrl-C has as long to end before it is asked once more."""
_CLI: Final = ("-c", "from emulator.cli import main; main()")


@dataclass(frozen=True, slots=True)
class Part:
    """A program; ``done`` is there once it has ended well. None: it sees itself what is left."""

    name: str
    arguments: tuple[str, ...]
    done: Path | None = None


def parts(*, quick: bool, scenario: str | None, any_code: bool) -> list[Part]:
    """What runs, in order."""
    options = ["--repeat", "1" if quick else "5", "--out", str(OUT)]
    options += ["--quick"] if quick else []
    options += ["--any-code"] if any_code else []
    wanted = [scenario] if scenario else [*SCENARIOS]
    found = [Part("scenarios", (*_CLI, "bench", "run", *wanted, *options))]
    if scenario is None:
        # A short measurement does not replace the long one.
        rates = "rates-quick" if quick else "rates"
        small = ("--rounds", "1", "--seconds", "2") if quick else ()
        found.append(_micro("request path", rates, *small))
        found.append(_micro("codec", "codec"))
        if not quick:
            found.append(_micro("cost of the trace", "recording"))
    return found


def _micro(title: str, folder: str, *options: str) -> Part:
    """A measurement of ``bench.micro``; its file says that it has ended well, with this code."""
    program = ("-m", "bench.micro", folder.partition("-")[0], *options, "--out", str(OUT / folder))
    return Part(title, program, OUT / f"{folder}-{code_digest('bench/micro')}.done")


def report(wanted: Sequence[str]) -> Part | None:
    """The analysis of every scenario that has rows; None if none has."""
    folders = [OUT / Path(name).stem for name in wanted]
    there = [str(each) for each in folders if (each / "rows.parquet").exists()]
    if not there:
        return None
    return Part("report", (*_CLI, "analyze", *there, "--out", str(OUT / "report")))


def play(found: Sequence[Part], run: Callable[[Sequence[str]], int]) -> int:
    """Run the parts as separate programs, so that no garbage of one affects another.

    Returns:
        0 if all ended well.
    """
    failed = 0
    for part in found:
        sys.stdout.write(f"\n== {part.name}\n")
        sys.stdout.flush()
        if part.done is not None and part.done.exists():
            sys.stdout.write("is there\n")
            continue
        code = run([sys.executable, *part.arguments])
        failed |= int(bool(code))
        if part.done is not None and not code:
            part.done.parent.mkdir(parents=True, exist_ok=True)
            part.done.touch()
    return failed


def run(command: Sequence[str]) -> int:
    """Run a program; returns its exit code.

    When this process is asked to end, so is the program, and its end is awaited: it ends servers,
    and would measure for hours else.
    """
    asked: list[int] = []
    # A signal while the program begins would leave it behind: it is acted on when there is one.
    handlers = {one: signal.signal(one, lambda n, _frame: asked.append(n)) for one in _ENDING}
    with subprocess.Popen(command) as program:
        try:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            for sent in asked:
                signal.raise_signal(sent)
            return program.wait()
        except KeyboardInterrupt:
            # Ctrl-C has reached it too; what is sent to this process alone has not.
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(_CTRL_C_S)
            program.terminate()
            program.wait()  # after Ctrl-C, Popen itself does not
            raise
        except SystemExit:
            program.terminate()
            raise


def end_on_terminate() -> None:
    """Make SIGTERM and SIGHUP raise SystemExit, so that the program that runs is ended too."""

    def end(_number: int, _frame: FrameType | None) -> None:
        sys.exit(1)

    for number in _ENDING[1:]:
        signal.signal(number, end)


def main() -> int:
    """Parse the command line, and run."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the quick cases, once")
    parser.add_argument("--scenario", help="one scenario alone: its name, or a file")
    parser.add_argument("--any-code", action="store_true", help="keep rows of other source code")
    asked = parser.parse_args()
    found = parts(quick=asked.quick, scenario=asked.scenario, any_code=asked.any_code)
    end_on_terminate()
    try:
        failed = play(found, run)
        last = report([asked.scenario] if asked.scenario else SCENARIOS)
        return failed if last is None else failed | play([last], run)
    except KeyboardInterrupt:
        sys.stdout.write("interrupted; the same command goes on\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
