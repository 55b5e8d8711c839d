"""What a run found, as text, JSON, JUnit's XML and a page of HTML."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final
from xml.etree import ElementTree as ET

from bench.conformance.case import Case, Facts, Level
from bench.conformance.runner import BYTES_KEPT, Finding
from emulator.config.words import several

OUTCOMES: Final = ("passed", "failed", "not offered", "not judged")
_SHOWN: Final = 50


@dataclass(frozen=True, slots=True)
class Report:
    """A run that has ended. ``address``: of the server; ``again``: a command line without case."""

    findings: Sequence[Finding]
    facts: Facts
    address: str
    again: str
    seed: int
    prefix: str
    seconds: float
    fail_on: frozenset[Level]
    newer: Sequence[str]
    """APIs of a release after 3.9: they are not judged."""
    left: Sequence[str]
    """What could not be removed."""
    ended: str = ""
    """Why the server could not be judged to the end; empty: it was."""
    reached: bool = True
    """Whether the server was there to the end."""

    @property
    def failed(self) -> list[Finding]:
        """Findings that failed, those of ``fail_on`` first."""
        found = [one for one in self.findings if one.outcome == "failed"]
        return sorted(found, key=lambda one: (one.case.level not in self.fail_on, one.id))

    @property
    def held(self) -> bool:
        """Whether no case of ``fail_on`` failed."""
        return all(one.case.level not in self.fail_on for one in self.failed)

    @property
    def groups(self) -> dict[str, Counter[str]]:
        """Group -> outcome -> how many."""
        found: dict[str, Counter[str]] = {}
        for one in self.findings:
            found.setdefault(one.case.group, Counter())[one.outcome] += 1
        return found

    @property
    def verdict(self) -> str:
        """One line."""
        count = Counter(one.outcome for one in self.findings)
        levels = Counter(one.case.level.value for one in self.failed)
        judged = count["passed"] + count["failed"]
        if not judged:
            return "conformance NOT JUDGED: no case could be run"
        how = ", ".join(f"{levels[one]} {one.value}" for one in Level if levels[one])
        what = (
            f"{count['failed']} of {judged} cases failed ({how})"
            if how
            else several(judged, "case")
        )
        rest = f"{count['not offered']} not offered, {count['not judged']} not judged"
        if self.ended and (self.held or not self.reached):
            return f"conformance NOT JUDGED to its end: {self.ended}; {what} before; {rest}"
        return f"conformance {'OK' if self.held else 'FAILED'}: {what}; {rest}"


def text(report: Report) -> Iterator[str]:
    """Lines: verdict, next step, the server, a line a group, what failed, what is not offered."""
    facts = report.facts
    yield report.verdict
    if not report.held:
        yield "next: mend the first that FAILED below, then type the line behind its 'again'"
    release = f"Kafka {facts.release}" if facts.release else "release unknown"
    where = ", ".join(one.value for one in facts.ranges)
    brokers = several(len(facts.brokers), "live broker") if facts.brokers else "no broker asked"
    yield f"server: {report.address} ({where}), {release}, {brokers}"
    yield f"seed {report.seed}, prefix {report.prefix}, {report.seconds:.1f} s"
    yield ""
    yield f"{'group':<16}" + "".join(f"{one:>13}" for one in OUTCOMES)
    for group, count in report.groups.items():
        yield f"{group:<16}" + "".join(f"{count[one]:>13}" for one in OUTCOMES)
    for one in report.failed:
        yield ""
        yield f"FAILED {one.case.level} {one.id}: {one.case.title}"
        yield f"  {one.why}: expected {one.expected}, got {one.got}"
        yield f"  source: {one.case.sources or '-'}; rows: {' '.join(one.case.rows) or '-'}"
        yield f"  again: {report.again} --only {one.case.id}"
    yield from _missing(report)
    for left in report.left:
        yield f"left on the server: {left}; remove it with --clean {report.prefix}"


def _missing(report: Report) -> Iterator[str]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for one in report.findings:
        if one.outcome in {"not offered", "not judged"}:
            reasons.setdefault((one.outcome, one.why), []).append(one.id)
    if reasons or report.newer:
        yield ""
    for (outcome, why), ids in sorted(reasons.items()):
        whole = list(dict.fromkeys(_whole(one) for one in ids))
        names = ", ".join(whole[:_SHOWN]) + (", ..." if len(whole) > _SHOWN else "")
        yield f"{outcome}: {why} ({len(ids)}: {names})"
    if report.newer:
        yield f"not judged, newer than 3.9: API keys {', '.join(report.newer)}"


def _whole(id_: str) -> str:
    """An id without listener, version and kind: the API alone."""
    return id_.partition("@")[0].rstrip("0123456789.").removesuffix(".tags")


def document(report: Report) -> dict[str, Any]:
    """The same for programs, without ``schema``."""
    return {
        "verdict": report.verdict,
        "server": report.address,
        "release": report.facts.release or None,
        "seed": report.seed,
        "prefix": report.prefix,
        "seconds": round(report.seconds, 3),
        "cases": [
            {
                "id": one.id,
                "title": one.case.title,
                "level": one.case.level.value,
                "outcome": one.outcome,
                "why": one.why,
                "expected": one.expected,
                "got": one.got,
                "sources": one.case.sources,
                "rows": list(one.case.rows),
            }
            for one in report.findings
        ],
        "left": list(report.left),
    }


def as_json(found: dict[str, Any]) -> str:
    """One document."""
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


# ------------------------------------------------------------------ JUnit
_CONTROLS: Final = {one: "?" for one in range(32) if one not in {9, 10, 13}}


def _xml(value: str) -> str:
    """A text without what XML cannot hold."""
    kept = value.translate(_CONTROLS)
    return "".join(one if not 0xD800 <= ord(one) < 0xE000 else "?" for one in kept)


def junit(report: Report) -> str:
    """JUnit's XML: a suite for each group; what is not offered or not judged is skipped."""
    root = ET.Element("testsuites", name="kraft-bridge conformance")
    for group, count in report.groups.items():
        mine = [one for one in report.findings if one.case.group == group]
        suite = ET.SubElement(
            root,
            "testsuite",
            name=group,
            tests=str(len(mine)),
            failures=str(count["failed"]),
            skipped=str(count["not offered"] + count["not judged"]),
            time=f"{sum(one.seconds for one in mine):.3f}",
        )
        for one in mine:
            case = ET.SubElement(
                suite,
                "testcase",
                classname=f"conformance.{group}",
                name=_xml(f"{one.id}: {one.case.title}"),
                time=f"{one.seconds:.3f}",
            )
            if one.outcome == "failed":
                told = _xml(f"{one.why}: expected {one.expected}, got {one.got}")
                failure = ET.SubElement(case, "failure", message=told, type=one.case.level.value)
                failure.text = _xml(f"{one.case.sources}\n{report.again} --only {one.case.id}")
            elif one.outcome != "passed":
                ET.SubElement(case, "skipped", message=_xml(f"{one.outcome}: {one.why}"))
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


