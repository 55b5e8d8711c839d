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
from emulator.servers.waiting import wait_for

PER_TOPIC: Final = 100
_BETWEEN: Final = "metadata.log.max.record.bytes.between.snapshots"
_BYTES_EACH: Final = 60
"""Of the log for each partition, which takes 120: so there are two snapshots."""


def options(parser: ArgumentParser) -> None:
    """What may be asked for."""
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument(
        "--snapshots", action="store_true", help="with two snapshots at the last restart"
    )


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
    more: dict[str, object] = {_BETWEEN: _BYTES_EACH * count} if asked.snapshots else {}
    with running(OURS, folder / OURS, None, PROPERTIES | more) as server:
        registered(server.port)
        restarted_empty = _restarted(server)
        empty = resident_bytes(pid_of(server))
        create(registered(server.port), "memory", count // PER_TOPIC, PER_TOPIC)
        if asked.snapshots:
            wait_for("two snapshots", lambda: len([*server.data.glob("*/*.checkpoint")]) > 1)
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
