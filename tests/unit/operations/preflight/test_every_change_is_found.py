"""Each bad change is found in each clean cluster, and a clean cluster has nothing to find."""

from __future__ import annotations

import pytest

from emulator.operations.preflight.engine import RULES, Finding, Severity
from emulator.operations.preflight.report import PreflightReport, run
from tests.unit.operations.preflight.changes import Change
from tests.unit.operations.preflight.clean import CLEAN, clean
from tests.unit.operations.preflight.every_change import EVERY_CHANGE
from tests.unit.operations.preflight.harmless import HARMLESS

SEVERITIES = list(Severity)


def told(report: PreflightReport, least: Severity = Severity.WARNING) -> list[Finding]:
    grave = SEVERITIES[: SEVERITIES.index(least) + 1]
    return [one for one in report.findings if one.severity in grave]


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_cluster_passes_strict(name: str) -> None:
    report = run(clean(name))
    assert not told(report)
    assert report.exit_code(strict=True) == 0


@pytest.mark.parametrize("change", HARMLESS)
def test_what_spoils_nothing_passes_strict(change: str) -> None:
    found = {name: told(run(HARMLESS[change](clean(name)))) for name in CLEAN}
    assert not any(found.values()), found


@pytest.mark.parametrize("change", EVERY_CHANGE, ids=lambda one: f"{one.code} {one.name}")
def test_each_bad_change_is_found_in_each_clean_cluster(change: Change) -> None:
    for name in CLEAN:  # not a test each: most of 2,000 tests would be what pytest does around them
        report = run(change.apply(clean(name)))
        found = [one for one in told(report, change.severity) if one.code == change.code]
        all_found = [(one.code, one.severity.value, one.znode, one.fact) for one in report.findings]
        assert found, (name, all_found)
        assert all(one.fact and one.consequence and one.remedy and one.reference for one in found)


def test_every_rule_has_a_bad_change_and_an_incident() -> None:
    judged = {code for code in RULES if not code.startswith("I")}
    assert {one.code for one in EVERY_CHANGE} == judged
    assert all(RULES[code].incident for code in judged)
