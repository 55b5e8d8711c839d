"""``kraft-bridge analyze``: run the job over a trace, write the report beside its Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench.analysis import job
from bench.analysis.session import end, session
from bench.report.findings import Finding, findings
from bench.report.page import page


class TraceUnreadableError(Exception):
    """There is no trace at the given place; the text is Spark's first line."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """The output of ``analyze``."""

    html: Path
    parquet: str
    findings: list[Finding]


def analyze(
    trace_dir: str | Path,
    out_dir: str | Path,
    master: str | None = None,
    remote: str | None = None,
) -> Analysis:
    """Analyse a trace and write ``report.html``; the results lie in ``tables`` beside it.

    Args:
        trace_dir: path or URI of the trace, as Spark sees it.
        out_dir: folder of this machine for the report; created.
        master: ``local[*]`` (default), ``spark://host:7077``, …
        remote: Spark Connect server, ``sc://host:15002``.

    Raises:
        JavaNotFoundError: a local session needs Java and there is none.
        TraceVersionError: the trace has another schema version.
        TraceUnreadableError: Spark cannot find or read the trace.
    """
    spark = session(master, remote)
    try:
        return report(spark, str(trace_dir), Path(out_dir))
    except AnalysisException as error:
        # Its text comes from the session, which ends here.
        raise TraceUnreadableError(str(error).splitlines()[0]) from error
    finally:
        end(spark)


def report(spark: SparkSession, trace: str, out: Path) -> Analysis:
    """The same in a session that stays open."""
    out = out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    parquet = f"{out}/tables"
    names = job.run(spark, trace, parquet)
    tables = {name: _records(spark, f"{parquet}/{name}") for name in names if name not in job.LONG}
    html = out / "report.html"
    html.write_text(page(tables, parquet), encoding="utf-8")
    return Analysis(html, parquet, findings(tables))


def _records(spark: SparkSession, where: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in spark.read.parquet(where).collect()]


def print_summary(analysis: Analysis, console: Console) -> None:
    """Print the findings and where the report is; plain text where the console is no terminal."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for finding in analysis.findings:
        table.add_row(finding.about, finding.says, style="yellow" if finding.warning else None)
    console.print(table)
    console.print(f"report  {analysis.html}", soft_wrap=True, highlight=False)
    console.print(f"parquet {analysis.parquet}", soft_wrap=True, highlight=False)
