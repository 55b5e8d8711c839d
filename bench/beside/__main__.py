"""``python -m bench.beside [--recording]``: run, print the rows, the medians and the ratios."""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import time
from pathlib import Path

from bench.beside import recording
from bench.beside.contenders import KAFKA, KAFKA_TUNED, OURS, Contender
from bench.beside.recording import TRACED, UNTRACED
from bench.beside.report import save, table
from bench.beside.row import Row
from bench.beside.scenario import Burst
from bench.beside.stage import Plan, play
from bench.rig.process import interrupt_on_terminate, kill_all


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
    if options.recording:
        topics = max(1, topics // 2)  # of many bursts in one ZooKeeper
    return Plan(
        cold=Burst("cold", topics, partitions, clients),
        small=Burst("small", 3 * topics, 5, clients),
        bursts=[Burst("burst", topics, partitions, clients)],
        patience_s=0.0 if options.quick else options.patience,
    )


def _contenders(options: argparse.Namespace) -> list[Contender]:
    if options.recording:
        return [TRACED, UNTRACED]
    wanted = [name for name in options.only.split(",") if name]
    return [one for one in (OURS, KAFKA, KAFKA_TUNED) if not wanted or one.name in wanted]


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
            if options.recording:
                rows += recording.play(plan, number, servers, _say)
            else:
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
