"""Memory for each partition, also after a restart, and the time from the start to listening.

``memory``: growth of the resident set, divided by the partitions created. After a restart the same
difference is taken from an empty controller that was restarted too. ``start``: until the port takes
a connection, and the CPU used until then.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.beside.machine import process_cpu_s
from bench.rig.ports import is_open
from bench.rig.process import ProcessError
from bench.rpc.cluster import create, registered
from bench.rpc.servers import OURS, Server, made, pid_of, running

PER_TOPIC: Final = 100
_START_S: Final = 120.0
_POLL_S: Final = 0.001


def resident_bytes(pid: int) -> int:
    """The resident set of a process. Linux only.

    Raises:
        FileNotFoundError: there is no such process.
    """
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None, "a process has a resident set"
    return int(found[1]) * 1024


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """Bytes of one size of a cluster."""

    partitions: int
    empty: int
    """Resident before the first partition."""
    grown: int
    """Resident when all are made."""
    restarted_empty: int
    restarted: int

    @property
    def each(self) -> float:
        """Bytes a partition, made by this process."""
        return (self.grown - self.empty) / self.partitions

    @property
    def each_restarted(self) -> float:
        """Bytes a partition, loaded at the start."""
        return (self.restarted - self.restarted_empty) / self.partitions


def memory(partitions: int, folder: Path, say: Callable[[str], None]) -> MemoryRow:
    """Make partitions, restart, and look at each point.

    Raises:
        RpcRefusedError: a topic was refused.
        ProcessError: the controller did not start.
    """
    with running(OURS, folder) as server:
        cluster = registered(server.port)
        restarted_empty = _restarted(server)
        empty = resident_bytes(pid_of(server))
        cluster = registered(server.port)
        create(cluster, "memory", partitions // PER_TOPIC, PER_TOPIC)
        grown = resident_bytes(pid_of(server))
        restarted = _restarted(server)
    row = MemoryRow(partitions, empty, grown, restarted_empty, restarted)
    say(
        f"{partitions:,} partitions: {row.each:.0f} bytes each ({empty / 1e6:.0f} to "
        f"{grown / 1e6:.0f} MB); after a restart {row.each_restarted:.0f} ({restarted / 1e6:.0f} "
        f"MB)"
    )
    return row


def _restarted(server: Server) -> int:
    server.stop()
    server.start().wait_started()
    return resident_bytes(pid_of(server))


@dataclass(frozen=True, slots=True)
class StartRow:
    """One start of a controller that has metadata."""

    partitions: int
    listening_s: float
    cpu_s: float


def starts(
    partitions: int, rounds: int, folder: Path, say: Callable[[str], None]
) -> list[StartRow]:
    """Make partitions, then stop in order and start, several times.

    The byte code of the program is cached in the folder, as it is in an installed package; the
    first start, which writes it, does not count.

    Raises:
        RpcRefusedError: a topic was refused.
        ProcessError: the controller did not start.
    """
    rows: list[StartRow] = []
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "byte-code")
    server = made(OURS, folder)
    with contextlib.ExitStack() as stack:
        stack.callback(server.kill)
        server.start().wait_started()
        create(registered(server.port), "start", partitions // PER_TOPIC, PER_TOPIC)
        for _ in range(rounds):
            server.stop()
            began = time.monotonic()
            server.start()
            while not is_open(server.port):
                if time.monotonic() - began > _START_S:
                    raise ProcessError(f"it does not listen after {_START_S:g} s")
                time.sleep(_POLL_S)
            took_s = time.monotonic() - began
            rows.append(StartRow(partitions, took_s, process_cpu_s(pid_of(server))))
            say(
                f"{partitions:,} partitions: listening after {took_s:.2f} s, "
                f"{rows[-1].cpu_s:.2f} s of CPU"
            )
            server.wait_started()
    return rows
