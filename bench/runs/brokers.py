"""The brokers of a row: three, quiet, in one child process.

They hold no logs and never change an ISR themselves. Real brokers would spend the two cores of a
small machine on creating logs, and a measurement of the controller would measure them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from bench.fleet.process import Fleet
from bench.fleet.znodes import seed

__all__ = ["COUNT", "Brokers", "seed"]

COUNT: Final = 3
_REGISTERED: Final = re.compile(r"broker (\d+): registered, epoch (\d+)")


class Brokers(Fleet):
    """Brokers 0, 1 and 2."""

    def __init__(self, folder: Path, zk: str, controller_port: int, cluster_id: str) -> None:
        super().__init__(folder, zk, controller_port, cluster_id, count=COUNT)

    def epoch(self, broker_id: int) -> int:
        """The epoch that the controller gave a broker last.

        Raises:
            RuntimeError: it has not registered.
        """
        found = [
            int(match[2])
            for line in self.lines()
            if (match := _REGISTERED.search(line)) and int(match[1]) == broker_id
        ]
        if not found:
            raise RuntimeError(f"broker {broker_id} has not registered:\n{self.tail()}")
        return found[-1]