# ------------------------------------------------------------------ HTML
_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse}td,th{padding:.2rem .8rem;text-align:right;border-bottom:1px solid}
td:first-child,th:first-child{text-align:left}pre{overflow:auto;background:#8881;padding:.6rem}
h3{margin-bottom:.2rem}.bad{color:#b00020}@media(prefers-color-scheme:dark){
body{background:#111;color:#ddd}.bad{color:#ff6b81}}
"""


def html(report: Report) -> str:
    """One page without anything from elsewhere: for a ticket."""
    parts = [
        '<!doctype html><html lang="en"><meta charset="utf-8">',
        f"<title>{escape(report.verdict)}</title><style>{_STYLE}</style>",
        f"<h1>{escape(report.verdict)}</h1>",
        f"<p>{escape(report.address)}, seed {report.seed}, {report.seconds:.1f} s</p>",
        "<table><tr><th>group</th>",
        *(f"<th>{one}</th>" for one in OUTCOMES),
        "</tr>",
    ]
    for group, count in report.groups.items():
        cells = "".join(f"<td>{count[one]}</td>" for one in OUTCOMES)
        parts.append(f"<tr><td>{escape(group)}</td>{cells}</tr>")
    parts.append("</table>")
    for finding in report.failed:
        parts += _failure(report, finding)
    parts.append("<h2>Not offered, not judged</h2><ul>")
    parts += [f"<li>{escape(line)}</li>" for line in _missing(report) if line]
    parts.append("</ul></html>\n")
    return "\n".join(parts)


def _failure(report: Report, one: Finding) -> Iterator[str]:
    yield f'<h3 class="bad">{escape(one.case.level)}: {escape(one.case.title)}</h3>'
    yield f"<p>{escape(one.id)}; {escape(one.case.sources)}</p><table>"
    for name, value in (("what", one.why), ("expected", one.expected), ("got", one.got)):
        yield f"<tr><td>{name}</td><td>{escape(value)}</td></tr>"
    yield f"</table><pre>{escape(report.again)} --only {escape(one.case.id)}</pre>"
    shown = program(one)
    if shown:
        yield f"<p>the last request alone:</p><pre>{escape(shown)}</pre>"
    yield "<details><summary>the last exchanges, bytes by offset</summary><pre>"
    for each in one.exchanges:
        yield escape(f"[{each.line}] {each.what}")
        for arrow, data in ((">", each.sent), ("<", each.got)):
            yield from (escape(line) for line in dump(arrow, data))
        if each.answer:
            yield escape(f"  {each.answer}")
    yield "</pre></details>"


def program(one: Finding) -> str:
    """A program in Python that sends the last request of a case again, and prints the answer.

    Empty: the bytes are not kept whole, may hold a secret, or the listener wants TLS or a login.
    """
    last = next((each for each in reversed(one.exchanges) if each.sent), None)
    if last is None or one.plain is None or len(last.sent) >= BYTES_KEPT:
        return ""
    if last is not next(each for each in reversed(one.exchanges) if each.what != "wait"):
        return ""  # after it something was sent whose bytes are not kept
    data = len(last.sent).to_bytes(4, "big") + last.sent if last.bare else last.sent
    return (
        f"import socket\n"
        f"with socket.create_connection(({one.plain.host!r}, {one.plain.port}), 10) as line:\n"
        f"    line.sendall(bytes.fromhex({data.hex()!r}))  # {last.what}\n"
        f"    print(line.recv(1 << 16).hex(' '))\n"
    )


def dump(arrow: str, data: bytes) -> Iterator[str]:
    """Bytes, 16 a line, with their offset.

    >>> list(dump(">", b"ab"))
    ['  > 0000  61 62                                            ab']
    """
    for start in range(0, len(data), 16):
        row = data[start : start + 16]
        shown = "".join(chr(one) if 32 <= one < 127 else "." for one in row)
        yield f"  {arrow} {start:04x}  {row.hex(' '):<47}  {shown}"


# ------------------------------------------------------------------ the catalogue
def catalogue(cases: Sequence[Case]) -> Iterator[str]:
    """A line for each case: id, level, marks, title, sources, rows."""
    for one in cases:
        marks = [one.level.value, one.where.value]
        marks += ["disruptive"] if one.disruptive else []
        marks += ["slow"] if one.slow else []
        marks += [f"{one.brokers} brokers"] if one.brokers > 1 else []
        rows = f" [{' '.join(one.rows)}]" if one.rows else ""
        yield f"{one.id}  ({', '.join(marks)})  {one.title}; {one.sources}{rows}"
