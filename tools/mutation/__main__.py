"""A sampled mutation score: ``python -m tools.mutation --number 150 --seed 1``.

Draws random changes of the machines, plants each in a copy of the source, and runs the tests that
coverage says touch it. A mutant that no test notices is a survivor. See ``docs/dev/mutation.md``.
A run goes on where one of the same product ended: a killed mutant stays killed for as long as the
test that killed it is the same, a survivor until a test file changes. ``--seconds S`` begins no
mutant after S seconds; ``--real`` runs the tests with real servers on the survivors;
``--recorded`` takes what was recorded of the tests, however old, and records nothing. The exit
code is 0 if the goals are reached, 1 if not, 3 if the time was over.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.mutants import ROOT
from tools.mutation.cover import Recorded, digest_of, is_test, product_digest, spread
from tools.mutation.operators import Place
from tools.mutation.sample import draw, equivalents
from tools.mutation.trial import Copy

CACHE: Final = ROOT / ".cache" / "mutation"
GOALS: Final = {"all": 0.85, "migration": 0.90, "raft": 0.90}
UNTOUCHED: Final = "no test runs this line"
SURVIVED: Final = "survived"


class Verdicts:
    """What became of each mutant; a file, written after each.

    Args:
        path: of the file.
        root: of the checkout.
    """

    def __init__(self, path: Path, root: Path) -> None:
        self._path, self._root = path, root
        tests = (one for one in sorted((root / "tests").rglob("*.py")) if is_test(one))
        self._tests = hashlib.sha256("".join(map(digest_of, tests)).encode()).hexdigest()[:16]
        try:
            self._kept: dict[str, list[str]] = json.loads(path.read_text())
        except (OSError, ValueError):
            self._kept = {}

    def _stamp(self, verdict: str) -> str:
        file = verdict.removeprefix("timeout: ").partition("::")[0]
        return digest_of(self._root / file) if file.endswith(".py") else self._tests

    def known(self, place: Place) -> str | None:
        """The verdict, if it still counts."""
        verdict, stamp = self._kept.get(place.change.key, ("", ""))
        return verdict if verdict and stamp == self._stamp(verdict) else None

    def keep(self, place: Place, verdict: str) -> None:
        """Put down a verdict."""
        self._kept[place.change.key] = [verdict, self._stamp(verdict)]
        self._path.write_text(json.dumps(self._kept, indent=1))


def killed(verdict: str) -> bool:
    """Whether a test noticed the mutant."""
    return verdict not in {SURVIVED, UNTOUCHED}


def described(place: Place) -> str:
    """One mutant, for a reader."""
    change = place.change
    old, new = (" ".join(text.split())[:70] for text in (change.old, change.new))
    where = f"{change.file}:{place.line} {change.function}"
    return f"{change.key} {where}  {change.kind}: {old} -> {new}"


def score(verdicts: Sequence[tuple[Place, str]], same: set[str]) -> tuple[str, bool]:
    """The figures by package, and whether the goals are reached.

    Args:
        verdicts: of each mutant.
        same: keys of the equivalent ones, which count on neither side.
    """
    dead: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for place, verdict in verdicts:
        if place.change.key in same and not killed(verdict):
            continue
        for name in ("all", place.change.file.split("/")[1]):
            total[name] += 1
            dead[name] += killed(verdict)
    lines = [
        f"{name:<12} {dead[name]:>4} of {count:>4} killed, {dead[name] / count:.0%}"
        for name, count in sorted(total.items())
    ]
    reached = all(dead[name] >= goal * total[name] for name, goal in GOALS.items())
    return "\n".join(lines), reached


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw, plant, print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__)
    parser.add_argument("--number", type=int, default=150)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--recorded", action="store_true")
    asked = parser.parse_args(arguments)
    folder = CACHE / product_digest(ROOT)[:16]
    folder.mkdir(parents=True, exist_ok=True)
    recorded = Recorded(ROOT, CACHE, real=asked.real)
    if asked.recorded:
        recorded.load()
    else:
        recorded.record()
    end_s = time.monotonic() + asked.seconds
    verdicts = Verdicts(folder / "verdicts.json", ROOT)
    real = Verdicts(folder / "real.json", ROOT) if asked.real else None
    same = equivalents()
    sample = draw(ROOT, CACHE / "counts.json", asked.number, asked.seed)
    found: list[tuple[Place, str]] = []
    with tempfile.TemporaryDirectory(prefix="mutation-") as at:
        copy = Copy(ROOT, Path(at))
        if failing := copy.failing(list(recorded.tests.values())[:1]):
            raise RuntimeError(f"{failing} fails without a mutant")
        for place in sample:
            verdict = verdicts.known(place)
            store = verdicts
            if real is not None and verdict is not None and not killed(verdict):
                verdict, store = real.known(place), real
            if verdict is None and time.monotonic() < end_s:
                change = place.change
                tests = recorded.touching(change.file, place.lines)
                near = change.file.split("/")[1]
                killer = copy.killer(place, spread(tests, near)) if tests else UNTOUCHED
                verdict = killer or SURVIVED
                store.keep(place, verdict)
            if verdict is not None:
                found.append((place, verdict))
                entry = same.get(place.change.key)
                equivalent = f" (equivalent: {entry['why']})" if entry else ""
                print(f"{described(place)}\n    {verdict}{equivalent}", flush=True)
    figures, reached = score(found, set(same))
    left = len(sample) - len(found)
    equal = sum(place.change.key in same and not killed(verdict) for place, verdict in found)
    print(f"seed {asked.seed}: {len(found)} mutants, {equal} equivalent, {left} not tried")
    print(figures)
    return 3 if left else int(not reached)


if __name__ == "__main__":
    sys.exit(main())
