"""``python -m bench.brokers forwarded|fleets|cluster``: take rows, keep them, print a table.

``forwarded``: CreateTopics through our broker and through Kafka's, under one Kafka controller, in
turns; then Metadata of 1,000 topics of 10 partitions from both; then CreateTopics that wait behind
a large one of another client. ``fleets``: the highest rate of ISR
changes at which the 99th percentile of heartbeats stays at 50 ms or below, for 50, 200 and 500
brokers, in KRaft mode and in ZooKeeper mode with migration, on our controller and on Kafka's. Its
rows are kept; a run that was interrupted goes on. ``cluster``: how long a cluster of
``emulator.testing`` takes to start in this process.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from bench.beside.machine import description
from bench.brokers import cluster, fleets, forwarded, table
from bench.brokers.kept import KeptRows
from bench.runs.code import code_digest


def _say(row: dict[str, Any]) -> None:
    _print(json.dumps(row))


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run one part; returns 1 if its target is missed."""
    options = _options()
    _say({"machine": description()})
    if options.part == "forwarded":
        return _forwarded(options)
    if options.part == "cluster":
        return _cluster(options)
    plan = fleets.FleetBench(
        options.brokers, options.controllers, options.modes, options.seconds, options.patience
    )
    _print(f"about {plan.minutes:.0f} minutes on a quiet machine, less what is kept")
    folder = options.out / "brokers-fleets"
    kept = KeptRows(folder / "rows.jsonl", code_digest("bench/brokers"))
    _print("\n" + table.fleets(fleets.take(plan, folder, kept, _say)))
    return 0


def _forwarded(options: argparse.Namespace) -> int:
    _print(f"about {1 + options.rounds * 0.4:.0f} minutes on a quiet machine; not resumed")
    folder = options.out / time.strftime("brokers-forwarded-%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    rows = list(forwarded.rows(folder, options.rounds, options.patience, _say))
    (folder / "rows.json").write_text(json.dumps(rows, indent=1))
    medians = forwarded.medians(rows)
    _print("\n" + table.forwarded(medians))
    missed = False
    for what in forwarded.APIS:
        ratio = forwarded.ratio(medians, what)
        _print(f"{what}, p50: ours / kafka = {ratio:.2f}")
        missed |= what == "CreateTopics" and ratio > forwarded.RATIO_MAX
    return int(missed)


def _cluster(options: argparse.Namespace) -> int:
    folder = options.out / time.strftime("brokers-cluster-%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    rows = list(cluster.rows(options.rounds, options.patience, _say))
    (folder / "rows.json").write_text(json.dumps(rows, indent=1))
    found = cluster.medians(rows)
    _print("\n" + table.cluster(found))
    return int(cluster.missed(found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.brokers", description=__doc__)
    parser.add_argument("part", choices=["forwarded", "fleets", "cluster"])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of rows and logs")
    parser.add_argument("--patience", type=float, default=60, help="seconds for a quiet machine")
    parser.add_argument(
        "--rounds", type=int, default=5, help="of forwarded: turns of each broker; of cluster"
    )
    parser.add_argument("--brokers", type=_sizes, default=[50, 200, 500], help="of fleets: sizes")
    parser.add_argument(
        "--controllers", type=_some_of(fleets.CONTROLLERS), default=fleets.CONTROLLERS
    )
    parser.add_argument("--modes", type=_some_of(fleets.MODES), default=fleets.MODES)
    parser.add_argument("--seconds", type=float, default=15, help="of fleets: length of a row")
    return parser.parse_args()


def _sizes(text: str) -> list[int]:
    return [int(size) for size in text.split(",")]


def _some_of(names: tuple[str, ...]) -> Any:
    def parsed(text: str) -> list[str]:
        found = text.split(",")
        if not set(found) <= {*names}:
            raise argparse.ArgumentTypeError(f"{text}: some of {','.join(names)}")
        return found

    return parsed


if __name__ == "__main__":
    sys.exit(main())
