"""Plant known faults and check that a named test fails: ``python -m tools.mutants [NAME ...]``.

Each fault of ``mutants.toml`` is a text replaced in one product file, in a copy of the source. A
test that still passes does not check what it claims to check. Red means that the test itself
failed: an error in its set-up proves nothing. Where a fault names a kind of test, its test is of
that kind.

A run goes on where one of the same code ended (``mutant_record.py``); ``--again`` forgets what is
known. ``--seconds S`` begins nothing after S seconds, ``--no-java`` leaves out the faults whose
tests need Java. The exit code is 0 if all that were chosen are known to be red, 1 if a fault was
not seen or a test fails without one, 2 if the command line is wrong, 3 if the time was over.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from bench.record import VARIABLE
from tools import recorded
from tools.mutant_record import Kept, code_digest

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_name("mutants.toml")
COPIED = ("emulator", "wire", "bench", "tests", "tools", "docs", "jars", "pyproject.toml")
JOBS = 2
PIECES = ROOT / ".cache" / "records" / "mutants"
JAVA = "jars or jvm or spark"
PLANTED_S = 300
"""After this time a planted fault has kept from coming what its test waits for."""
ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


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

    @property
    def digest(self) -> str:
        """Of all that it is."""
        return hashlib.sha256(repr(astuple(self)).encode()).hexdigest()

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
    """Test id -> its kind and outcome, as tests/kit/outcomes.py says them."""

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
        """A copy that nobody else uses, with this fault in it until it is given back."""
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


def without_java(tests: Sequence[str]) -> set[str]:
    """Those of these ids none of whose tests needs Java."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-m", JAVA, *tests], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode not in {0, 5}:  # 5: none of them does
        raise RuntimeError(done.stdout + done.stderr)
    java = done.stdout.splitlines()
    return {
        test
        for test in tests
        if not any(line == test or line.startswith(f"{test}[") for line in java)
    }


class Pieces:
    """A run that may end before all is done, and goes on the next time.

    Args:
        copies: where faults are planted.
        kept: what earlier runs of the same code have found.
        end_s: when nothing is begun any more, on the monotonic clock.
    """

    def __init__(self, copies: Copies, kept: Kept, end_s: float) -> None:
        self._copies = copies
        self._kept = kept
        self._end_s = end_s
        self.bad = 0

    def sound(self, tests: Iterable[str]) -> None:
        """Run tests without a fault."""
        missing = [test for test in tests if self._kept.kinds(test) is None]
        for test, ran in self._each(self._copies.sound, missing):
            if ran.passed:
                self._kept.sound(test, ran.kinds)
            else:
                self.bad += 1
                print(f"not sound   {test}\n{ran.printed}", flush=True)

    def plant(self, faults: Sequence[Mutant]) -> list[Mutant]:
        """Plant faults whose tests are sound; returns those that are not known to be red."""
        ready = []
        for one in self._unknown(faults):
            kinds = self._kept.kinds(one.test)
            if one.kind and kinds is not None and kinds != {one.kind}:
                self.bad += 1
                print(f"not a test of kind {one.kind}  {one.name}  ({one.test})")
            elif kinds is not None:
                ready.append(one)
        for one, answer in self._each(self._copies.verdict, ready):
            if answer == "red":
                self._kept.red(one.name, one.digest)
            self.bad += answer != "red"
            print(f"{answer:<10}  {one.name}  ({one.test})", flush=True)
        return self._unknown(faults)

    def _unknown(self, faults: Sequence[Mutant]) -> list[Mutant]:
        return [one for one in faults if not self._kept.is_red(one.name, one.digest)]

    def _each(self, work: Callable[[ItemT], ResultT], items: Sequence[ItemT]) -> Iterator[ResultT]:
        """The results of a piece of work for each item, until the time is over."""

        def begin(item: ItemT) -> ResultT | None:
            return None if time.monotonic() >= self._end_s else work(item)

        with ThreadPoolExecutor(JOBS) as pool:
            yield from (result for result in pool.map(begin, items) if result is not None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them all, or those named; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--no-java", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    asked = parser.parse_args(arguments)
    end_s = time.monotonic() + asked.seconds
    chosen = [one for one in mutants() if not asked.names or one.name in asked.names]
    if strange := set(asked.names) - {one.name for one in chosen}:
        sys.stderr.write(f"no such fault: {', '.join(sorted(strange))}\n")
        return 2
    tests = sorted({one.test for one in chosen})
    if asked.no_java:
        light = without_java(tests)
        chosen = [one for one in chosen if one.test in light]
        tests = sorted(light)
    code = code_digest(ROOT, COPIED)
    path = PIECES / f"{code[:16]}.json"
    if asked.again:
        path.unlink(missing_ok=True)
    head = recorded.commit()
    different = None if head is None else recorded.changed(head)
    with tempfile.TemporaryDirectory() as folder:
        pieces = Pieces(Copies(Path(folder)), Kept(path, code, head, different), end_s)
        pieces.sound(tests)
        unknown = pieces.plant(chosen)
    print(f"{len(chosen)} faults, {len(unknown)} not known to be red, {pieces.bad} problems")
    if pieces.bad or not chosen:
        return 1
    return 3 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
