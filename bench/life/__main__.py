"""``python -m bench.life``: real clusters of 3.9.2 and 3.4.1 through the whole life of a migration.

Producers, a group and an administrator run through every phase; what they were told is looked for
at the end of each. A run that was cut goes on with the phase that it was in. Exit code 1: a check
failed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from bench.life.phases import PHASES
from bench.life.run import Options, run
from bench.runs.run import NotAloneError
from emulator.servers.jars import JarsMissingError
from emulator.servers.process import interrupt_on_terminate

_INTERRUPTED: Final = 130
RELEASES: Final = ("3.9.2", "3.4.1")


def main() -> int:
    """Play the lives that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.life", description=__doc__)
    parser.add_argument("--release", choices=RELEASES, help="of the brokers; both if not given")
    names = [one.name for one in PHASES]
    parser.add_argument("--until", choices=names, help="the last phase to play")
    parser.add_argument("--out", type=Path, default=Path("out/life"), help="folder of all lives")
    parser.add_argument("--again", action="store_true", help="begin anew, whatever is there")
    given = parser.parse_args()
    releases = RELEASES if given.release is None else (given.release,)
    interrupt_on_terminate()
    try:
        whole = given.release is None and given.until is None
        return run(Options(given.out.absolute(), releases, given.until, given.again, whole))
    except (JarsMissingError, NotAloneError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: the same command goes on with this phase\n")
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
