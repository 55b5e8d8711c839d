"""``python -m bench.matrix``: migrate brokers of all six bridge releases and print the table.

Exit code 1 if a cell is red that Kafka's own controller of that release does not fail too, or if a
step was not run because one before it failed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from bench import record
from bench.lines import print_progress
from bench.matrix import table
from bench.matrix.run import BUILDS_ON, RED, STEPS, Cell, Played, play, steps_of
from emulator.servers.jars import BRIDGE_RELEASES, JarsMissingError
from emulator.servers.java import JavaNotFoundError
from emulator.servers.process import ProcessError, interrupt_on_terminate
from emulator.servers.tool_host import ToolHost


def main() -> int:
    """Parse the command line and run; returns the exit code."""
    parser = argparse.ArgumentParser(prog="bench.matrix", description=__doc__)
    parser.add_argument("--release", action="append", choices=BRIDGE_RELEASES)
    parser.add_argument("--step", action="append", choices=list(STEPS), help="only these")
    parser.add_argument("--beside", action="store_true", help="Kafka's controller in any case")
    parser.add_argument("--json", action="store_true", help="print cells as JSON")
    parser.add_argument("--keep", type=Path, help="folder for the servers' files, kept")
    options = parser.parse_args()
    interrupt_on_terminate()
    begun = time.monotonic()
    cells: list[Cell] = []
    releases = list(dict.fromkeys(options.release or BRIDGE_RELEASES))
    expected = [(release, step) for release in releases for step in steps_of(options.step)]
    try:
        with ToolHost() as host, tempfile.TemporaryDirectory() as scratch:
            root = options.keep.absolute() if options.keep else Path(scratch)
            for release in releases:
                cells += _release(release, root, host, options.step, beside=options.beside)
    except (JarsMissingError, JavaNotFoundError, ProcessError) as error:
        print_progress(str(error))
        return 2
    if options.json:
        sys.stdout.write(json.dumps([dataclasses.asdict(cell) for cell in cells], indent=1) + "\n")
    else:
        sys.stdout.write(f"{table.markdown(cells, expected)}\n\n{_footing(begun)}\n")
    record.leave(table.proofs(cells), complete=not options.release and not options.step)
    return 0 if table.ours_is_good(cells, expected) else 1


def _release(
    release: str, root: Path, host: ToolHost, steps: list[str] | None, *, beside: bool
) -> list[Cell]:
    """Cells of our controller, and of Kafka's own where ours are red or ``beside`` is set."""
    done = play(
        release,
        table.OURS,
        root / f"{release}-ours",
        host=host,
        print_line=print_progress,
        only=steps,
    )
    report(release, table.OURS, done)
    cells = done.cells
    red = {cell.step for cell in cells if cell.state == RED}
    if beside or red:
        only = steps if beside else [*red, *(BUILDS_ON[step] for step in red & BUILDS_ON.keys())]
        folder = root / f"{release}-kafka"
        theirs = play(release, table.KAFKA, folder, host=host, print_line=print_progress, only=only)
        report(release, table.KAFKA, theirs)
        cells = cells + theirs.cells
    return cells


def report(release: str, controller: str, done: Played) -> None:
    """Print how long a migration took, and which warnings and errors the brokers logged."""
    print_progress(f"{release} on {controller}: {done.seconds:.0f} s")
    for kind, count in done.complaints.most_common():
        print_progress(f"    {count:5} {kind}")


def _footing(begun: float) -> str:
    load, cores = os.getloadavg()[1], os.cpu_count()
    return (
        f"{time.strftime('%Y-%m-%d')}, {time.monotonic() - begun:.0f} s, "
        f"{cores} cores, load of the last five minutes {load:.1f}"
    )


if __name__ == "__main__":
    sys.exit(main())
