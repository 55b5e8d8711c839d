"""Class x (passed, failed on both, failed on ours alone with the reason)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.suites.known import Known, reason_of
from bench.suites.reports import FAILED, LEFT_OUT, PASSED, Ended


@dataclass(slots=True)
class Compared:
    """A class on both sides; each list holds what ended on ours, ``left_out`` counts by reason."""

    name: str
    whole: bool
    """Whether all its tests were run on both sides."""
    passed: list[Ended] = field(default_factory=list)
    passed_alone: list[Ended] = field(default_factory=list)
    """Passed on ours, failed on Kafka's."""
    both: list[Ended] = field(default_factory=list)
    explained: list[tuple[Ended, Known]] = field(default_factory=list)
    """Failed on ours alone, for a reason that is known."""
    wrong: list[Ended] = field(default_factory=list)
    """Failed on ours, not on Kafka's, and nobody knows why."""
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Nothing is wrong, and nothing is missing."""
        return self.whole and not self.wrong


def compare(
    name: str,
    ours: Mapping[str, Ended],
    kafkas: Mapping[str, Ended],
    known: Sequence[Known],
    *,
    whole: bool,
) -> Compared:
    """Put the tests of a class where they belong.

    Args:
        name: of the class, without its package.
        ours: JUnit's id -> how it ended with our controllers.
        kafkas: the same with Kafka's; one that is not there was not run.
        known: the table of reasons.
        whole: whether both sides were run to their end.
    """
    found = Compared(name, whole)
    for key, one in ours.items():
        other = kafkas[key].outcome if key in kafkas else ""
        if one.outcome == LEFT_OUT:
            reason = one.text.rpartition("left out: ")[2].splitlines()[:1]
            why = reason[0] if reason else "an assumption of the test"
            found.left_out[why] = found.left_out.get(why, 0) + 1
        elif one.outcome == PASSED:
            (found.passed_alone if other == FAILED else found.passed).append(one)
        elif other == FAILED:
            found.both.append(one)
        elif row := reason_of(name, one, known):
            found.explained.append((one, row))
        else:
            found.wrong.append(one)
    return found


def table(rows: Sequence[Compared]) -> list[str]:
    """Lines of Markdown: a row for each class, and one for all."""
    heads = ("class", "passed", "failed on both", "ours alone, known", "ours alone, not known")
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    total = [0] * (len(heads) - 1)
    for row in rows:
        passed = len(row.passed) + len(row.passed_alone)
        counts = [passed, len(row.both), len(row.explained), len(row.wrong)]
        total = [one + more for one, more in zip(total, counts, strict=True)]
        name = row.name if row.whole else f"{row.name} (not whole)"
        lines.append(f"| {name} | " + " | ".join(map(str, counts)) + " |")
    lines.append("| all | " + " | ".join(map(str, total)) + " |")
    return lines


def details(rows: Sequence[Compared]) -> list[str]:
    """A line for each reason, for each test that passed on ours alone, and for what is wrong."""
    lines = []
    reasons: dict[str, list[str]] = {}
    for row in rows:
        for one, known in row.explained:
            named = f"{known.reason} (divergence: {known.row})" if known.row else known.reason
            reasons.setdefault(named, []).append(f"{row.name}.{one.name}")
    for reason, tests in reasons.items():
        lines.append(f"{len(tests)} x {reason}: {', '.join(tests)}")
    left_out: dict[str, int] = {}
    for row in rows:
        for reason, count in row.left_out.items():
            left_out[reason] = left_out.get(reason, 0) + count
    lines += [f"{count} left out: {reason}" for reason, count in left_out.items()]
    for row in rows:
        lines += [f"failed on Kafka's alone: {row.name}.{one.name}" for one in row.passed_alone]
    for row in rows:
        lines += [f"WRONG: {row.name}.{one.name}: {first_line(one)}" for one in row.wrong]
    return lines


def first_line(one: Ended) -> str:
    """Of the failure, 200 characters at most."""
    return one.text.splitlines()[0][:200] if one.text else "no text"
