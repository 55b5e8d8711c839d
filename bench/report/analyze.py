"""``kraft-bridge analyze``: run the job over a trace, write the report beside its Parquet."""

from __future__ import annotations

import contextlib
import json
import math
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.text import Text

from bench.analysis import job
from bench.analysis.failure import reason
from bench.analysis.follow import Follower, Idle, Live, interrupts
from bench.analysis.reach import SparkUnavailableError
from bench.analysis.read import TraceError, read
from bench.analysis.session import SMALL, SMALL_BYTES, end, interruptible, session
from bench.analysis.sweep import job as sweep_job
from bench.analysis.sweep.conclusions import LAG_P99_MS, conclude
from bench.analysis.sweep.rows import ROWS
from bench.analysis.sweep.stalls import Predictions, predictions_of
from bench.analysis.tails import folder_of
from bench.report.beside import NOTHING, Beside, read_beside
from bench.report.findings import Finding, findings, lines
from bench.report.page import page
from bench.report.sweep import how_made, sweep_page, sweep_summary
from bench.report.sweep_verdict import sweep_answers, sweep_verdict
from bench.report.verdict import Judged, Threshold, Verdict, judge, of_run, runs_of, verdict
from emulator.io.disk import make_folder
from emulator.io.printable import printable
from emulator.trace import rows

SCHEMA: Final = "analyze/1"
"""A test holds it equal to that of the command line."""
SUMMARY: Final = "summary.json"
PREDICTIONS: Final = "predictions.json"
STREAMS: Final = "streams"
"""Folder beside the report: rows that no Parquet file of the trace has."""
_MISFIT: Final = (TypeError, KeyError, AttributeError, ArithmeticError)


class TraceUnreadableError(TraceError):
    """There is no trace at the given place, or Spark cannot read it; the text is one line."""


