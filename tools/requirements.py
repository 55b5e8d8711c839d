"""Say which requirement the last ``make test`` proved: ``python -m tools.requirements``.

Prints a row for each: its id, the strongest kind of test that proved it, how many did, its title.
Ends with 1 if a row that is due is unproven, or if no complete run was recorded.
"""

import json
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROWS = ROOT / "docs" / "requirements.md"
RECORD = ROOT / ".cache" / "requirements.json"
# As tests/kit/kinds.py orders them, strongest first.
KINDS = (
    "real broker",
    "ZooKeeper",
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
    due: bool


def rows() -> list[Row]:
    """Every row, in the order of the page."""
    found = re.findall(r"^\| ([A-Z]\d\d) \| (.*) \| (now)? ?\|$", ROWS.read_text(), re.MULTILINE)
    return [Row(number, title, bool(due)) for number, title, due in found]


def proofs(record: dict[str, list[dict[str, object]]]) -> dict[str, list[str]]:
    """Id -> kinds of the tests that cite it, ran and passed; none if a test citing it failed.

    A row whose one test fails is not proven by another that passes.
    """
    kinds: dict[str, list[str]] = defaultdict(list)
    broken: set[str] = set()
    for test in record["tests"]:
        ids = test["ids"]
        assert isinstance(ids, list)
        for number in ids:
            if test["outcome"] == "passed":
                kinds[number].append(str(test["kind"]))
            else:
                broken.add(number)
    return {number: found for number, found in kinds.items() if number not in broken}


def main() -> int:
    """Print the table; returns the exit code."""
    if not RECORD.exists():
        sys.stderr.write("No run is recorded: run 'make test' first\n")
        return 1
    proven = proofs(json.loads(RECORD.read_text()))
    missing = []
    every = rows()
    for row in every:
        kinds = proven.get(row.id, [])
        best = min(kinds, key=KINDS.index, default="-")
        print(f"{row.id}  {best:<15} {len(kinds) or '':>3}  {row.title}")
        if row.due and not kinds:
            missing.append(row.id)
    due = sum(row.due for row in every)
    print(f"\n{len(proven)} of {len(every)} proven; of the {due} due now, {due - len(missing)}")
    if missing:
        print(f"due and not proven: {' '.join(missing)}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
