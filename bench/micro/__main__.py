"""``python -m bench.micro PART``: one measurement alone; ``PART --help`` says what it does.

Each row is printed as JSON when it is taken; rows and the table at the end go to ``--out``.
Needs Linux (``/proc``); what starts servers needs the jars and a Java.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import sys
from pathlib import Path
from typing import Any, Final

from bench.lines import print_line
from bench.runs.code import code_digest
from emulator.servers.machine import description
from emulator.servers.process import interrupt_on_terminate, kill_all

PARTS: Final = (
    "codec",
    "pipeline",
    "rates",
    "steps",
    "memory",
    "start",
    "snapshot",
    "cluster",
    "recording",
    "forwarded",
    "fleets",
    "failover",
    "analysis",
    "follow",
)
"""Modules of this package: ``options(parser)``, ``rows(asked, folder)``, ``summary(rows)``."""


def _parser(parts: dict[str, Any]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.micro", description=__doc__)
    chosen = parser.add_subparsers(dest="part", required=True, metavar="PART")
    for name, part in parts.items():
        one = chosen.add_parser(name, help=part.__doc__.splitlines()[0], description=part.__doc__)
        one.add_argument("--out", type=Path, default=Path("out/bench", name), help="folder of rows")
        one.add_argument(
            "--patience", type=float, default=60, help="seconds to wait for a quiet machine"
        )
        part.options(one)
    return parser


def taken_by() -> dict[str, str]:
    """The first line: the machine, the code and the build of Python that take the rows."""
    return {
        "machine": description(),
        "code": code_digest(),
        "versions": f"Python {sys.version}",
    }


def main() -> int:
    """Take the rows of a part; returns 1 if it was interrupted or what it judges does not hold."""
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # each row ends its connections
    # What is not asked for is not imported: one of them needs a library that is not the product's.
    names = [name for name in sys.argv[1:2] if name in PARTS] or PARTS
    parts = {name: importlib.import_module(f"{__package__}.{name}") for name in names}
    asked = _parser(parts).parse_args()
    interrupt_on_terminate()
    folder: Path = asked.out.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    print_line(json.dumps(taken_by()))
    rows: list[dict[str, Any]] = []
    try:
        for row in parts[asked.part].rows(asked, folder):
            rows.append(row)
            print_line(json.dumps(row))
            (folder / "rows.json").write_text(json.dumps(rows, indent=1))
    except KeyboardInterrupt:
        print_line("interrupted; where rows are kept, the same command goes on")
        return 1
    finally:
        kill_all()
    text, holds = parts[asked.part].summary(rows)
    (folder / "table.md").write_text(f"{text}\n")
    print_line(f"\n{text}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
