"""Runs the five steps in order; everything they started has ended when this returns."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from typing import Final

from aiokafka.errors import KafkaError
from kazoo.exceptions import KazooException

from bench.demo.analysis import SparkFailedError, analyse
from bench.demo.migrate import migrate
from bench.demo.narrator import Check, Narrator
from bench.demo.needs import full, room_watched
from bench.demo.seed import seed
from bench.demo.stage import Options, Stage
from bench.demo.strain import strain
from bench.demo.verdict import judge_and_stop
from bench.eta import Step
from bench.load.cluster_api import RefusedError
from emulator.config.words import several
from emulator.servers.jars import JarsMissingError
from emulator.servers.java import JavaNotFoundError
from emulator.servers.process import ProcessError, end_undisturbed, interrupt_on_terminate, running

INTERRUPTED: Final = 130
_NEXT: Final = "docs/runbook.md is for a cluster of your own"
_REPORTS: Final = 5
"""The step in which the report is written: it has the checks before."""
_ASCII: Final = frozenset({"C", "POSIX"})
"""With these as LC_ALL Java finds no folder whose name has other letters; as LANG, Python tells its
children better."""

# The messages of these errors are enough; other errors are shown with their traceback.
_EXPECTED: Final = (
    ProcessError,
    RefusedError,
    JavaNotFoundError,
    JarsMissingError,
    KafkaError,
    KazooException,
    OSError,  # with it TimeoutError and ConnectionError
    subprocess.CalledProcessError,
)


def run(options: Options) -> int:
    """Run the demonstration.

    Returns:
        Exit code: 0 if every check of safety held, 1 if one did not or a step failed, 130 after
        Ctrl-C.
    """
    interrupt_on_terminate(signal.SIGINT)
    if os.environ.get("LC_ALL") in _ASCII:
        os.environ["LC_ALL"] = "C.UTF-8"
    options.out.mkdir(parents=True, exist_ok=True)
    narrator = Narrator(_course(options))
    narrator.print_line(f"everything of this run lies in {options.out}")
    interrupted = False
    filled: list[str] = []
    try:
        with (
            narrator.drawing(),
            Stage(options) as stage,
            room_watched(options.out) as filled,
        ):
            _steps(stage, narrator)
    except KeyboardInterrupt:
        reason = "".join(filled) or full(options.out)
        interrupted = not reason
        if reason:
            narrator.check("the step came to its end", held=False, figures=reason)
    except Exception as error:  # noqa: BLE001 - whatever ends a step is a check that failed
        reason = "".join(filled) or full(options.out)
        if not reason and not isinstance(error, _EXPECTED):
            narrator.err.print_exception()
        narrator.check("the step came to its end", held=False, figures=reason or f"{error}")
    end_undisturbed()
    left = running()
    if interrupted and not left:
        narrator.print_line(
            f"interrupted: every process has ended, and its logs are in {options.out}"
        )
        return INTERRUPTED
    narrator.check(
        "no process is left behind", not left, ", ".join(f"{p.name} {p.pid}" for p in left)
    )
    return INTERRUPTED if interrupted else _verdict(narrator, options)


def _course(options: Options) -> list[Step]:
    """How long each step took in one run on two quiet cores, and the load."""
    return [Step(6), Step(8), Step(2, options.seconds), Step(4), Step(25)]


def _steps(stage: Stage, narrator: Narrator) -> None:
    narrator.step(1, "A cluster in ZooKeeper mode")
    seed(stage, narrator)
    narrator.step(2, "Three controllers are put beside it; brokers restart with migration on")
    migrate(stage, narrator)
    narrator.step(3, "Dual write under load; a broker and the leading controller killed")
    load = strain(stage, narrator)
    narrator.step(4, "Two stores, one truth")
    judge_and_stop(stage, narrator, load)
    narrator.step(_REPORTS, "What the trace says")
    try:
        analyse(stage, narrator)
    except SparkFailedError as error:
        why = "Spark, its Java or its disk failed, and not the analysis"
        narrator.check_speed("the report is written", False, f"{error}", why)


def _is_other(check: Check) -> bool:
    """Whether it is of speed, or of the demonstration itself; the report counts neither."""
    return check.of_speed or check.step >= _REPORTS


def _verdict(narrator: Narrator, options: Options) -> int:
    """Print the last line: its checks of safety are those that the report has.

    Those of the last step are of the demonstration itself; if one fails, it has failed all the
    same. Those of speed decide nothing.
    """
    held = [each.held for each in narrator.checks if not _is_other(each)]
    others = Counter(each.held for each in narrator.checks if _is_other(each))
    counts = {"held": True, "not judged": None, "FAILED": False}
    also = ", ".join(f"{others[how]} {what}" for what, how in counts.items() if others[how])
    text = (
        f"{held.count(True)} of {several(len(held), 'check')} of safety held"
        + (f"; of {several(others.total(), 'other')}: {also}" if also else "")
        + f"; {narrator.elapsed_s:.0f} s in all"
    )
    if narrator.failed:
        narrator.end_line(f"demo FAILED: {text}; logs in {options.out}")
        return 1
    narrator.end_line(f"demo OK: {text}")
    report = options.out / "report" / "report.html"
    look = "open the report in a browser; " if report.exists() else ""
    narrator.end_line(f"next: {look}{_NEXT}; logs in {options.out}")
    sys.stdout.flush()
    return 0
