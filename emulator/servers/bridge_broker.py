"""Our broker as a child process, with the same properties as Kafka's broker."""

from __future__ import annotations

import sys
from typing import Final, Self

from emulator.servers.bridge import COMMAND
from emulator.servers.kafka import KafkaBroker, ibp
from emulator.servers.ports import is_open
from emulator.servers.waiting import PATIENCE_S

_DEFAULT: Final = "3.9"


class BridgeBroker(KafkaBroker):
    """``kraft-bridge broker``; everything else is as of `emulator.servers.kafka.KafkaBroker`."""

    def properties(self) -> dict[str, object]:
        """Kafka's; and, unless that is what it is without, the release it is to be."""
        release = ibp(self.release)
        more = {} if release == _DEFAULT else {"kraftbridge.release": release}
        return super().properties() | more

    def start(self) -> Self:
        """Start it with `properties`; `wait_started` then waits until it serves.

        Raises:
            ProcessError: it is running already.
        """
        self.log = self.out
        path = self._write_properties()
        return self.launch([sys.executable, "-c", COMMAND, "broker", "-c", path])

    def wait_started(self, timeout_s: float = PATIENCE_S) -> Self:
        """Wait until it accepts connections.

        Raises:
            PortTakenError: a port of it was taken meanwhile.
            ProcessError: it ended, or the time is over.
        """
        port = self.client_port
        self.wait_until(f"port {port}", lambda: is_open(port), timeout_s)
        return self
