"""Plants one mutant in a copy of the source and runs the tests that touch it, quick ones first."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.mutants import COPIED
from tools.mutation.cover import Test
from tools.mutation.operators import Place
from tools.mutation.touching import VARIABLE

FIRST_TESTS: Final = 25
"""Of the first run: most mutants are killed by it, and a run of pytest takes seconds to begin."""
TESTS_MAX: Final = 400
SECONDS: Final = (10.0, 40.0)
"""Of the first and of the second run, by the times of the tests under coverage."""
IDLE_S: Final = 30.0
"""What a run may take beyond five times the time of its tests, before it counts as hanging."""
FRACTION: Final = 3
"""A hang is one if the same run without the mutant takes less than the limit divided by this."""


def rounds(tests: Sequence[Test]) -> list[list[Test]]:
    """The runs for one mutant, one after another until one fails.

    Args:
        tests: those that touch it, the most promising first.
    """
    first, rest = list[Test](), list[Test]()
    first_s, rest_s = SECONDS
    for test in tests[:TESTS_MAX]:
        if len(first) < FIRST_TESTS and test.seconds <= first_s:
            first.append(test)
            first_s -= test.seconds
        elif test.seconds <= rest_s:
            rest.append(test)
            rest_s -= test.seconds
    if tests and not first and not rest:
        rest = [min(tests, key=lambda test: test.seconds)]
    return [one for one in (first, rest) if one]


class Copy:
    """A copy of what tests need, where mutants are planted; the checkout is never changed.

    Args:
        root: of the checkout.
        folder: where it is made.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self._root, self._folder = root, folder / "copy"
        self._sound: dict[str, bool] = {}
        for name in COPIED:
            source, target = root / name, self._folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy(source, target)

    def killer(self, place: Place, tests: Sequence[Test]) -> str | None:
        """Who kills a mutant: a test, ``import`` or ``timeout: test``; None: it survives.

        A killer passes without the mutant; a test that does not is left out from then on.
        """
        for some in rounds(self._usable(tests)):
            left = some
            while left and (found := self._planted(place, left)):
                if self._passes(found, left):
                    return found
                fewer = self._usable(left)
                if len(fewer) == len(left):
                    break  # this machine is too slow for a result
                left = fewer
        return None

    def _usable(self, tests: Sequence[Test]) -> list[Test]:
        return [test for test in tests if self._sound.get(test.name, True)]

    def _planted(self, place: Place, tests: Sequence[Test]) -> str | None:
        path = self._folder / place.change.file
        sound = path.read_bytes()
        path.write_bytes(place.planted(sound))
        try:
            return self.failing(tests)
        finally:
            path.write_bytes(sound)

    def _passes(self, killer: str, tests: Sequence[Test]) -> bool:
        """Whether these tests pass without a mutant, so that it is the mutant that fails them."""
        if killer in self._sound:
            return self._sound[killer]
        named = [test for test in tests if test.name == killer]
        if named:
            self._sound[killer] = self.failing(named) is None
            return self._sound[killer]
        if self.failing(tests, _limit_s(tests) / FRACTION) is None:
            return True
        for test in tests:
            self._sound[test.name] = self.failing([test]) is None
        return False

    def failing(self, tests: Sequence[Test], limit_s: float | None = None) -> str | None:
        """The first of these tests that fails in the copy as it is; None: all pass.

        Args:
            tests: to run, in this order.
            limit_s: what they may take together.
        """
        seen = self._folder / "tests.jsonl"
        seen.unlink(missing_ok=True)
        names = self._folder / "names.txt"
        names.write_text("\n".join(test.name for test in tests))
        environment = os.environ | {
            "PYTHONPATH": str(self._folder),
            "KRAFT_BRIDGE_CACHE": str(self._root / ".cache"),
            "HYPOTHESIS_PROFILE": "quick",
            "PYTHONDONTWRITEBYTECODE": "1",
            VARIABLE: str(self._folder),
        }
        plugins = ["-p", "no:cacheprovider", "-p", "no:randomly", "-p", "tools.mutation.touching"]
        command = [sys.executable, "-m", "pytest", "-q", "-x", *plugins, f"@{names}"]
        process = subprocess.Popen(
            command,
            cwd=self._folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            code = process.wait(limit_s or _limit_s(tests))
        except subprocess.TimeoutExpired:
            code = None
        finally:
            # Also what its tests have started and a hanging run did not end.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if code == 0:
            return None
        done = [json.loads(line) for line in seen.read_text().splitlines()] if seen.exists() else []
        failed = [one["test"] for one in done if one["outcome"] == "failed"]
        if failed:
            return str(failed[0])
        if code is None:
            return f"timeout: {tests[min(len(done), len(tests) - 1)].name}"
        if code == 5:
            raise RuntimeError("there was no test")
        return "import"  # a plugin or a test file fails there, or it has another set of tests


def _limit_s(tests: Sequence[Test]) -> float:
    return IDLE_S + 5 * sum(test.seconds for test in tests)
