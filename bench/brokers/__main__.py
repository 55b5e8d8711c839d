"""``python -m bench.brokers forwarded|fleets``: run, print the rows and keep them as JSON.

``forwarded``: CreateTopics through our broker and through Kafka's, under one Kafka controller, in
turns; then Metadata of 1,000 topics of 10 partitions from both. ``fleets``: the highest rate of ISR
changes at which the 99th percentile of heartbeats stays at 50 ms or below, for 50, 200 and 500
brokers, on our controller and on Kafka's.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from bench.beside.machine import description
from bench.brokers import fleets, forwarded


def _say(row: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run one part; returns 1 if one of its targets is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.brokers", description=__doc__)
    parser.add_argument("part", choices=["forwarded", "fleets"])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of rows and logs")
    parser.add_argument("--rounds", type=int, default=5, help="of forwarded: turns of each broker")
    parser.add_argument("--brokers", default="50,200,500", help="of fleets: sizes")
    parser.add_argument("--controllers", default="ours,kafka", help="of fleets")
    parser.add_argument("--seconds", type=float, default=15, help="of fleets: length of a row")
    options = parser.parse_args()
    folder = options.out / time.strftime(f"brokers-{options.part}-%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    _say({"machine": description()})
    if options.part == "forwarded":
        rows = list(forwarded.rows(folder, options.rounds, _say))
        missed = forwarded.summary(rows, _say)
    else:
        sizes = [int(size) for size in options.brokers.split(",")]
        rows = list(
            fleets.rows(folder, sizes, options.controllers.split(","), options.seconds, _say)
        )
        missed = False
    (folder / "rows.json").write_text(json.dumps(rows, indent=1))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