class NoSuchTraceError(TraceUnreadableError):
    """What is given is not there, is of another kind, or is given twice; Spark is not at fault."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """The output of ``analyze``; of a trace with a verdict of each run."""

    html: Path
    parquet: str
    findings: list[Finding]
    verdicts: list[Verdict] = field(default_factory=list)
    beside: Beside = NOTHING
    thresholds: list[Judged] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """What programs read, as docs/json.md has it; numbers that JSON does not have are null."""
        return {
            "schema": SCHEMA,
            "html": str(self.html),
            "parquet": self.parquet,
            "verdict": [
                {
                    "run_id": one.run_id,
                    "text": one.text,
                    "answers": [asdict(each) for each in one.answers],
                    "measures": {name: _finite(value) for name, value in one.measures.items()},
                }
                for one in self.verdicts
            ],
            "checks": msgspec.to_builtins(self.beside.checks),
            "thresholds": [
                {
                    "run_id": one.run_id,
                    "text": one.threshold.text,
                    "value": _finite(one.value),
                    "crossed": one.crossed,
                }
                for one in self.thresholds
            ],
            "findings": [asdict(one) for one in self.findings],
        }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def analyze(
    traces: str | Path | Sequence[str],
    out_dir: str | Path,
    master: str | None = None,
    remote: str | None = None,
    lag_limit_ms: float = LAG_P99_MS,
    *,
    fail_if: Sequence[Threshold] = (),
    tables: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Analysis:
    """Analyse a trace and write ``report.html``; the results lie in ``tables`` beside it.

    Args:
        traces: path or URI of a trace, or of one or more folders of bench runs (``rows.parquet``
            and ``trace``), as Spark sees it.
        out_dir: folder of this machine for the report; created.
        master: ``local[*]`` (default), ``spark://host:7077``, …
        remote: Spark Connect server, ``sc://host:15002``.
        lag_limit_ms: the lag's p99 that the headline of bench runs asks for.
        fail_if: of a trace: thresholds to judge each run by.
        tables: URI of a folder for the results that all workers see; None: beside the report.
        settings: more of Spark's own.

    Raises:
        JavaNotFoundError: a local session needs Java and there is none.
        TraceError: there is no trace, Spark cannot read it, it has another schema version, or
            what it says is impossible.
        SparkUnavailableError: Spark does not start.
    """
    places = [str(traces)] if isinstance(traces, str | Path) else list(traces)
    if here := remote is None and (master is None or master.startswith("local")):
        for place in places:
            look(place)
    twice = [place for place, times in Counter(map(_plain, places)).items() if times > 1]
    if twice:
        raise NoSuchTraceError(f"{twice[0]} is given twice: its rows would count as repeats")
    # Before minutes of work, check that the results can be written.
    make_folder(Path(out_dir))
    with interruptible() as again:
        small = here and _bytes_of(places) <= SMALL_BYTES
        spark = _session(master, remote, {**(SMALL if small else {}), **(settings or {})})
        again()  # Spark has put its own handler in the place of ours
        try:
            folder = Path(places[0])
            if (folder / ROWS).exists() if small else is_bench_run(spark, places[0]):
                if fail_if:
                    raise NoSuchTraceError(f"{places[0]} is no trace: a threshold is of one")
                return sweep_report(spark, places, Path(out_dir), lag_limit_ms, tables)
            if len(places) > 1:
                raise NoSuchTraceError(
                    f"{places[0]} is no folder of a bench run (it has no {ROWS}); "
                    "only such folders are analysed together"
                )
            return report(spark, places[0], Path(out_dir), fail_if, to=tables, small=small)
        except (Py4JError, PySparkException) as error:
            # Its text comes from the session, which ends here.
            raise TraceUnreadableError(reason(error)) from error
        except _MISFIT as error:
            raise _misfit(places, error) from error
        finally:
            _end(spark)


def _bytes_of(places: Sequence[str]) -> float:
    """What the rows in folders of this machine take; infinite where they are elsewhere."""
    if not all(Path(place).is_dir() for place in places):
        return math.inf
    files = (file for place in places for file in Path(place).rglob("*"))
    return sum(file.stat().st_size for file in files if file.suffix in {".parquet", rows.STREAM})


def _plain(place: str) -> str:
    return place if "://" in place else str(Path(place).absolute())


def _misfit(places: Sequence[str], error: Exception) -> TraceUnreadableError:
    """Rows that Spark could read, but that contradict what a trace is."""
    return TraceUnreadableError(
        f"{', '.join(places)}: its rows are no trace of this version "
        f"({type(error).__name__}: {error})"
    )


def _end(spark: SparkSession) -> None:
    # Java may be gone, and that is why it ends.
    with contextlib.suppress(Py4JError, OSError):
        end(spark)


def _session(
    master: str | None, remote: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    try:
        return session(master, remote, settings=settings)
    except (PySparkException, Py4JError) as error:
        raise SparkUnavailableError(f"Spark does not start: {reason(error)}") from error


def look(place: str, *, bench_runs: bool = True) -> None:
    """See whether a folder of this machine can be analysed, before Java is started for it.

    URIs and patterns are left to Spark.

    Args:
        place: the folder.
        bench_runs: whether it may be the folder of a bench run too.

    Raises:
        NoSuchTraceError: it is not there, or neither a trace nor a bench run.
    """
    if any(mark in place for mark in ":*?[{"):
        return
    folder = Path(place)
    if not folder.exists():
        raise NoSuchTraceError(f"{place}: there is no such folder")
    if (folder / "runs").is_dir() or (bench_runs and (folder / ROWS).exists()):
        return
    other = f" and no folder of a bench run (it has no {ROWS})" if bench_runs else ""
    raise NoSuchTraceError(f"{place} is no trace (it has no folder runs){other}")


def report(
    spark: SparkSession,
    trace: str,
    out: Path,
    fail_if: Sequence[Threshold] = (),
    *,
    to: str | None = None,
    small: bool = False,
) -> Analysis:
    """As `analyze`, in a Spark session that stays open; ``small``: see `read`."""
    beside = _beside(trace)
    opened = read(spark, trace, out.absolute() / STREAMS, small=small)
    return report_over(spark, opened, out, beside, fail_if, to=to)


def _beside(trace: str) -> Beside:
    try:
        return read_beside(trace)
    except ValueError as error:
        raise TraceUnreadableError(str(error)) from error


def follow(
    trace: str | Path,
    out_dir: str | Path,
    master: str | None = None,
    *,
    tables: str | None = None,
    settings: Mapping[str, str] | None = None,
    every_s: float = 10.0,
    idle_s: float | None = None,
    on_state: Callable[[Live], None],
    fail_if: Sequence[Threshold] = (),
) -> Analysis:
    """Analyse a trace while it grows; ``report.html`` is written again as it does.

    The rows that were read are kept in ``followed``, whatever becomes of the trace: in ``out_dir``,
    or on a cluster in ``tables``, if that is given. The same call goes on there after a restart. An
    interrupt (SIGINT) ends it with a report over all rows by then; a second one ends it at once.

    Args:
        trace: path or URI of the trace, as Spark sees it.
        out_dir: folder of this machine; one per trace.
        master: as for ``analyze``; Spark Connect cannot call back, so there is no ``remote``.
        tables: as for ``analyze``.
        settings: as for ``analyze``.
        every_s: seconds between two looks.
        idle_s: end when no row came for so long; None: only by an interrupt.
        on_state: called with each new state, from another thread.
        fail_if: as for ``analyze``.

    Raises:
        JavaNotFoundError, TraceError, SparkUnavailableError: as ``analyze``.
        OSError: the rows cannot be kept, or the trace not be listed.
    """
    out = Path(out_dir).absolute()
    kept, shared = f"{out}/followed", None
    if master is None or master.startswith("local"):
        look(str(trace), bench_runs=False)
    elif tables is not None:
        place = f"{tables.rstrip('/')}/followed"
        folder = folder_of(place)
        kept, shared = (kept, place) if folder is None else (str(folder), None)
    spark = _session(master, settings=settings)
    last: list[Analysis] = []
    idle = Idle(idle_s)
    try:
        with interrupts() as stop:
            follower = Follower(spark, str(trace), kept, shared)
            follower.run_until(
                idle,
                lambda found: last.append(
                    report_over(spark, found, out, _beside(str(trace)), fail_if, to=tables)
                ),
                on_state,
                every_s,
                stop,
            )
    except (Py4JError, PySparkException) as error:
        raise TraceUnreadableError(reason(error)) from error
    except _MISFIT as error:
        raise _misfit([str(trace)], error) from error
    finally:
        _end(spark)
    return last[-1]


def report_over(
    spark: SparkSession,
    trace: Mapping[str, DataFrame],
    out: Path,
    beside: Beside = NOTHING,
    fail_if: Sequence[Threshold] = (),
    *,
    to: str | None = None,
) -> Analysis:
    """Analyse tables that are open."""
    out = out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    parquet = _place(out, to)
    names = job.run_over(spark, trace, parquet)
    tables = {
        name: job.records(spark, f"{parquet}/{name}") for name in names if name not in job.LONG
    }
    if not any(tables.values()):
        raise TraceUnreadableError("there is no row in this trace")
    verdicts = [verdict(of_run(tables, run_id), run_id, beside) for run_id in runs_of(tables)]
    judged = judge(verdicts, fail_if)
    html = out / "report.html"
    html.write_text(page(tables, parquet, verdicts, beside, judged), encoding="utf-8")
    return _written(Analysis(html, parquet, findings(tables), verdicts, beside, judged))


def _written(done: Analysis) -> Analysis:
    """With its summary beside the report."""
    text = json.dumps(done.summary(), indent=1, allow_nan=False)
    done.html.with_name(SUMMARY).write_text(f"{text}\n", encoding="utf-8")
    return done


def _place(out: Path, tables: str | None) -> str:
    return f"{out}/tables" if tables is None else tables.rstrip("/")


def is_bench_run(spark: SparkSession, place: str) -> bool:
    """Whether a folder has the rows of a bench run."""
    try:
        return bool(spark.read.parquet(f"{place.rstrip('/')}/{ROWS}").columns)
    except AnalysisException:
        return False


def sweep_report(
    spark: SparkSession,
    places: Sequence[str],
    out: Path,
    lag_limit_ms: float = LAG_P99_MS,
    to: str | None = None,
) -> Analysis:
    """Analyse folders of bench runs in a session that stays open."""
    out = out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    parquet = _place(out, to)
    sweep_job.run(spark, places, parquet)
    tables = sweep_job.records(spark, parquet)
    for run_id, times in Counter(row["run_id"] for row in tables["described"]).items():
        if times > 1:
            raise TraceUnreadableError(f"{ROWS} has {times} rows of the run {run_id}")
    found = conclude(tables, lag_limit_ms, _predictions(places))
    options = ["--out", str(out), "--lag-p99-ms", f"{lag_limit_ms:g}"]
    command = shlex.join(["kraft-bridge", "analyze", *places, *options])
    html = out / "report.html"
    made = how_made(command, parquet)
    html.write_text(sweep_page(found, tables["described"], made), encoding="utf-8")
    answers = sweep_answers(found)
    verdict_of_all = Verdict("", sweep_verdict(answers), answers, {})
    return _written(Analysis(html, parquet, sweep_summary(found), [verdict_of_all]))


def _predictions(places: Sequence[str]) -> Predictions | None:
    """What ``make predict`` wrote beside the folder of its bench before it measured.

    Raises:
        TraceUnreadableError: it is there, and is none.
    """
    for place in places:
        folder = folder_of(place)
        file = folder and folder.parent / PREDICTIONS
        if file is not None and file.is_file():
            try:
                return predictions_of(json.loads(file.read_text()), PREDICTIONS)
            except (OSError, ValueError, *_MISFIT) as error:
                text = f"{file}: no predictions of `make predict` ({type(error).__name__}: {error})"
                raise TraceUnreadableError(text) from error
    return None


def print_summary(analysis: Analysis, console: Console) -> None:
    """Print the findings and where the report is; plain text where the console is no terminal."""
    width = console.width if console.is_terminal else None
    for judged in analysis.thresholds:
        word = "threshold crossed" if judged.crossed else "threshold held"
        line = Text(f"{word}  {judged.text}", "bold red" if judged.crossed else "")
        console.print(line, soft_wrap=True)
    for finding, text in lines(analysis.findings, width):
        wrapped = "\n".join(map(printable, text.split("\n")))
        shown = Text(wrapped, "yellow" if finding.warning else "")
        shown.stylize("bold", 0, len(finding.about))
        console.print(shown, soft_wrap=True)
    console.print(f"report  {analysis.html}", soft_wrap=True, highlight=False, markup=False)
    console.print(f"parquet {analysis.parquet}", soft_wrap=True, highlight=False, markup=False)
