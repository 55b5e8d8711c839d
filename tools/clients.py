"""Make the environments of old Python clients: ``python -m tools.clients``, for ``make matrix``.

Each is a folder of its own below the cache, pinned by hash in ``bench/matrix/clients``.
"""

import shutil
import sys

from bench.matrix.clients.clients import ROOT, environment
from tools.bootstrap import install, make_venv

PINS = ROOT / "bench" / "matrix" / "clients"
NAMES = ("kafka-python-1.4.4",)


def main() -> str | None:
    """Make what is missing; returns one sentence on failure, or exits with one."""
    for name in NAMES:
        folder = environment(name).parents[1]
        pins = PINS / f"{name}.txt"
        done = folder / pins.name
        if done.exists() and done.read_bytes() == pins.read_bytes():
            continue
        folder.parent.mkdir(parents=True, exist_ok=True)
        pip = make_venv(str(folder))  # type: ignore[no-untyped-call]  # tools.bootstrap runs before mypy is there
        install(pip, "--require-hashes", "--no-deps", "-r", str(pins))  # type: ignore[no-untyped-call]  # tools.bootstrap runs before mypy is there
        shutil.copy(pins, done)
    return None


if __name__ == "__main__":
    sys.exit(main())
