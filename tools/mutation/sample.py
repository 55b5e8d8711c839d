"""Draws mutants: each change that can be made in the machines is as likely as any other."""

from __future__ import annotations

import hashlib
import json
import random
import tomllib
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Final

from tools.mutation.operators import Place, places, plantable

PACKAGES: Final = "migration znodes raft zookeeper controller metadata net node broker".split()
EQUIVALENTS: Final = Path(__file__).with_name("equivalents.toml")


def files(root: Path) -> list[Path]:
    """The source files of the machines."""
    return [path for name in PACKAGES for path in sorted((root / "emulator" / name).rglob("*.py"))]


def _counts(root: Path, cache: Path) -> dict[str, int]:
    """File -> number of its changes; those of a content that was counted before are kept."""
    operators = Path(__file__).with_name("operators.py").read_bytes()
    try:
        known: Mapping[str, int] = json.loads(cache.read_text())
    except (OSError, ValueError):
        known = {}
    found, kept = {}, {}
    for path in files(root):
        file, source = str(path.relative_to(root)), path.read_bytes()
        digest = hashlib.sha256(operators + b"\0" + source).hexdigest()
        count = known[digest] if digest in known else len(places(file, source))
        found[file] = kept[digest] = count
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text(json.dumps(kept))
    return found


def draw(root: Path, cache: Path, number: int, seed: int) -> list[Place]:
    """A sample, in the order in which it was drawn: a shorter one is its beginning.

    Args:
        root: of the checkout.
        cache: a file for what need not be counted again.
        number: of the mutants.
        seed: of the choice.
    """
    counts = _counts(root, cache)
    names = list(counts)
    ends = list(accumulate(counts.values()))
    order = list(range(ends[-1]))
    random.Random(seed).shuffle(order)
    parsed: dict[str, list[Place]] = {}
    drawn: list[Place] = []
    for index in order:
        if len(drawn) == number:
            break
        at = next(at for at, end in enumerate(ends) if index < end)
        file = names[at]
        source = (root / file).read_bytes()
        if file not in parsed:
            parsed[file] = places(file, source)
        place = parsed[file][index - (ends[at] - counts[file])]
        if plantable(place, source):
            drawn.append(place)
    return drawn


def equivalents(path: Path = EQUIVALENTS) -> dict[str, dict[str, str]]:
    """Key of a change that no test can see -> its entry, with the reason."""
    entries = tomllib.loads(path.read_text()).get("equivalent", [])
    return {entry["key"]: entry for entry in entries}


def rotten(root: Path, path: Path = EQUIVALENTS) -> list[str]:
    """Entries that name a change which cannot be made any more, or give no reason."""
    bad = []
    for key, entry in equivalents(path).items():
        source = root / entry["file"]
        there = source.exists() and any(
            place.change.key == key for place in places(entry["file"], source.read_bytes())
        )
        if not there or not entry.get("why"):
            bad.append(f"{entry['file']}: {entry.get('text')}")
    return bad
