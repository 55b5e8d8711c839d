"""``python -m bench``: everything that is measured, one after the other, and whether it all held.

The codec beside construct, Java and kio; our controller beside Kafka's; recording beside not
recording. Ten minutes on two cores. What is wanted of a single one is said by its own module.
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
    """Run the parts as programs of their own: none measures with another's garbage."""
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
