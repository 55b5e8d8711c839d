"""Brokers without logs as load: ``kraft-bridge fleet`` as a child process.

They are in ZooKeeper mode and migrate. Kafka's brokers would use the machine's time to create logs,
and a measurement of the controller would measure them instead. They propose no change of an ISR by
themselves, so that a bench may do it in their name. The same fleet serves our controller and
Kafka's.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final, Self

from emulator.servers.bridge import COMMAND
from emulator.servers.ports import HOST
from emulator.servers.process import ServerProcess
from emulator.servers.waiting import PATIENCE_S

LISTENER: Final = "INTERNAL"
"""As the controllers of the rig want it (inter.broker.listener.name)."""
SESSION_MS: Final = 30_000
"""Longer than any fault of ZooKeeper that a bench makes."""
_FOR_EVER_S: Final = 10_000_000
_PATIENCE_S: Final = 600
"""Until all brokers run."""
_REGISTERED: Final = re.compile(r"broker (\d+): registered, epoch (\d+)")


class Fleet(ServerProcess):
    """Brokers with ids in a row, from 0 unless told.

    Args:
        folder: its output.
        zk: connect string, with the chroot.
        controller: port where the controller listens, or will; of several ``host:port,...``.
        cluster_id: base64url.
        count: number of brokers.
        first_id: id of the first.
        trace: folder of a trace of their requests; None: none.
    """

    def __init__(
        self,
        folder: Path,
        zk: str,
        controller: int | str,
        cluster_id: str,
        *,
        count: int = 3,
        first_id: int = 0,
        trace: Path | None = None,
    ) -> None:
        super().__init__("fleet", folder.absolute())
        self.count = count
        self._options: dict[str, object] = {
            "--brokers": count,
            "--zookeeper": zk,
            "--controller": f"{HOST}:{controller}" if isinstance(controller, int) else controller,
            "--cluster-id": cluster_id,
            "--listener": LISTENER,
            "--isr": "manual",
            "--seconds": _FOR_EVER_S,
            "--first-id": first_id,
            "--patience": _PATIENCE_S,
        }
        if trace is not None:
            self._options["--trace"] = trace

    def start(self) -> Self:
        """Start it; `wait_announced` then waits for its znodes."""
        command = [sys.executable, "-c", COMMAND, "fleet", "--epochs"]
        for name, value in self._options.items():
            command += [name, str(value)]
        # It ends after its controller, which then cannot be asked.
        command += ["-X", "controlled.shutdown.enable=false"]
        command += ["-X", f"zookeeper.session.timeout.ms={SESSION_MS}"]
        return self.launch(command)

    def wait_announced(self, timeout_s: float = PATIENCE_S) -> Self:
        """Wait until every broker is in ``/brokers/ids`` and listens.

        Raises:
            ProcessError: it ended, or the time is over.
        """
        self.wait_line(f"all {self.count} brokers run", timeout_s)
        return self

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
