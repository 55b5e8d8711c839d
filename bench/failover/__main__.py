"""``python -m bench.failover``: three controllers of ours, then three of Kafka's, same timeouts.

The leader is killed ``--kills`` times: from the kill until a change sent through a real broker is
carried out; and the time of commits one after the other, with
``controller.quorum.append.linger.ms`` 25 (Kafka's default) and 0, in plain KRaft mode. Then the
same kills in a migration with 200 topics of 100 partitions in which nothing differs: from the
election until dual write goes on, and the transactions of ZooKeeper meanwhile. Whether ours needs
longer after a kill (median) is said, and decides no exit code: it is of speed, and not judged where
the machine was busy.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from bench.beside.machine import Shared, Sharing, description
from bench.failover import migration
from bench.failover.rows import STACKS, Row, rows, summary
from bench.rig.process import interrupt_on_terminate

PARTS: Final = {"kraft": rows, "migration": migration.rows}


def main() -> int:
    """Take the rows of both stacks and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.failover", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of rows and logs")
    parser.add_argument("--kills", type=int, default=7)
    parser.add_argument("--parts", nargs="+", choices=[*PARTS], default=[*PARTS])
    parser.add_argument("--patience", type=float, default=60, help="seconds for a quiet machine")
    options = parser.parse_args()
    interrupt_on_terminate()
    folder = options.out.absolute() / time.strftime("failover-%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    _print(json.dumps({"machine": description()}))
    shared = Shared()
    taken: list[Row] = []
    for part, stack in itertools.product(options.parts, STACKS):
        for row in PARTS[part](folder, stack, options.kills, options.patience, _say):
            taken.append(row)
            (folder / "rows.json").write_text(json.dumps(taken, indent=1))
    _print("\n" + "\n".join(summary(taken)))
    if "kraft" in options.parts:
        _print("\n" + judged(taken, shared.read()))
    return 0


def judged(taken: Sequence[Row], sharing: Sharing) -> str:
    """Whether ours needs no longer than Kafka's after a kill, in one line."""
    ours, kafkas = (
        median(r["first_change_s"] for r in taken if (r["what"], r["stack"]) == ("kill", stack))
        for stack in ("ours", "kafka")
    )
    word = "OK" if ours <= kafkas else "NOT JUDGED" if sharing.busy else "FAILED"
    figures = f"{ours:.2f} s, Kafka's {kafkas:.2f} s; {sharing}"
    return f"{word:<12}ours needs no longer than Kafka's after a kill: {figures}"


def _say(row: Row) -> None:
    _print(json.dumps(row))


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
