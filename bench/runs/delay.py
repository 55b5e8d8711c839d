"""``python -m bench.runs.delay PORT TARGET_PORT MS`` delays requests to ZooKeeper, until killed."""

from __future__ import annotations

import sys
import threading

from emulator.servers.fault_proxy import FaultProxy


def main() -> None:
    """Forward requests until the process is killed."""
    port, target, latency_ms = sys.argv[1:4]
    proxy = FaultProxy(int(target), port=int(port)).start()
    proxy.delay(to_server_ms=float(latency_ms))
    threading.Event().wait()


if __name__ == "__main__":
    main()
