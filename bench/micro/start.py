"""Time from the start of a controller that has metadata to listening, and the CPU used until then.

The byte code of the program is cached in the folder, as it is in an installed package; the first
start, which writes it, does not count.
"""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bench.micro import table
from bench.micro.memory import PER_TOPIC
from bench.micro.registrations import PROPERTIES, create, registered
from bench.micro.servers import OURS, pid_of, running
from emulator.servers.machine import process_cpu_s
from emulator.servers.ports import is_open
from emulator.servers.process import ProcessError

_START_S: Final = 120.0
_POLL_S: Final = 0.001


def options(parser: ArgumentParser) -> None:
    """What may be asked for."""
    parser.add_argument("--partitions", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5, help="starts")


def rows(asked: Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """Make partitions, then stop in order and start, several times.

    Raises:
        RpcRefusedError: a topic was refused.
        ProcessError: the controller did not start.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "byte-code")
    with running(OURS, folder / OURS, None, PROPERTIES) as server:
        create(registered(server.port), "start", asked.partitions // PER_TOPIC, PER_TOPIC)
        for _ in range(asked.rounds):
            server.stop()
            began = time.monotonic()
            server.start()
            while not is_open(server.port):
                if time.monotonic() - began > _START_S:
                    raise ProcessError(f"it does not listen after {_START_S:g} s")
                time.sleep(_POLL_S)
            took_s = time.monotonic() - began
            cpu_s = process_cpu_s(pid_of(server))
            yield {"partitions": asked.partitions, "listening_s": took_s, "cpu_s": cpu_s}
            server.wait_started()


def summary(rows: Sequence[table.Row]) -> tuple[str, bool]:
    """Every row, and the median."""
    middle = {name: table.middle(rows, name) for name in ("listening_s", "cpu_s")}
    return table.plain([*rows, {"partitions": "median", **middle}]), True
