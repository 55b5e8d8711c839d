"""A fleet as a child process."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from bench.rig.ports import HOST, free_ports
from bench.rig.process import Process


class Fleet(Process):
    """Stand-in brokers 0 to ``count`` - 1.

    Args:
        folder: its output.
        zk: connect string, with the chroot.
        controller_port: where the controller listens, or will.
        cluster_id: base64url.
        count: number of brokers.
    """

    def __init__(
        self, folder: Path, zk: str, controller_port: int, cluster_id: str, *, count: int = 3
    ) -> None:
        super().__init__("fleet", folder.absolute())
        self._arguments: Mapping[str, object] = {
            "--zk": zk,
            "--controller": f"{HOST}:{controller_port}",
            "--cluster-id": cluster_id,
        }
        self.count = count

    def start(self) -> Self:
        """Start it; `wait_announced` then waits for its znodes."""
        command: list[str | os.PathLike[str]] = [sys.executable, "-m", "bench.fleet"]
        for name, value in self._arguments.items():
            command += [name, str(value)]
        ports = map(str, free_ports(self.count))
        return self.launch([*command, "--ports", ",".join(ports)])

    def wait_announced(self, timeout_s: float = 30) -> Self:
        """Wait until every broker is in ``/brokers/ids`` and listens.

        Raises:
            PortTakenError: a port was taken meanwhile.
            ProcessError: it ended, or the time is over.
        """
        self.wait_line("announced", timeout_s)
        return self
