"""The registry of rules, their findings, and running all rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from emulator.operations.preflight.survey import Survey

# Words of findings: nouns with what is of their kind, lists that end.


def named(noun: str, items: Collection[object]) -> str:
    """A noun and what is of its kind.

    >>> named("broker", [1]), named("broker", [1, 2])
    ('broker 1', 'brokers 1, 2')
    """
    return f"{noun if len(items) == 1 else f'{noun}s'} {listed(items)}"


def listed(items: Iterable[object], most: int = 5) -> str:
    """The first items, and how many more there are.

    >>> listed([1, 2]), listed(range(9), 3)
    ('1, 2', '0, 1, 2 and 6 more')
    """
    some = [str(one) for one in items]
    more = f" and {len(some) - most:,} more" if len(some) > most else ""
    return ", ".join(some[:most]) + more


class Severity(Enum):
    """A blocker stops the migration or loses data, a warning needs a decision."""

    BLOCKER = "blocker"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found.

    ``znode`` is a path, or the name of a properties file with its key. ``reference``: a KIP, an
    issue of Kafka's, or Kafka's own check.
    """

    code: str
    severity: Severity
    znode: str
    fact: str
    consequence: str = ""
    remedy: str = ""
    reference: str = ""


def printed(code: str) -> str:
    """A code as it is printed: with what it is of, so that none looks like a requirement's id.

    >>> printed("B17"), printed("R08")
    ('PF-B17', 'RB-R08')
    """
    return f"{'RB' if code.startswith('R') else 'PF'}-{code}"


@dataclass(frozen=True, slots=True)
class NotRun:
    """A rule that could not run, or only in part, and why."""

    code: str
    why: str


Outcome: TypeAlias = Finding | NotRun


def with_code(found: Outcome) -> dict[str, Any]:
    """What a program reads: the code as it is printed, and ``was``, the one of earlier releases."""
    return {**asdict(found), "code": printed(found.code), "was": found.code}


Check: TypeAlias = Callable[[Survey], Iterator[Outcome]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its code, its title, what happened where it did not hold, and its function."""

    code: str
    title: str
    incident: str
    check: Check


_RULES: dict[str, Rule] = {}
RULES: Final = MappingProxyType(_RULES)
"""Every rule, by its code; filled when ``report`` is imported."""
_LETTERS: Final = {"B": Severity.BLOCKER, "W": Severity.WARNING, "I": Severity.INFO}


def rule(code: str, title: str, incident: str = "") -> Callable[[Check], Check]:
    """Register a rule.

    Args:
        code: B, W or I and a number.
        title: what should be so.
        incident: what happens, or has happened to somebody, where it is not so.

    Raises:
        ValueError: two rules under one code.
    """

    def register(check: Check) -> Check:
        if code in _RULES:
            raise ValueError(f"two rules {code}")
        _RULES[code] = Rule(code, title, incident, check)
        return check

    return register


def finding(  # noqa: PLR0917 - the columns of the report
    code: str,
    znode: str,
    fact: str,
    consequence: str = "",
    remedy: str = "",
    reference: str = "",
    severity: Severity | None = None,
) -> Finding:
    """A finding with the severity of its code's letter, unless given."""
    found = _LETTERS[code[0]] if severity is None else severity
    return Finding(code, found, znode, fact, consequence, remedy, reference)


@dataclass(frozen=True, slots=True)
class FindingOf:
    """Makes the findings of one rule that have one reference."""

    code: str
    reference: str

    def __call__(
        self,
        where: str,
        fact: str,
        consequence: str,
        remedy: str,
        severity: Severity | None = None,
    ) -> Finding:
        """A finding about ``where``; its severity is that of the code's letter, unless given."""
        return finding(self.code, where, fact, consequence, remedy, self.reference, severity)
