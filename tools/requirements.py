"""Say which requirements are proven: ``python -m tools.requirements``.

Prints a row for each: its id, the strongest kind of test that proved it, how many did, its title;
below it the kind that it asks for, if that is a stronger one, and what the page says is not shown.
Reads the records that ``tools.recorded`` keeps of ``make test``, ``make matrix`` and so on. One
counts only if the run was complete and passed, of a commit that differs from what stands in the
checkout now in ``*.md`` at most. A row is due if the run that the page names for it counts. Ends
with 1 if a row that is due is unproven, or proven by a weaker kind than it asks for without a
reason on the page, or if there is no record of ``make test`` that counts.

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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.record import VARIABLE
from tools.recorded import RECORDS, changed

ROOT = Path(__file__).resolve().parents[1]
ROWS = ROOT / "docs" / "requirements.md"
NEEDED = "test"
"""The record without which nothing is said to be proven."""
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

    def due(self, records: Iterable[str]) -> bool:
        """Whether its run is among these records; that of ``make chaos`` is several.

        >>> Row("U12", "", "", "real broker", "chaos").due(["chaosone", "test"])
        True
        """
        return any(name.startswith(self.run) for name in records)

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


def rejected(record: Mapping[str, Any]) -> str | None:
    """Why a record proves nothing; None if it counts.

    >>> rejected({"complete": True, "exit": 1})
    'the run failed'
    >>> rejected({"complete": False, "exit": 0})
    'only a part was run'
    """
    if record.get("exit") != 0:
        return "the run failed"
    if record.get("complete") is not True:
        return "only a part was run"
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


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}"


def proofs(records: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Id -> kinds of the tests that cite it, ran and passed; none if a test citing it failed.

    A row whose one test fails is not proven by another that passes, whichever run it was in.
    """
    kinds: dict[str, list[str]] = defaultdict(list)
    broken: set[str] = set()
    for test in (test for record in records for test in record["tests"]):
        for number in test["ids"]:
            if test["outcome"] == "passed":
                kinds[number].append(str(test["kind"]))
            else:
                broken.add(number)
    return {number: found for number, found in kinds.items() if number not in broken}


def counted() -> tuple[dict[str, Mapping[str, Any]], dict[str, str]]:
    """The records that count, by name, and why the others do not."""
    good: dict[str, Mapping[str, Any]] = {}
    bad: dict[str, str] = {}
    for path in sorted(RECORDS.glob("*.json")):
        try:
            record = json.loads(path.read_text())
        except ValueError:
            bad[path.stem] = "it cannot be read"
            continue
        why = rejected(record)
        if why is None:
            good[path.stem] = record
        else:
            bad[path.stem] = why
    return good, bad


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
    good, bad = counted()
    for name, why in bad.items():
        sys.stderr.write(f"the record of `make {name}` does not count: {why}\n")
    if NEEDED not in good:
        sys.stderr.write(f"No record of `make {NEEDED}` counts: run it on what is committed\n")
        return 1
    proven = proofs(good.values())
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
    due = [row for row in every if row.due(good)]
    missing = [row.id for row in due if row.id not in proven]
    unexplained = [row.id for row in weak if row in due and row.id not in narrower]
    print(f"\n{len(proven)} of {len(every)} proven, {len(weak)} weaker than asked; ", end="")
    print(f"of the {len(due)} due in these runs, {len(due) - len(missing)}")
    print(f"records that count: {', '.join(f'make {name}' for name in good)}")
    for run in sorted({row.run for row in every} - {row.run for row in due}):
        rest = [row.id for row in every if row.run == run and row.id not in proven]
        print(f"not run: make {run}" + (f", which has to prove {' '.join(rest)}" if rest else ""))
    if missing:
        print(f"due and not proven: {' '.join(missing)}")
    if unexplained:
        print(f"weaker than asked, and the page does not say why: {' '.join(unexplained)}")
    return 1 if missing or unexplained else 0


if __name__ == "__main__":
    sys.exit(collect() if sys.argv[1:] == ["--collect"] else main())
