"""Say which requirements are proven, and by what kind of test: ``python -m tools.requirements``.

Of each row: the strongest kind of test that proved it, how many did, a stronger kind that it asks
for, and what the rows say is not shown. A row whose test failed in any run of the present code is
not proven. Ends with 1 if such a run failed, if a row that is due in a run that counts is unproven,
or too weakly without a reason in the file, or if no record of ``make test`` counts. ``--collect``
prints the rows that no test cites, or only weaker kinds.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.record import VARIABLE
from tests.kit.kinds import ORDER as KINDS
from tools.recorded import Run, read

ROOT = Path(__file__).resolve().parents[1]
ROWS = ROOT / "tests" / "requirements.toml"
MAKEFILE = (ROOT / "Makefile").read_text()
PARTS = {
    target: tuple(names)
    for target, recipe in re.findall(r"^([a-z]+):.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    if (names := re.findall(r"tools\.recorded ([a-z]+)", recipe))
}
"""Target of ``make`` -> the records that it leaves; a target counts with all of them."""


class Row(NamedTuple):
    """One requirement: the evidence it asks for, and the run that must prove it."""

    id: str
    title: str
    seen: str
    asked: str
    run: str

    def weaker(self, kinds: Iterable[str]) -> bool:
        """Whether none of these kinds is as strong as what it asks for."""
        return self.asked in KINDS and min(map(KINDS.index, kinds)) > KINDS.index(self.asked)


def sections() -> dict[str, list[Row]]:
    """Subject -> its rows; one without a run is due in ``make test``."""
    found = tomllib.loads(ROWS.read_text())["rows"]
    return {
        subject: [Row(row, *cells, *["test"][len(cells) - 3 :]) for row, cells in rows.items()]
        for subject, rows in found.items()
    }


def rows() -> list[Row]:
    """Every row, in the order of the file."""
    return [row for section in sections().values() for row in section]


def caveats() -> dict[str, str]:
    """Id -> what is not shown of a row that is proven more narrowly than asked."""
    found: dict[str, str] = tomllib.loads(ROWS.read_text()).get("narrower", {})
    return found


HEAD = """\
# Requirements

What the sources (KIP-866 and its older draft, KIP-183, KIP-590, KIP-778) ask of this project, one
row each, and what shows that it holds. **`make requirements` says which rows are proven**, and by
what kind of test. Where shipped Kafka differs from a row, [divergence.md](../divergence.md) says
what we do.

- A test cites the rows that it proves: `@pytest.mark.requirement("W03")`.
- A row is proven if such a test passed in a complete run of `make test`, `make matrix`,
  `make life`, `make chaos`, `make sim`, `make endurance` or `make fuzz`, and none failed in such a
  run, complete or not. A run counts while nothing but pages and these rows has changed since.
- *case* names the cases of [`kraft-bridge conformance`](../conformance.md) that ask any server.
- *asked* is the kind of evidence that a row wants (*page*: a reader checks it).
- *run* is the target of `make` that has to prove the row. `make requirements` fails if that run
  counts and the row is unproven, or weaker than asked without a reason in the
  [last table](#proven-more-narrowly-than-asked). It fails too if one of these runs failed on the
  present code. Without `make test` nothing counts.
"""


def page() -> Iterator[str]:
    """docs/dev/requirements.md."""
    yield HEAD
    for subject, section in sections().items():
        yield f"\n## {subject}\n\n| id | requirement | what shows it | asked | run |\n"
        yield "|---|---|---|---|---|\n"
        for row in section:
            yield f"| {' | '.join(row)} |\n"
    yield "\n## Proven more narrowly than asked\n\n"
    yield "`make requirements` prints these beside their rows.\n\n"
    yield "| id | what is not shown |\n|---|---|\n"
    for number, what in caveats().items():
        yield f"| {number} | {what} |\n"


def proofs(runs: Iterable[Run]) -> dict[str, list[str]]:
    """Id -> kinds of the tests that cite it and passed; none if one failed in any run."""
    kinds, broken = defaultdict(list), set()
    for run in runs:
        for test in run.tests:
            if test["outcome"] == "failed" or (not run.why and test["outcome"] != "passed"):
                broken.update(test["ids"])
            elif not run.why:
                for number in test["ids"]:
                    kinds[number].append(str(test["kind"]))
    return {number: found for number, found in kinds.items() if number not in broken}


def cited() -> dict[str, list[str]]:
    """Id -> kinds of the tests that pytest collects and that cite it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "record.json")
        flags = ("--collect-only", "-qq", "-p", "no:cacheprovider")
        command = [sys.executable, "-m", "pytest", *flags]
        env = os.environ | {VARIABLE: str(path)}
        subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, check=True)
        tests = json.loads(path.read_text())["tests"]
    return proofs([Run([{**test, "outcome": "passed"} for test in tests], {}, [])])


