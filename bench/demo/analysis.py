"""Step 5: Spark over the trace, in a child process, so that its Java ends with it.

``python -m bench.demo.analysis TRACE OUT CHECKS`` is that child; it leaves ``OUT/summary.json``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from bench.demo.clients import ADMIN
from bench.demo.narrator import Narrator
from bench.demo.stage import Stage
from bench.report.analyze import Analysis, analyze, print_summary
from bench.report.blocks import Note, ReportSection, table
from bench.report.findings import Finding
from bench.rig.process import Process, ProcessError

_SPARK_S: Final = 180.0
_SUMMARY: Final = "summary.json"
_CHECKS: Final = "checks.json"
_FROM_OUTSIDE: Final = ("http://", "https://", "src=", "@import", "<link")


def analyse(stage: Stage, narrator: Narrator) -> None:
    """Run the analysis, print its summary and where the report lies.

    Raises:
        ProcessError: it failed or took too long.
    """
    out = stage.options.out / "report"
    spark = Process("spark", stage.options.out)
    trace = chosen(stage.trace, out.with_name("trace-of-leader"), processes(stage))
    out.mkdir(parents=True, exist_ok=True)
    checks = out / _CHECKS
    checks.write_text(json.dumps([asdict(one) for one in narrator.checks], indent=1))
    spark.launch([sys.executable, "-m", "bench.demo.analysis", str(trace), str(out), str(checks)])
    narrator.say(f"PySpark reads the trace of controller {stage.controllers.leader}, which leads")
    spark.wait_until("the end of the analysis", lambda: not spark.alive, _SPARK_S)
    if spark.exit_code != 0:
        raise ProcessError(f"the analysis ended with {spark.exit_code}:\n{spark.tail()}")
    left = json.loads((out / _SUMMARY).read_text())
    found = [Finding(**each) for each in left["findings"]]
    analysis = Analysis(Path(left["html"]), left["parquet"], found)
    print_summary(analysis, narrator.out)
    page = analysis.html.read_text()
    foreign = [mark for mark in _FROM_OUTSIDE if mark in page.replace("http://www.w3.org/", "")]
    tables = sorted(Path(analysis.parquet).glob("*/*.parquet"))
    narrator.check(
        "one self-contained HTML report, and the Parquet behind it",
        bool(found) and "<svg" in page and not foreign and bool(tables),
        f"{len(page) / 1000:.0f} kB with {page.count('<svg')} plots; {len(tables)} tables; "
        f"{len(found)} findings" + (f"; it refers to {foreign}" if foreign else ""),
    )


def processes(stage: Stage) -> tuple[str, ...]:
    """The administrator, and the controller that led when all had ended, in its last life.

    The others followed, or led in a life that was cut: what they say of one request does not fit
    together.
    """
    leader = stage.controllers.leader
    return f"{ADMIN}-", f"controller-{leader}-{stage.controllers.nodes[leader].pid}-"


def chosen(trace: Path, folder: Path, begins: tuple[str, ...]) -> Path:
    """A trace of the files of some processes: those whose names begin so; returns its folder."""
    for file in trace.rglob("*.parquet"):
        if file.name.startswith(begins):
            place = folder / file.relative_to(trace)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.hardlink_to(file)
    return folder


def sections(checks: Sequence[Mapping[str, Any]]) -> list[ReportSection]:
    """What the demonstration did and checked up to here, for the report."""
    rows = [
        {
            "step": one["step"],
            "held": {True: "yes", False: "NO", None: "not judged"}[one["held"]],
            "check": one["what"],
            "figures": one["figures"],
        }
        for one in checks
    ]
    note = Note(
        "What the demonstration did and checked before this analysis. The leading controller and "
        "a broker were killed under load; what the load met then is in the latencies below."
    )
    return [ReportSection("Checks of the demonstration", [note, *table(rows)])]


def main(trace: str, out: str, checks: str) -> None:
    """Analyse and leave the summary as JSON."""
    analysis = analyze(trace, out, also=sections(json.loads(Path(checks).read_text())))
    left = {
        "html": str(analysis.html),
        "parquet": analysis.parquet,
        "findings": [asdict(finding) for finding in analysis.findings],
    }
    Path(out, _SUMMARY).write_text(json.dumps(left, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
