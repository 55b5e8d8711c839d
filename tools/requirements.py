"""Say which requirements are proven: ``python -m tools.requirements``.

Prints a row for each: its id, the strongest kind of test that proved it, how many did, its title;
below it the kind that it asks for, if that is a stronger one, and what the page says is not shown.
Reads the records that ``tools.recorded`` keeps of ``make test``, ``make matrix`` and so on. One is
of the present code if its commit differs from what stands in the checkout now in ``*.md`` at most.
It counts if the run was complete and passed, and so did the others of its target (`PARTS`). A row
whose test failed in a run of the present code is not proven, whatever else passed. A row is due if
the run that the page names for it counts. Ends with 1 if a run of the present code failed, if a
row that is due is unproven, or proven by a weaker kind than it asks for without a reason on the
page, or if there is no record of ``make test`` that counts.

``python -m tools.requirements --collect`` runs nothing: it prints the rows that no test cites, and
those that only tests of weaker kinds cite, as pytest collects them. What ``make matrix``, ``make
life``, ``make sim`` and ``make endurance`` prove is not among them.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.record import VARIABLE
from tools.recorded import RECORDS, changed

ROOT = Path(__file__).resolve().parents[1]
ROWS = ROOT / "docs" / "requirements.md"
NEEDED = "test"
"""The record without which nothing is said to be proven."""
PARTS = {
    "test": ("test",),
    "matrix": ("matrix", "readers", "clients"),
    "life": ("life",),
    "chaos": ("chaosone", "chaosthree", "chaoskafka", "chaoskafkas"),
    "sim": ("sim", "failover", "attempts"),
    "endurance": ("endurance", "kraft"),
    "fuzz": ("fuzz",),
}
"""Target of ``make`` -> the records that it leaves; a target counts with all of them."""
# As tests/kit/kinds.py orders them, strongest first.
KINDS = (
    "real broker",
    "Kafka's controller",
    "ZooKeeper",
    "bench",
    "proxy",
    "Kafka's classes",
    "Spark",
    "simulation",
    "unit",
)


@dataclass(frozen=True)
class Row:
    """One requirement as docs/requirements.md lists it."""

    id: str
    title: str
    seen: str
    """What is to be seen if it holds."""
    asked: str
    """The kind of evidence it wants, of `KINDS`, or ``page``."""
    run: str
    """The target of ``make`` that has to prove it."""

    def weaker(self, kinds: Iterable[str]) -> bool:
        """Whether none of these kinds is as strong as what it asks for.

        >>> Row("W01", "", "", "ZooKeeper", "test").weaker(["unit", "simulation"])
        True
        >>> Row("W01", "", "", "ZooKeeper", "test").weaker(["real broker"])
        False
        """
        if self.asked not in KINDS:
            return False
        return min(map(KINDS.index, kinds)) > KINDS.index(self.asked)


def rows() -> list[Row]:
    """Every row, in the order of the page."""
    cell = r" ([^|]+) \|"
    found = re.findall(rf"^\| ([A-Z]\d\d) \|{cell * 4}$", ROWS.read_text(), re.MULTILINE)
    return [Row(*cells) for cells in found]


def caveats() -> dict[str, str]:
    """Id -> what is not shown of a row that is proven more narrowly than asked."""
    page = ROWS.read_text().partition("\n## Proven more narrowly than asked\n")[2]
    return dict(re.findall(r"^\| ([A-Z]\d\d) \| ([^|]+) \|$", page, re.MULTILINE))


@dataclass(frozen=True)
class Run:
    """What the records of one target say of the present code."""

    tests: Sequence[Mapping[str, Any]]
    """Those of all its parts."""
    why: Mapping[str, str]
    """Part -> why it does not count; empty: the run counts."""
    failed: Sequence[str]
    """Parts that failed, or in which a test did."""

    @property
    def counts(self) -> bool:
        """Whether what passed in it is proven."""
        return not self.why


def stale(record: Mapping[str, Any]) -> str | None:
    """Why a record says nothing of what stands in the checkout; None if it does."""
    head, different = record.get("commit"), record.get("different")
    if not isinstance(head, str) or not isinstance(different, list):
        return "it was not run in a git checkout"
    if record.get("moved"):
        return "the commit changed during the run"
    if different:
        return f"{_some(different)} differed from commit {head[:12]}"
    since = changed(head)
    if since is None:
        return f"commit {head[:12]} is not known here"
    if since:
        return f"{_some(since)} changed since commit {head[:12]}"
    return None


def cut_short(record: Mapping[str, Any]) -> str | None:
    """Why what passed in a run proves nothing; None if it counts.

    >>> cut_short({"complete": True, "exit": 1})
    'the run failed'
    >>> cut_short({"complete": True, "exit": 130, "interrupted": True})
    'it was interrupted'
    >>> cut_short({"complete": False, "exit": 0})
    'only a part was run'
    """
    if record.get("exit") != 0:
        return "it was interrupted" if record.get("interrupted") else "the run failed"
    return None if record.get("complete") is True else "only a part was run"


def has_failed(record: Mapping[str, Any]) -> bool:
    """Whether a run failed, or a test of one that was interrupted.

    >>> has_failed({"exit": 130, "interrupted": True, "tests": []})
    False
    """
    if record.get("exit") != 0 and not record.get("interrupted"):
        return True
    return any(test["outcome"] == "failed" for test in record["tests"])


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}"


def proofs(runs: Iterable[Run]) -> dict[str, list[str]]:
    """Id -> kinds of the tests that cite it, ran and passed; none if a test citing it failed.

    A row whose one test fails is not proven by another that passes, whichever run it was in, and
    whether that run counts or not.
    """
    kinds: dict[str, list[str]] = defaultdict(list)
    broken: set[str] = set()
    for run in runs:
        for test in run.tests:
            if test["outcome"] == "failed" or (run.counts and test["outcome"] != "passed"):
                broken.update(test["ids"])
            elif run.counts:
                for number in test["ids"]:
                    kinds[number].append(str(test["kind"]))
    return {number: found for number, found in kinds.items() if number not in broken}


def read() -> dict[str, Run]:
    """Target -> what its records say; targets of which there is none are left out."""
    found: dict[str, Run] = {}
    for target, parts in PARTS.items():
        paths = [path for part in parts if (path := RECORDS / f"{part}.json").exists()]
        if not paths:
            continue
        why = {part: "it was not run" for part in parts if RECORDS / f"{part}.json" not in paths}
        tests: list[Mapping[str, Any]] = []
        failed = []
        for path in paths:
            try:
                record = json.loads(path.read_text())
            except ValueError:
                why[path.stem] = "it cannot be read"
                continue
            if reason := stale(record) or cut_short(record):
                why[path.stem] = reason
            if not stale(record):
                tests += record["tests"]
                failed += [path.stem] if has_failed(record) else []
        found[target] = Run(tests, why, failed)
    return found


def cited() -> dict[str, list[str]]:
    """Id -> kinds of the tests that cite it, whether they pass or not.

    Raises:
        subprocess.CalledProcessError: pytest cannot collect them.
    """
    kinds: dict[str, list[str]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "record.json")
        subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider"],
            cwd=ROOT,
            env=os.environ | {VARIABLE: str(path)},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        for test in json.loads(path.read_text())["tests"]:
            for number in test["ids"]:
                kinds[number].append(str(test["kind"]))
    return kinds


def collect() -> int:
    """Print the rows that are cited by nothing as strong as they ask for; returns the exit code."""
    kinds = cited()
    for row in rows():
        found = kinds.get(row.id, [])
        if not found or row.weaker(found):
            best = min(found, key=KINDS.index, default="-")
            print(
                f"{row.id}  {best:<15} {len(found) or '':>3}  asked: {row.asked:<18}  {row.title}"
            )
    return 0


def main() -> int:
    """Print the table; returns the exit code."""
    runs = read()
    for target, run in runs.items():
        for part, why in run.why.items():
            name = target if part == target else f"{target} ({part})"
            sys.stderr.write(f"the record of `make {name}` does not count: {why}\n")
    failed = failures(runs)
    if NEEDED not in runs or not runs[NEEDED].counts:
        sys.stdout.writelines(f"{line}\n" for line in failed)
        sys.stderr.write(f"No record of `make {NEEDED}` counts: run it on what is committed\n")
        return 1
    good = [target for target, run in runs.items() if run.counts]
    proven = proofs(runs.values())
    every, narrower = rows(), caveats()
    for row in every:
        kinds = proven.get(row.id, [])
        best = min(kinds, key=KINDS.index, default="-")
        print(f"{row.id}  {best:<15} {len(kinds) or '':>3}  {row.title}")
        if kinds and row.weaker(kinds):
            print(f"{'':25}weaker than asked: {row.asked}")
        if kinds and row.id in narrower:
            print(f"{'':25}not shown: {narrower[row.id]}")
    weak = [row for row in every if row.id in proven and row.weaker(proven[row.id])]
    due = [row for row in every if row.run in good]
    missing = [row.id for row in due if row.id not in proven]
    unexplained = [row.id for row in weak if row in due and row.id not in narrower]
    print(f"\n{len(proven)} of {len(every)} proven, {len(weak)} weaker than asked; ", end="")
    print(f"of the {len(due)} due in these runs, {len(due) - len(missing)}")
    print(f"runs that count: {', '.join(f'make {target}' for target in good)}")
    sys.stdout.writelines(f"{line}\n" for line in failed)
    for target in sorted({row.run for row in every} - {*good}):
        if target in runs and runs[target].failed:
            continue
        rest = [row.id for row in every if row.run == target and row.id not in proven]
        how = "counted" if target in runs else "run"
        print(f"not {how}: make {target}" + (f", which has to prove {' '.join(rest)}" * bool(rest)))
    if missing:
        print(f"due and not proven: {' '.join(missing)}")
    if unexplained:
        print(f"weaker than asked, and the page does not say why: {' '.join(unexplained)}")
    return 1 if missing or unexplained or failed else 0


def failures(runs: Mapping[str, Run]) -> list[str]:
    """A line for each target that failed on the present code, with the rows that it disproves."""
    lines = []
    for target, run in runs.items():
        if run.failed:
            broken = {
                row for test in run.tests if test["outcome"] == "failed" for row in test["ids"]
            }
            named = "" if run.failed == [target] else f" ({', '.join(run.failed)})"
            disproved = f", which disproves {' '.join(sorted(broken))}" if broken else ""
            lines.append(f"FAILED: make {target}{named}{disproved}")
    return lines


if __name__ == "__main__":
    sys.exit(collect() if sys.argv[1:] == ["--collect"] else main())
