"""The Spark cluster of ``compose/analysis.yaml``."""

from __future__ import annotations

import json
import sys
import urllib.request
from typing import Final

from emulator.servers.waiting import wait_for

MASTER: Final = "http://spark-master:18080/json/"
"""Page of the master that describes its cluster."""
WORKERS: Final = 2
_READY_S: Final = 120.0
_LOGS: Final = "docker compose -f compose/analysis.yaml logs"


def ready_workers(url: str = MASTER) -> int:
    """Number of workers that the master counts as alive; 0 while it does not answer."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - http among containers
            return int(json.load(answer)["aliveworkers"])
    except (OSError, ValueError, KeyError):
        return 0


def workers() -> None:
    """Wait until the master has both workers: some runtimes pass over ``depends_on``.

    Raises:
        TimeoutError: it has not; the message says where to look.
    """
    try:
        wait_for("workers of Spark", lambda: ready_workers() >= WORKERS, _READY_S)
    except TimeoutError as late:
        raise TimeoutError(
            f"{ready_workers()} of {WORKERS} workers of Spark after {_READY_S:g} s: "
            f"'{_LOGS} spark-master spark-worker-1 spark-worker-2' says more"
        ) from late
    sys.stdout.write(f"{WORKERS} workers are ready\n")
