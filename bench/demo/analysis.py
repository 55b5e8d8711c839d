"""Step 5: Spark over the trace, in a child process, so that its Java ends with it.

``python -m bench.demo.analysis TRACE OUT`` is that child.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from bench.analysis.reach import SparkUnavailableError
from bench.demo.differing import in_force
from bench.demo.narrator import Check, Narrator
from bench.demo.stage import Stage
from bench.report.analyze import SUMMARY, Analysis, analyze, print_summary
from bench.report.beside import RunCheck, write_beside
from bench.report.findings import Finding
from emulator.io.printable import sentence
from emulator.servers.java import JavaNotFoundError
from emulator.servers.process import ProcessError, ServerProcess
from emulator.servers.waiting import PATIENCE_S

_POLL_S: Final = 0.1
_OF_SPARK: Final = 3
"""Exit code of the child: not the analysis failed, but Spark."""
_SPARK_ERRORS: Final = (SparkUnavailableError, JavaNotFoundError)
_OF_RAISING_MODULE: Final = (ConnectionError, EOFError, MemoryError)
"""Errors of Spark only if a module of `_SPARKS` raised them; others raise them too."""
_SPARKS: Final = frozenset({"py4j", "pyspark"})
_SPARK_WORDS: Final = re.compile(
    r"OutOfMemoryError|No space left|Disk quota|SparkContext.* (stopped|shut down)|ExecutorLost"
)
_ANOTHERS: Final = ("SPARK_", "PYSPARK_", "HADOOP_", "YARN_")
"""So begin variables that name another Spark than the one that comes with pyspark, or its files."""
_FROM_OUTSIDE: Final = (" src=", "@import", "<link")
_CLOSED: Final = "Content-Security-Policy\" content=\"default-src 'none'"
"""With this a browser fetches nothing, whatever else a page says."""
_REMEDIES: Final = {
    1: "Look at the logs of ZooKeeper and of the brokers: the old cluster did not come up.",
    2: "Do not go on: a cluster of yours would go back from here (docs/rollback.md). "
    "The logs of the controllers have the reason.",
    3: "Do not finalise. The logs of the controllers and brokers of the time of the kills have "
    "the reason; what clients sent and did not get is to be sent again.",
    4: "Do not finalise, and do not go back. This names what differs (FILE and FOLDER: of the "
    "controller that leads):\n"
    "`kraft-bridge zk diff --zookeeper HOSTS --log-dir FOLDER`\n"
    "Check first which value is right. If that of ZooKeeper is, set it anew with Kafka's tools. If "
    "that of the log is, this overwrites ZooKeeper with it:\n"
    "`kraft-bridge zk reconcile -c FILE --yes`\n"
    "Then the first must print EQUAL.",
}
"""By the step of the demonstration; a command is a line of its own."""
_OF_SPEED: Final = "Run `kraft-bridge demo` again on a quiet machine; for safety nothing follows."


class SparkFailedError(ProcessError):
    """Spark, its Java or its disk failed, not the analysis; the message says how to try again."""


def analyse(stage: Stage, narrator: Narrator) -> None:
    """Run the analysis, print its summary and where the report lies.

    Raises:
        SparkFailedError: Spark did not do its part.
        ProcessError: the analysis failed.
    """
    out = stage.options.out / "report"
    write_beside(stage.trace, written(narrator.checks), narrator.events, narrator.end)
    narrator.print_line("PySpark reads the trace of all controllers, in all their lives")
    began = time.monotonic()
    _run(stage.trace, out)
    took_s = time.monotonic() - began
    left = json.loads((out / SUMMARY).read_text())
    found = [Finding(**each) for each in left["findings"]]
    analysis = Analysis(Path(left["html"]), left["parquet"], found)
    with narrator.above():
        print_summary(analysis, narrator.out)
    page = analysis.html.read_text()
    foreign = [mark for mark in _FROM_OUTSIDE if mark in page]
    tables = sorted(Path(analysis.parquet).glob("*/*.parquet"))
    narrator.check(
        "one self-contained HTML report, and the Parquet behind it",
        bool(found) and _CLOSED in page and not foreign and bool(tables),
        f"{len(page) / 1000:.0f} kB; {len(tables)} tables; {len(found)} lines; in {took_s:.0f} s"
        + (f"; it refers to {foreign}" if foreign else ""),
    )


def _run(trace: Path, out: Path) -> None:
    """Run the child; nothing of what it and Spark keep while they run is left.

    Raises:
        SparkFailedError: Spark did not do its part.
        ProcessError: the analysis failed.
    """
    spark = ServerProcess("spark", out.parent)
    scratch = out.with_name("spark-scratch")
    scratch.mkdir()
    kept = {
        **dict.fromkeys(name for name in os.environ if name.startswith(_ANOTHERS)),
        "SPARK_LOCAL_DIRS": str(scratch),
        "TMPDIR": str(scratch),
        # Read as a shell does.
        "SPARK_SUBMIT_OPTS": f'"-Djava.io.tmpdir={scratch}"',
    }
    command = [sys.executable, "-m", "bench.demo.analysis", *map(str, (trace, out))]
    try:
        spark.launch(command, kept)
        end = time.monotonic() + PATIENCE_S
        while spark.alive and time.monotonic() < end:
            time.sleep(_POLL_S)
        problem = fault(None if spark.alive else spark.exit_code, "\n".join(spark.lines()))
    finally:
        spark.kill()
        shutil.rmtree(scratch, ignore_errors=True)
    if problem is not None:
        again = shlex.join([sys.argv[0], "analyze", str(trace), "--out", str(out)])
        raise type(problem)(f"{problem} (all it printed is in {spark.out}); to try again: {again}")


def fault(code: int | None, printed: str) -> ProcessError | None:
    """What a child that analysed ended with; None if it did what it should.

    Args:
        code: its exit code, negative for a signal; None: it did not end in time.
        printed: all that it printed.
    """
    if code == 0:
        return None
    if code is None:
        return SparkFailedError(
            f"Spark failed: it has not ended within {PATIENCE_S / 60:g} minutes"
        )
    if code < 0:
        ended = signal.Signals(-code).name
        return SparkFailedError(f"Spark failed: its driver was ended by {ended}, not by us")
    last = printed.rstrip().rpartition("\n")[2] or f"it ended with {code}, and printed nothing"
    if code == _OF_SPARK:
        return SparkFailedError(f"Spark failed: {last}")
    return ProcessError(f"the analysis failed: {last}")


def is_of_spark(error: BaseException) -> bool:
    """Whether Spark, its Java or the disk that it writes to ended an analysis, not the analysis."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return True
    if isinstance(error, (*_SPARK_ERRORS, Py4JNetworkError)):
        return True
    if isinstance(error, Py4JError | PySparkException):
        from_spark = _SPARK_WORDS.search(str(error)) is not None
    else:
        from_spark = isinstance(error, _OF_RAISING_MODULE) and _raised_in(error) in _SPARKS
    return from_spark or (cause is not None and is_of_spark(cause))


def _raised_in(error: BaseException) -> str:
    """The package of the innermost frame that is not of the standard library."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    packages = [str(each.f_globals.get("__name__")).partition(".")[0] for each in frames]
    return next((one for one in reversed(packages) if one not in sys.stdlib_module_names), "")


def written(checks: Sequence[Check]) -> list[RunCheck]:
    """The checks as they lie beside a trace, each with what to do where it did not hold."""
    return [
        RunCheck(
            one.what,
            one.held,
            one.figures,
            not one.of_speed,
            _OF_SPEED
            if one.of_speed
            else f"{in_force(one.wrong)} {_REMEDIES.get(one.step, '')}".strip(),
            one.wrong,
        )
        for one in checks
    ]


def main(trace: str, out: str) -> int:
    """Analyse; the last line printed says what failed.

    Returns:
        Exit code: 0, 1 if the analysis failed, 3 if Spark did.
    """
    try:
        analyze(trace, out)
    except Exception as error:  # noqa: BLE001 - whatever it is, who waits has to be told whose it is
        traceback.print_exc()
        name = type(error).__name__
        sys.stderr.write(f"{' '.join(sentence(error).split()) or name} ({name})\n")
        return _OF_SPARK if is_of_spark(error) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
