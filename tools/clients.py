"""Make environments that are not ours, pinned by hash: each is a folder of its own below the cache.

``python -m tools.clients`` makes those of old Python clients, for ``make matrix``; ``python -m
tools.clients cluster`` that of the store, for ``make cluster``.
"""

import shutil
import sys
from pathlib import Path

from bench.cluster import moto
from bench.matrix.clients.clients import ROOT, environment
from tools.bootstrap import install, make_venv

PINS = ROOT / "bench" / "matrix" / "clients"
NAMES = ("kafka-python-1.4.4",)


def make(python: Path, pins: Path) -> None:
    """Make one environment unless it is there; exits with one sentence on failure.

    Args:
        python: its interpreter.
        pins: what it has.
    """
    folder = python.parents[1]
    done = folder / pins.name
    if done.exists() and done.read_bytes() == pins.read_bytes():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    pip = make_venv(str(folder))  # type: ignore[no-untyped-call]  # tools.bootstrap runs before mypy is there
    install(pip, "--require-hashes", "--no-deps", "-r", str(pins))  # type: ignore[no-untyped-call]  # tools.bootstrap runs before mypy is there
    shutil.copy(pins, done)


def main() -> None:
    """Make what is missing."""
    if sys.argv[1:] == ["cluster"]:
        make(moto(), ROOT / "bench" / "cluster.txt")
        return
    for name in NAMES:
        make(environment(name), PINS / f"{name}.txt")


if __name__ == "__main__":
    main()
