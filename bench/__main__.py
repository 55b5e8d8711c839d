"""``python -m bench``: runs all measurements in turn, and checks the targets.

It compares the codec with construct, Java and kio; our controller with Kafka's; recording with not
recording. Ten minutes on two cores. Each module states its own targets.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

_PARTS: Final = (
    ("bench.codec",),
    ("bench.beside",),
    ("bench.beside", "--recording"),
)


def main() -> int:
    """Run the parts as separate programs, so that no garbage of one affects another."""
    out = str(Path("out", time.strftime("bench-%Y%m%d-%H%M%S")))
    failed = 0
    for module, *options in _PARTS:
        sys.stdout.write(f"\n== {' '.join((module, *options))}\n")
        sys.stdout.flush()
        where = ["--out", out] if module == "bench.beside" else []
        done = subprocess.run(
            [sys.executable, "-m", module, *options, *where, *sys.argv[1:]], check=False
        )
        failed |= done.returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
