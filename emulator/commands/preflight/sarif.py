"""A report of ``kraft-bridge preflight`` as SARIF 2.1.0, which pipelines read.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
from rich.console import Console

from emulator.commands.common import columns
from emulator.commands.json_forms import stamped
from emulator.config.words import several
from emulator.io.printable import printable
from emulator.operations.next_steps import as_json as steps_as_json
from emulator.operations.next_steps import lines, of_preflight
from emulator.operations.preflight.engine import (
    Finding,
    Rule,
    Severity,
    listed,
    printed,
    with_code,
)
from emulator.operations.preflight.report import PreflightReport, PreflightVerdict, rules
from emulator.operations.preflight.rolling import Roll

# A report of ``kraft-bridge preflight`` as text or JSON.

STYLES = {Severity.BLOCKER: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
NODES_MAX: Final = 10
SHOWN_MAX: Final = 3
"""Findings of one kind that are named; the others are counted."""
_VARIES: Final = re.compile(r"[\w./-]*\d[\w./-]*")
"""Numbers, and paths and names with one in them."""


def to_json(report: PreflightReport, asked: str) -> bytes:
    """One object of the form ``preflight``."""
    now, roll = report.standing, report.roll or Roll((), 0)
    found = {
        "stage": {"name": now.stage.value, "text": now.text, "shown_by_a_log": now.shown},
        "roll": {"done": roll.done, "of": roll.of, "not_restarted": roll.pending},
        "counts": {one.value: report.count(one) for one in Severity},
        "findings": [with_code(one) for one in report.findings],
        "not_run": [with_code(one) for one in report.not_run],
        "next": steps_as_json(of_preflight(report, asked)),
    }
    return msgspec.json.encode(stamped("preflight", found))


def show(report: PreflightReport, console: Console, asked: str) -> None:
    """Print the verdict, where the migration stands, findings by kind, and what could not run.

    Of a migration that is final only that: what else was found is of no use any more.
    """
    now = report.standing
    _print(console, verdict(report))
    for line in lines(of_preflight(report, asked), columns()):
        _print(console, line)
    _print(console, f"migration: {now.stage.value}: {now.text}")
    if report.final:
        return
    show_findings(report.findings, console)
    if report.not_run:
        console.print("[bold]PF-I04 not looked at[/]", highlight=False)
    for skipped in report.not_run:
        _lines(console, (f"{printed(skipped.code)}: ", skipped.why))


def show_findings(findings: Iterable[Finding], console: Console) -> None:
    """Print findings by kind: of many that differ in their place alone the first ones."""
    for some in kinds(findings):
        one = some[0]
        console.print(
            f"[{STYLES[one.severity]}]{printed(one.code)} {one.severity.value:8}[/] ",
            end="",
            highlight=False,
        )
        if len(some) == 1:
            _print(console, one.znode)
            facts = [("", one.fact)]
        else:
            facts, nodes = _together(some)
            _print(console, nodes or f"{len(some):,} of this kind")
        _lines(
            console,
            *facts,
            ("means: ", one.consequence),
            ("do: ", one.remedy),
            ("see: ", one.reference),
        )


def _together(some: list[Finding]) -> tuple[list[tuple[str, str]], str]:
    """Findings of one kind: what they say, each with its nodes; and all nodes, if they are files.

    What two nodes have alike is said once.
    """
    said: dict[str, list[str]] = {}
    for one in some:
        node, colon, key = one.znode.partition(": ")
        text = f"{key}: {one.fact}" if colon else f"{one.znode}: {one.fact}"
        said.setdefault(text, []).append(node if colon else "")
    nodes = list(dict.fromkeys(x for names in said.values() for x in names if x))
    shown = list(said.items())[:SHOWN_MAX]
    lines = [
        ("", f"{text}; in {listed(names, NODES_MAX)}" if len(said) > 1 and names[0] else text)
        for text, names in shown
    ]
    if len(said) > SHOWN_MAX:
        lines.append(("", f"and {len(said) - SHOWN_MAX:,} more; --json names all"))
    return lines, f"{several(len(nodes), 'node')}: {listed(nodes, NODES_MAX)}" if nodes else ""


def verdict(report: PreflightReport) -> str:
    """The first line: whether a migration is blocked, and how many findings there are."""
    blockers, warnings = report.count(Severity.BLOCKER), report.count(Severity.WARNING)
    counts = (
        f"{several(blockers, 'blocker')}, {several(warnings, 'warning')}, "
        f"{report.count(Severity.INFO):,} info, {len(report.not_run):,} not looked at"
    )
    if report.roll is not None:
        counts = f"{report.roll.text}; {counts}"
    match report.verdict:
        case PreflightVerdict.FINAL:
            said = "the migration is finalised; there is nothing to check"
        case PreflightVerdict.INCOMPLETE:
            said = f"no blocker found, but files of nodes are missing: {counts}"
        case _:
            said = counts
    return f"{report.verdict.value}: {said}"


def kinds(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Findings that differ only in where they are and in numbers, together; in their order."""
    found: dict[tuple[object, ...], list[Finding]] = {}
    for one in findings:
        texts = (one.fact, one.consequence, one.remedy, one.reference)
        shape = tuple(_VARIES.sub("#", text.replace(one.znode, "#")) for text in texts)
        found.setdefault((one.code, one.severity, *shape), []).append(one)
    return list(found.values())


