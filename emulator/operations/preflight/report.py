"""All rules over one survey."""

from __future__ import annotations

from dataclasses import dataclass, field

from emulator.operations.preflight import (
    callers,
    cluster,
    contents,
    counts,
    decided,
    identities,
    leftovers,
    quorum,
    reaching,
    release4,
    settings,
    stage,
    starting,
    targets,
    together,
    topics,
    values,
)
from emulator.operations.preflight.engine import RULES, Finding, NotRun, Rule, Severity
from emulator.operations.preflight.stage import MigrationStage, StageFound, standing
from emulator.operations.preflight.survey import Survey

MODULES = (
    stage,
    cluster,
    topics,
    contents,
    callers,
    settings,
    starting,
    quorum,
    reaching,
    identities,
    targets,
    together,
    decided,
    values,
    leftovers,
    release4,
    counts,
)
"""Imported for the rules they register."""


@dataclass(frozen=True, slots=True)
class PreflightReport:
    """Where the migration stands, the findings of all rules, and the rules that could not run."""

    findings: tuple[Finding, ...]
    not_run: tuple[NotRun, ...]
    standing: StageFound
    survey: Survey = field(repr=False)
    """What was looked at; it has passwords, which no text of a report may show."""

    @property
    def final(self) -> bool:
        """Whether a log shows that the migration is finalised, so that nothing is left to check."""
        return self.standing.stage is MigrationStage.FINALISED and self.standing.shown

    @property
    def incomplete(self) -> bool:
        """Whether the file of no controller, or of no broker, was given."""
        survey = self.survey
        return not survey.controllers or not (survey.brokers or survey.kraft_brokers)

    def count(self, severity: Severity) -> int:
        """Findings of one severity."""
        return sum(one.severity is severity for one in self.findings)

    def exit_code(self, *, strict: bool) -> int:
        """1 with a blocker; 4 with a warning, if those count; else 0. As for all verbs."""
        if self.count(Severity.BLOCKER):
            return 1
        return 4 if strict and self.count(Severity.WARNING) else 0


def rules() -> list[Rule]:
    """Every rule: blockers, warnings, information, each by code."""
    return [RULES[code] for code in sorted(RULES, key=lambda code: ("BWI".index(code[0]), code))]


def run(survey: Survey) -> PreflightReport:
    """Run every rule."""
    findings: list[Finding] = []
    not_run: list[NotRun] = []
    for rule in rules():
        for one in rule.check(survey):
            if isinstance(one, Finding):
                # Nothing is known of a znode that could not be read, not even that it is missing.
                if one.code == contents.CLOSED or not survey.is_closed(one.znode):
                    findings.append(one)
            else:
                not_run.append(one)
    order = list(Severity)
    findings.sort(key=lambda one: order.index(one.severity))
    return PreflightReport(tuple(findings), tuple(not_run), standing(survey), survey)