def line(row: Row, kinds: Sequence[str], asked: str = "") -> str:
    """A row: the best of the kinds that prove it, and how many."""
    best = min(kinds, key=KINDS.index, default="-")
    return f"{row.id}  {best:<15} {len(kinds) or '':>3}  {asked}{row.title}"


def collect() -> int:
    """Print the rows that are cited by nothing as strong as they ask for; returns the exit code."""
    kinds = cited()
    for row in rows():
        found = kinds.get(row.id, [])
        if not found or row.weaker(found):
            print(line(row, found, f"asked: {row.asked:<18}  "))
    return 0


def failure(target: str, run: Run) -> str:
    """That a target failed on the present code, with the rows that it disproves."""
    bad = {row for test in run.tests if test["outcome"] == "failed" for row in test["ids"]}
    named = "" if run.failed == [target] else f" ({', '.join(run.failed)})"
    disproved = f", which disproves {' '.join(sorted(bad))}" if bad else ""
    return f"FAILED: make {target}{named}{disproved}"


def main() -> int:
    """Print the table; returns the exit code."""
    every, narrower = rows(), caveats()
    runs = {target: run for target, parts in PARTS.items() if (run := read(parts))}
    for target, run in runs.items():
        for part, why in run.why.items():
            name = target if part == target else f"{target} ({part})"
            sys.stderr.write(f"the record of `make {name}` does not count: {why}\n")
    failed = [failure(target, run) for target, run in runs.items() if run.failed]
    good = [target for target, run in runs.items() if not run.why]
    if "test" not in good:
        print(*failed, sep="\n", end="\n" * bool(failed))
        sys.stderr.write("No record of `make test` counts: run it on what is committed\n")
        return 1
    proven = proofs(runs.values())
    for row in every:
        kinds = proven.get(row.id, [])
        print(line(row, kinds))
        if kinds and row.weaker(kinds):
            print(f"{'':25}weaker than asked: {row.asked}")
        if kinds and row.id in narrower:
            print(f"{'':25}not shown: {narrower[row.id]}")
    weak = [row for row in every if row.id in proven and row.weaker(proven[row.id])]
    unexplained = [row.id for row in weak if row.run in good and row.id not in narrower]
    due = [row for row in every if row.run in good]
    missing = [row.id for row in due if row.id not in proven]
    print(f"\n{len(proven)} of {len(every)} proven, {len(weak)} weaker than asked; ", end="")
    print(f"of the {len(due)} due in these runs, {len(due) - len(missing)}")
    print(f"runs that count: {', '.join(f'make {target}' for target in good)}")
    print(*failed, sep="\n", end="\n" * bool(failed))
    for target in sorted({row.run for row in every} - {*good}):
        rest = [row.id for row in every if row.run == target and row.id not in proven]
        how = "counted" if target in runs else "run"
        if target not in runs or not runs[target].failed:
            has = f", which has to prove {' '.join(rest)}" if rest else ""
            print(f"not {how}: make {target}{has}")
    if missing:
        print(f"due and not proven: {' '.join(missing)}")
    if unexplained:
        print(f"weaker than asked, and the file does not say why: {' '.join(unexplained)}")
    return 1 if missing or unexplained or failed else 0


if __name__ == "__main__":
    sys.exit(collect() if sys.argv[1:] == ["--collect"] else main())
