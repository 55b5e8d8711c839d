"""All rules over one survey."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from emulator.operations.preflight import (
    broker_folders,
    callers,
    cluster,
    contents,
    counts,
    identities,
    quorum,
    reaching,
    release4,
    rolling,
    settings,
    stage,
    starting,
    targets,
    together,
    topics,
)
from emulator.operations.preflight.engine import RULES, Finding, NotRun, Rule, Severity
from emulator.operations.preflight.rolling import Roll, roll
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
    rolling,
    broker_folders,
    release4,
    counts,
)
"""Imported for the rules they register."""


class PreflightVerdict(Enum):
    """The first words of a report."""

    FINAL = "FINAL"
    BLOCKED = "BLOCKED"
    INCOMPLETE = "INCOMPLETE"
    CLEAR = "no blocker found"


_CODES: Final = {
    PreflightVerdict.FINAL: 0,
    PreflightVerdict.BLOCKED: 1,
    PreflightVerdict.INCOMPLETE: 3,
    PreflightVerdict.CLEAR: 0,
}


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
    def roll(self) -> Roll | None:
        """How far the roll to KRaft mode is; None before one."""
        return roll(self.survey)

    @property
    def incomplete(self) -> bool:
        """Whether the file of no controller, or of no broker, was given."""
        survey = self.survey
        return not survey.controllers or not (survey.brokers or survey.kraft_brokers)

    def count(self, severity: Severity) -> int:
        """Findings of one severity."""
        return sum(one.severity is severity for one in self.findings)

    @property
    def verdict(self) -> PreflightVerdict:
        """What is printed first, and what the exit code goes by."""
        if self.final:
            return PreflightVerdict.FINAL
        if self.count(Severity.BLOCKER):
            return PreflightVerdict.BLOCKED
        return PreflightVerdict.INCOMPLETE if self.incomplete else PreflightVerdict.CLEAR

    def exit_code(self, *, strict: bool) -> int:
        """That of the verdict; 4 with nothing but warnings, if those count. As for all verbs."""
        warned = strict and self.verdict is PreflightVerdict.CLEAR and self.count(Severity.WARNING)
        return 4 if warned else _CODES[self.verdict]


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
