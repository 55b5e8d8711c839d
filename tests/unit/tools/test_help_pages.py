"""The pages about symptoms and phases name what the program says."""

from __future__ import annotations

import re
from pathlib import Path

from emulator.migration.phases import OperatorPhase

DOCS = Path(__file__).resolve().parents[3] / "docs"


def rows(page: str) -> list[str]:
    """The first cells of all its tables."""
    return re.findall(r"^\| (.*?) \|", (DOCS / page).read_text(), re.MULTILINE)


def test_every_reason_that_is_a_symptom_is_one_of_status() -> None:
    symptoms = {one for cell in rows("troubleshooting.md") for one in re.findall("`([^`]+)`", cell)}
    reasons = {one for one in symptoms if re.fullmatch("[a-z]+_[a-z_]+", one)}
    assert len(reasons) >= 8
    told = re.findall(r"^\| `([a-z_]+)` \|", (DOCS / "status.md").read_text(), re.MULTILINE)
    assert reasons <= {*told}


def test_every_phase_that_the_pages_name_is_one() -> None:
    phases = {one.value for one in OperatorPhase}
    named = {re.findall("`([^`]+)`", cell)[0] for cell in rows("phases.md") if cell[0] == "`"}
    assert named == {"waiting", "copying", "dual write", "finalising", "final"}
    text = (DOCS / "troubleshooting.md").read_text()
    named |= set(re.findall(r"phase `([a-z ]+)`", text))
    assert named <= phases


def test_one_step_alone_has_no_way_back() -> None:
    [drawn, *_] = diagrams((DOCS / "phases.md").read_text())
    assert re.findall(r"(\w) ==>\|.*?\| (\w)", drawn) == [("F", "E")]
    assert not re.findall(r"^ +E -", drawn, re.MULTILINE)
    back = {from_ for from_, _ in re.findall(r"(\w) -\.->\|.*?\| (\w)", drawn)}
    assert back == {"W", "C", "D", "F"}, "from every other phase of a migration there is one"


def diagrams(text: str) -> list[str]:
    return re.findall(r"^```mermaid\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_each_phase_has_a_diagram_and_one_the_point_of_no_return() -> None:
    text = (DOCS / "phases.md").read_text()
    _, _, parts = text.partition("## Who writes where")
    found = {
        name: diagrams(part)
        for name, part in re.findall(r"^### (.*?)\n(.*?)(?=^##)", parts, re.MULTILINE | re.DOTALL)
    }
    assert list(found) == ["waiting", "copying", "dual write", "finalising", "final"]
    assert {len(drawn) for drawn in found.values()} == {1}
    ends = [name for name, [drawn] in found.items() if "POINT OF NO RETURN" in drawn]
    assert ends == ["finalising"]
    valid = {name: set(re.findall(r"(\w+)<br>VALID", drawn)) for name, [drawn] in found.items()}
    store = {name: "ZooKeeper" if name in {"waiting", "copying"} else "log" for name in found}
    assert valid == {name: {which} for name, which in store.items()}
