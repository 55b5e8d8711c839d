"""``python -m bench.chaos``: three controllers, three real brokers, faults every 15 s, a verdict.

Exit code 1: something that was acknowledged is lost, two led in one epoch, a server ended by
itself, or replicas did not come back into sync. Everything of the run stays in its folder.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from bench import record
from bench.chaos.proofs import RATE, proofs, whole
from bench.chaos.run import run
from bench.chaos.stage import Options
from emulator.servers.process import interrupt_on_terminate


def main() -> int:
    """Run one round."""
    parser = argparse.ArgumentParser(prog="python -m bench.chaos", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of runs")
    parser.add_argument("--seconds", type=float, default=600, help="of load and faults")
    parser.add_argument("--seed", type=int, default=None, help="of the faults; else by the clock")
    parser.add_argument(
        "--kafkas", type=int, choices=[0, 1, 2], default=0, help="how many controllers are Kafka's"
    )
    parser.add_argument("--servers", type=int, choices=[0, 1, 3], default=0, help="of ZooKeeper")
    parser.add_argument(
        "--rate", type=float, default=RATE, help="administrative changes per second"
    )
    given = parser.parse_args()
    seed = int(time.time()) % 1_000_000 if given.seed is None else given.seed
    out = given.out.absolute() / time.strftime(f"chaos-%Y%m%d-%H%M%S-{seed}")
    interrupt_on_terminate()
    options = Options(out, given.seconds, seed, given.kafkas, given.servers, given.rate)
    code = run(options)
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    record.leave(proofs(events, held=code == 0), complete=whole(options))
    return code


if __name__ == "__main__":
    sys.exit(main())
