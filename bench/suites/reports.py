"""What JUnit reports of a run: its event stream, which is whole up to where a run was cut.

Source: open-test-reporting, ``junit.platform.reporting.open.xml.enabled`` of JUnit 5.9 and later.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

PASSED: Final = "passed"
FAILED: Final = "failed"
LEFT_OUT: Final = "left out"
_OUTCOMES: Final = {"SUCCESSFUL": PASSED, "FAILED": FAILED, "ERRORED": FAILED}
_LINES: Final = 40
_TEMPLATE: Final = re.compile(r"\[test-template:([^(\]]+)")


@dataclass(frozen=True, slots=True)
class Ended:
    """One test, or one container of tests that failed as a whole.

    ``id`` is JUnit's, the same in each run; ``outcome`` is `PASSED`, `FAILED` or `LEFT_OUT`, which
    a test that gave up on an assumption is too; ``text``: the exception with its first lines, or
    why it was left out.
    """

    id: str
    name: str
    outcome: str
    text: str
    seconds: float


@dataclass(slots=True)
class Report:
    """What ended, in that order, and what had begun when a run was cut, outermost first."""

    ended: list[Ended] = field(default_factory=list)
    under_way: list[Ended] = field(default_factory=list)
    whole: bool = False
    """Whether the stream is complete: JUnit ended by itself."""


@dataclass(slots=True)
class _Begun:
    id: str
    name: str
    test: bool
    at: datetime


def _tag(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _text(element: ET.Element, name: str) -> str:
    return next((one.text or "" for one in element.iter() if _tag(one) == name), "")


def _name(unique: str, shown: str) -> str:
    """With the method, which the name of one of its invocations may lack.

    >>> _name("[class:C]/[test-template:t(java.lang.String)]/[i:#2]", "[2] quorum=kraft")
    't [2] quorum=kraft'
    """
    found = _TEMPLATE.search(unique)
    return shown if found is None or shown.startswith(found[1]) else f"{found[1]} {shown}"


def _events(path: Path) -> Iterator[ET.Element]:
    for _, element in ET.iterparse(path, ["end"]):  # noqa: S314 - written by our own child
        if _tag(element) in {"started", "finished", "events"}:
            yield element


def read(path: Path) -> Report:
    """Read an event stream, also one that was cut in the middle of an element.

    Raises:
        OSError: it cannot be read.
    """
    report = Report()
    begun: dict[str, _Begun] = {}
    with contextlib.suppress(ET.ParseError):  # cut
        for event in _events(path):
            kind, key = _tag(event), event.get("id", "")
            if kind == "events":
                report.whole = True
            elif kind == "started":
                begun[key] = _Begun(
                    _text(event, "uniqueId"),
                    _name(_text(event, "uniqueId"), event.get("name", "")),
                    _text(event, "type") == "TEST",
                    datetime.fromisoformat(event.get("time", "")),
                )
            elif key in begun:
                report.ended += _ended(begun.pop(key), event)
    report.under_way = [
        Ended(one.id, one.name, FAILED, "", 0.0) for one in begun.values() if one.test
    ]
    return report


def _ended(one: _Begun, event: ET.Element) -> list[Ended]:
    result = next((each for each in event if _tag(each) == "result"), None)
    status = "" if result is None else result.get("status", "")
    outcome = _OUTCOMES.get(status, LEFT_OUT)
    if not one.test and outcome != FAILED:
        return []
    seconds = (datetime.fromisoformat(event.get("time", "")) - one.at).total_seconds()
    thrown = _text(event, "throwable") or _text(event, "reason")
    text = "\n".join(thrown.strip().splitlines()[:_LINES])
    return [Ended(one.id, one.name, outcome, text, round(seconds, 1))]
