"""``python -m bench.beside [--recording]``: run, print the rows, the medians and the ratios."""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import time
from pathlib import Path
from typing import Final

from bench.beside.contenders import KAFKA, KAFKA_TUNED, OURS, Contender, ours
from bench.beside.report import save, table
from bench.beside.row import Row
from bench.beside.scenario import Burst
from bench.beside.stage import Plan, play
from bench.cluster.process import interrupt_on_terminate, kill_all

_TRACED: Final = ours(
    "trace on",
    "kraft-bridge, recording",
    lambda folder: {"kraftbridge.trace.dir": folder / "trace"},
)
_UNTRACED: Final = ours("trace off", "kraft-bridge, not recording")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.beside", description=__doc__)
    parser.add_argument("--recording", action="store_true", help="trace on beside trace off")
    parser.add_argument("--repetitions", type=int, default=3, help="rounds")
    parser.add_argument("--quick", action="store_true", help="one round, no wait for quiet")
    parser.add_argument("--topics", type=int, default=80)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--patience", type=float, default=20.0, help="seconds to wait for quiet")
    parser.add_argument("--only", default="", help="contenders, comma separated")
    parser.add_argument("--out", type=Path, default=None, help="folder of rows and server files")
    return parser.parse_args()


def _plan(options: argparse.Namespace) -> Plan:
    topics, partitions, clients = options.topics, options.partitions, options.clients
    # One burst of two seconds is too short to show a few percent; five show it better.
    bursts = 5 if options.recording else 1
    return Plan(
        cold=Burst("cold", topics, partitions, clients),
        small=Burst("small", 3 * topics, 5, clients),
        bursts=[Burst(f"burst{number}", topics, partitions, clients) for number in range(bursts)],
        patience_s=0.0 if options.quick else options.patience,
    )


def _contenders(options: argparse.Namespace) -> list[Contender]:
    known = [_UNTRACED, _TRACED] if options.recording else [OURS, KAFKA, KAFKA_TUNED]
    wanted = [name for name in options.only.split(",") if name]
    return [one for one in known if not wanted or one.name in wanted]


def main() -> int:
    """Run the rounds; 0 if no row is void."""
    interrupt_on_terminate()
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # each row ends its connections
    options = _options()
    folder: Path = options.out or Path("out", time.strftime("bench-%Y%m%d-%H%M%S"))
    contenders, plan = _contenders(options), _plan(options)
    rows: list[Row] = []
    try:
        for number in range(1 if options.quick else options.repetitions):
            servers = folder / f"round-{number + 1}"
            shutil.rmtree(servers, ignore_errors=True)
            rows += play(plan, contenders, number, servers, _say)
            shutil.rmtree(servers)  # kept only if the round failed
    finally:
        kill_all()
    title = "recording" if options.recording else "beside"
    text = table(rows, contenders, plan)
    _say(text)
    save(folder / title, rows, text)
    _say(f"rows: {folder / title}.json")
    return 1 if any(row.void for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
