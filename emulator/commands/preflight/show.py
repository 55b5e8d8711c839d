"""A report of ``kraft-bridge preflight`` as text or JSON."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from rich.console import Console

from emulator.commands.json_forms import stamped
from emulator.io.printable import printable
from emulator.operations.preflight.engine import Severity
from emulator.operations.preflight.report import PreflightReport

STYLES = {Severity.BLOCKER: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


def to_json(report: PreflightReport) -> bytes:
    """One object of the form ``preflight``."""
    now = report.standing
    found = {
        "stage": {"name": now.stage.value, "text": now.text, "shown_by_a_log": now.shown},
        "counts": {one.value: report.count(one) for one in Severity},
        "findings": report.findings,
        "not_run": report.not_run,
    }
    return msgspec.json.encode(stamped("preflight", found))


def show(report: PreflightReport, console: Console) -> None:
    """Print where the migration stands, findings by severity, and rules that could not run."""
    now = report.standing
    console.print(
        printable(f"migration: {now.stage.value}: {now.text}"),
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    for one in report.findings:
        console.print(
            f"[{STYLES[one.severity]}]{one.code} {one.severity.value:8}[/] ",
            end="",
            highlight=False,
        )
        console.print(printable(one.znode), markup=False, highlight=False, soft_wrap=True)
        _lines(
            console,
            ("", one.fact),
            ("means: ", one.consequence),
            ("do: ", one.remedy),
            ("see: ", one.reference),
        )
    if report.not_run:
        console.print("[bold]I04 not looked at[/]", highlight=False)
    for skipped in report.not_run:
        _lines(console, (f"{skipped.code}: ", skipped.why))
    counts = ", ".join(f"{report.count(one)} {one.value}" for one in Severity)
    console.print(f"{counts}, {len(report.not_run)} not looked at", highlight=False)


def _lines(console: Console, *lines: tuple[str, str]) -> None:
    for label, text in _non_empty(lines):
        console.print(
            f"    {label}{printable(text)}", markup=False, highlight=False, soft_wrap=True
        )


def _non_empty(lines: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    return ((label, text) for label, text in lines if text)
