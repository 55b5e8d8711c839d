"""The report of a rehearsal as one HTML document."""

from __future__ import annotations

from bench.rehearsal.verdict import NOT_SHOWN, Rehearsal, table, verdict
from bench.report.blocks import Block, Note, ReportSection, ReportTable, TableColumn, render
from bench.report.findings import Finding


def page(found: Rehearsal) -> str:
    """The document: the verdict, every reason, the table of phases, and what was assumed."""
    head, *rows = table(found.phases)
    columns = [TableColumn(name, at < 2) for at, name in enumerate(head)]
    sections = [ReportSection("Phases", [ReportTable(columns, rows), *_whys(found)])]
    sections += [
        ReportSection(title, [Note(line) for line in lines])
        for title, lines in (
            ("Predicted for the real ZooKeeper", found.predicted),
            ("Warnings of preflight, which do not decide", found.warnings),
            ("Assumed", found.assumed),
            ("Not shown by this", NOT_SHOWN),
        )
        if lines
    ]
    reasons = [Finding(one.kind, one.text, warning=True) for one in found.reasons]
    return render(f"Rehearsal of {found.dump}", reasons, sections, verdict(found))


def _whys(found: Rehearsal) -> list[Block]:
    """What each phase does, why it did not come to its end, and what going back takes then."""
    lines: list[Block] = []
    for one in found.phases:
        parts = (one.did, one.why, f"to go back: {one.going_back}" if one.going_back else "")
        lines.append(Note(f"{one.phase}: {'; '.join(filter(None, parts))}"))
    return lines
