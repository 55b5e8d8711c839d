"""Plant known faults and check that a named test fails: ``python -m tools.mutants [NAME ...]``.

Each fault of ``mutants.toml`` is a text replaced in one product file, in a copy of the source. A
test that still passes does not check what it claims to check. Red means that the test itself
failed: an error in its set-up proves nothing. Where a fault names a kind of test, its test is of
that kind.

The exit code is 0 if all that were chosen are red, 1 if a fault was not seen or a test fails
without one, 2 if the command line is wrong.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from bench.record import VARIABLE

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_name("mutants.toml")
COPIED = ("emulator", "wire", "bench", "tests", "tools", "docs", "jars", "pyproject.toml")
JOBS = 2
PLANTED_S = 300
"""After this time a planted fault has kept from coming what its test waits for."""


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Args:
        name: the fault, in a few words.
        file: product file, from the root of the checkout.
        old: text that occurs there exactly once.
        new: the replacement.
        test: the pytest id that must fail: one function, not a file.
        kind: kind of test (see tests/kit/kinds.py), if no weaker kind detects the fault.
    """

    name: str
    file: str
    old: str
    new: str
    test: str
    kind: str = ""

    def stale(self) -> str | None:
        """Why the fault cannot be planted; None if it can."""
        path = ROOT / self.file
        if not path.exists():
            return f"{self.file} is not there"
        count = path.read_text().count(self.old)
        return None if count == 1 else f"the text occurs {count} times in {self.file}"


def mutants() -> list[Mutant]:
    """All of them, in the order of the file."""
    return [Mutant(**entry) for entry in tomllib.loads(LIST.read_text()).get("mutant", [])]


@dataclass(frozen=True)
class Ran:
    """The outcomes of the tests of one id."""

    code: int
    printed: str
    tests: dict[str, dict[str, str]]
    """Test id -> its kind and outcome, in the form of tests/kit/outcomes.py."""

    @property
    def red(self) -> bool:
        """Whether a test failed, and all failures are of what it checks."""
        outcomes = {test["outcome"] for test in self.tests.values()}
        return self.code == 1 and "failed" in outcomes and "error" not in outcomes

    @property
    def passed(self) -> bool:
        """Whether there were tests, and each passed."""
        return self.code == 0 and {one["outcome"] for one in self.tests.values()} == {"passed"}

    @property
    def kinds(self) -> set[str]:
        """Of the tests that ran."""
        return {test["kind"] for test in self.tests.values()}


def run(test: str, folder: Path, *, planted: bool) -> Ran:
    """Run one test in a copy of the source.

    Runs without a fault keep the bytecode of what they import, so that the others need not compile
    it again. With a fault none is kept.
    """
    outcomes = folder / "outcomes.json"
    outcomes.unlink(missing_ok=True)
    environment = os.environ | {
        "PYTHONPATH": str(folder),
        "KRAFT_BRIDGE_CACHE": str(ROOT / ".cache"),
        "KRAFT_BRIDGE_OUTCOMES": str(outcomes),
        "PYTHONDONTWRITEBYTECODE": "1" if planted else "",
    }
    environment.pop(VARIABLE, None)
    plugins = ["-p", "no:cacheprovider", "-p", "tests.kit.outcomes"]
    command = [sys.executable, "-m", "pytest", "-q", "-x", *plugins, test]
    if planted:
        command += ["--timeout", str(PLANTED_S)]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    tests = json.loads(outcomes.read_text()) if outcomes.exists() else {}
    return Ran(done.returncode, (done.stdout + done.stderr)[-1500:], tests)


class Copies:
    """Copies of what tests need, without what they leave behind: one for each run at a time.

    Args:
        folder: where they are made.
    """

    def __init__(self, folder: Path) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        for number in range(JOBS):
            copy = folder / str(number)
            copy.mkdir()
            for name in COPIED:
                source, target = ROOT / name, copy / name
                if source.is_dir():
                    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
                elif source.exists():
                    shutil.copy(source, target)
            self._free.put(copy)

    @contextmanager
    def one(self, fault: Mutant | None = None) -> Iterator[Path]:
        """A copy for one user at a time, with this fault in it until the copy is returned."""
        folder = self._free.get()
        try:
            if fault is None:
                yield folder
                return
            path = folder / fault.file
            sound, times = path.read_text(), path.stat()
            path.write_text(sound.replace(fault.old, fault.new))
            try:
                yield folder
            finally:
                path.write_text(sound)
                # Its bytecode is that of a file of this time.
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        finally:
            self._free.put(folder)

    def verdict(self, mutant: Mutant) -> tuple[Mutant, str]:
        """Plant one fault and run its test; only ``red`` is good."""
        if why := mutant.stale():
            return mutant, f"stale: {why}"
        with self.one(mutant) as folder:
            ran = run(mutant.test, folder, planted=True)
        if ran.red:
            return mutant, "red"
        return mutant, "GREEN" if ran.code == 0 else f"error {ran.code}: {ran.printed}"

    def sound(self, test: str) -> tuple[str, Ran]:
        """A test without any fault, which must pass."""
        with self.one() as folder:
            return test, run(test, folder, planted=False)


def judged(copies: Copies, chosen: Sequence[Mutant]) -> Iterator[tuple[Mutant, str]]:
    """Each fault with its verdict; one whose test is not sound is not planted."""
    with ThreadPoolExecutor(JOBS) as pool:
        sound = dict(pool.map(copies.sound, sorted({one.test for one in chosen})))
        ready = []
        for one in chosen:
            ran = sound[one.test]
            if not ran.passed:
                yield one, f"not sound: {ran.printed}"
            elif one.kind and ran.kinds != {one.kind}:
                yield one, f"not a test of kind {one.kind}"
            else:
                ready.append(one)
        yield from pool.map(copies.verdict, ready)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them all, or those named; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    asked = parser.parse_args(arguments)
    chosen = [one for one in mutants() if not asked.names or one.name in asked.names]
    if strange := set(asked.names) - {one.name for one in chosen}:
        sys.stderr.write(f"no such fault: {', '.join(sorted(strange))}\n")
        return 2
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for one, verdict in judged(Copies(Path(folder)), chosen):
            bad += verdict != "red"
            print(f"{verdict:<10}  {one.name}  ({one.test})", flush=True)
    print(f"{len(chosen)} faults, {bad} not red")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
