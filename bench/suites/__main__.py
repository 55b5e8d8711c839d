"""``python -m bench.suites``: Kafka's own integration tests with our controllers, and with Kafka's.

Prints class x (passed, failed on both, failed on ours alone) and the reason of each of the last.
A run that was cut goes on with the tests that have not ended. Exit code 1: a test failed on ours
alone, and no row of ``known.toml`` says why, or not all were run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from bench.runs.run import NotAloneError
from bench.suites.classes import classes
from bench.suites.run import Options, run
from emulator.servers.jars import JarsMissingError
from emulator.servers.java import JavaNotFoundError
from emulator.servers.java_tools import JavaToolError
from emulator.servers.process import interrupt_on_terminate

_INTERRUPTED: Final = 130


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m bench.suites", description=__doc__)
    names = [one.simple for one in classes()]
    parser.add_argument("--class", dest="only", action="append", choices=names, metavar="CLASS")
    parser.add_argument("--short", action="store_true", help="three classes, as in make matrix")
    parser.add_argument("--out", type=Path, default=Path("out/kafka-tests"), help="folder of all")
    parser.add_argument("--again", action="store_true", help="begin anew, whatever was run")
    help_of = "with Kafka's controller only what failed with ours"
    parser.add_argument("--failed-only", action="store_true", help=help_of)
    given = parser.parse_args()
    chosen = [
        one
        for one in classes()
        if (not given.only or one.simple in given.only) and (not given.short or one.short)
    ]
    interrupt_on_terminate()
    options = Options(given.out.absolute(), chosen, given.again, given.failed_only)
    try:
        return run(options)
    except (JarsMissingError, JavaNotFoundError, JavaToolError, NotAloneError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: the same command goes on with the tests that are left\n")
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
