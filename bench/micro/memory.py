"""Memory for each partition, also after a restart; plain KRaft.

Growth of the resident set, divided by the partitions created. After a restart the same difference
is taken from an empty controller that was restarted too.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bench.micro import table
from bench.micro.registrations import PROPERTIES, create, registered
from bench.micro.servers import OURS, Server, pid_of, running

PER_TOPIC: Final = 100


def options(parser: ArgumentParser) -> None:
    """What may be asked for."""
    parser.add_argument("--partitions", type=int, default=100_000)


def resident_bytes(pid: int) -> int:
    """The resident set of a process. Linux only.

    Raises:
        FileNotFoundError: there is no such process.
    """
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None, "a process has a resident set"
    return int(found[1]) * 1024


def rows(asked: Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """Create partitions, restart, and measure the memory at each point; one row.

    Raises:
        RpcRefusedError: a topic was refused.
        ProcessError: the controller did not start.
    """
    count: int = asked.partitions
    with running(OURS, folder / OURS, None, PROPERTIES) as server:
        registered(server.port)
        restarted_empty = _restarted(server)
        empty = resident_bytes(pid_of(server))
        create(registered(server.port), "memory", count // PER_TOPIC, PER_TOPIC)
        grown = resident_bytes(pid_of(server))
        restarted = _restarted(server)
    yield {
        "partitions": count,
        "bytes_each": round((grown - empty) / count),
        "empty_mb": empty / 1e6,
        "grown_mb": grown / 1e6,
        "bytes_each_after_a_restart": round((restarted - restarted_empty) / count),
        "restarted_mb": restarted / 1e6,
    }


def _restarted(server: Server) -> int:
    server.stop()
    server.start().wait_started()
    return resident_bytes(pid_of(server))


def summary(rows: Sequence[table.Row]) -> tuple[str, bool]:
    """The row."""
    return table.plain(rows), True