def _print(console: Console, text: str) -> None:
    console.print(printable(text), markup=False, highlight=False, soft_wrap=True)


def _lines(console: Console, *lines: tuple[str, str]) -> None:
    for label, text in _non_empty(lines):
        console.print(
            f"    {label}{printable(text)}", markup=False, highlight=False, soft_wrap=True
        )


def _non_empty(lines: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    return ((label, text) for label, text in lines if text)


SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
LEVELS: Final = {Severity.BLOCKER: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
LETTERS: Final = {"B": "error", "W": "warning", "I": "note"}


def to_sarif(report: PreflightReport, files: Collection[str]) -> bytes:
    """One log with one run.

    Args:
        report: the findings.
        files: names of the files and folders given; a finding about one has its place there, all
            others a znode.
    """
    known = rules()
    places = {rule.code: index for index, rule in enumerate(known)}
    run = {
        "tool": {
            "driver": {
                "name": "kraft-bridge preflight",
                "version": version("kraft-bridge"),
                "rules": [_rule(one) for one in known],
            }
        },
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [
                    {
                        "level": "note",
                        "message": {"text": f"not looked at: {one.why}"},
                        "associatedRule": {"id": printed(one.code)},
                    }
                    for one in report.not_run
                ],
            }
        ],
        "results": [_result(one, places[one.code], files) for one in report.findings],
        "properties": {
            "stage": report.standing.stage.value,
            "stageText": report.standing.text,
        },
    }
    return msgspec.json.encode({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(one: Rule) -> dict[str, Any]:
    seen = " ".join((one.check.__doc__ or "").split()).replace("``", "`")
    found: dict[str, Any] = {
        "id": printed(one.code),
        "deprecatedIds": [one.code],
        "shortDescription": {"text": one.title},
        "fullDescription": {"text": seen},
        "defaultConfiguration": {"level": LETTERS[one.code[0]]},
    }
    if one.incident:
        found["help"] = {"text": one.incident}
    return found


def _result(one: Finding, index: int, files: Collection[str]) -> dict[str, Any]:
    parts = (one.fact, f"Means: {one.consequence}", f"Do: {one.remedy}", f"See: {one.reference}")
    texts = [part for part in parts if part and not part.endswith(": ")]
    return {
        "ruleId": printed(one.code),
        "ruleIndex": index,
        "level": LEVELS[one.severity],
        "message": {"text": ". ".join([f"{one.znode}: {texts[0]}", *texts[1:]])},
        "locations": [_place(one.znode, files)],
    }


def _place(where: str, files: Collection[str]) -> dict[str, Any]:
    name = next((x for x in files if where == x or where.startswith(f"{x}: ")), None)
    logical = {"fullyQualifiedName": where, "kind": "resource"}
    if name is None:
        return {"logicalLocations": [logical]}
    return {
        "physicalLocation": {"artifactLocation": {"uri": _uri(name)}},
        "logicalLocations": [logical],
    }


def _uri(name: str) -> str:
    path = Path(name)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
