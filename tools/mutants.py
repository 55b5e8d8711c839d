"""Plant known faults and see a named test turn red: ``python -m tools.mutants [NAME ...]``.

Each fault of ``mutants.toml`` is a text replaced in one product file, in a copy of the source. A
test that stays green does not guard what it claims to guard.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_name("mutants.toml")
COPIED = ("emulator", "wire", "bench", "tests", "tools", "docs", "jars", "pyproject.toml")
JOBS = 2


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Args:
        name: what is wrong then, in a few words.
        file: product file, from the root of the checkout.
        old: text that occurs there exactly once.
        new: what stands there instead.
        test: the pytest id that must fail.
    """

    name: str
    file: str
    old: str
    new: str
    test: str

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


def run(test: str, folder: Path) -> tuple[int, str]:
    """Exit code of one test in a copy of the source, and the end of what it printed."""
    environment = os.environ | {
        "PYTHONPATH": str(folder),
        "KRAFT_BRIDGE_CACHE": str(ROOT / ".cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    environment.pop("KRAFT_BRIDGE_RECORD", None)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, (done.stdout + done.stderr)[-1500:]


def copy(folder: Path) -> None:
    """Copy what tests need, without what they leave behind."""
    for name in COPIED:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, target)


def verdict(mutant: Mutant) -> tuple[Mutant, str]:
    """Plant one fault and run its test; ``red`` is the only good answer."""
    if why := mutant.stale():
        return mutant, f"stale: {why}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy(folder)
        path = folder / mutant.file
        path.write_text(path.read_text().replace(mutant.old, mutant.new))
        code, printed = run(mutant.test, folder)
    # 1 is "tests failed"; anything else (no such test, a broken import) proves nothing.
    return mutant, "red" if code == 1 else "GREEN" if code == 0 else f"error {code}: {printed}"


def sound(test: str) -> tuple[str, int, str]:
    """A test without any fault, which must pass."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy(folder)
        return test, *run(test, folder)


def main() -> int:
    """Run them all, or those named; returns the exit code."""
    chosen = [mutant for mutant in mutants() if not sys.argv[1:] or mutant.name in sys.argv[1:]]
    tests = sorted({mutant.test for mutant in chosen})
    bad = 0
    with ThreadPoolExecutor(JOBS) as pool:
        for test, code, printed in pool.map(sound, tests):
            if code != 0:
                bad += 1
                print(f"not sound   {test}\n{printed}")
        for mutant, answer in pool.map(verdict, chosen):
            bad += answer != "red"
            print(f"{answer:<10}  {mutant.name}  ({mutant.test})", flush=True)
    print(f"{len(chosen)} faults planted, {bad} problems")
    return 1 if bad or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
