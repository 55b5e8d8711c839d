"""What happens to ZooKeeper in the middle of a load."""

from __future__ import annotations

import signal
import threading
import time

from bench.runs.scenario import Case
from bench.runs.zookeepers import Servers


class Fault:
    """Stops ZooKeeper for a while, or kills the ensemble's leader; in a thread of its own."""

    def __init__(self, case: Case, servers: Servers) -> None:
        self._case = case
        self._servers = servers
        self._closed = threading.Event()
        self._at_once = threading.Event()
        self.begin_ns: int | None = None
        self.end_ns: int | None = None
        """When ZooKeeper went on; for a killed leader when it was killed."""
        self._thread = threading.Thread(target=self._run, name="fault", daemon=True)

    def start(self) -> None:
        """The schedule of the load begins now."""
        self._thread.start()

    def close(self, *, at_once: bool = False) -> None:
        """Wait for the end of the fault; a fault that has not begun is cancelled.

        Args:
            at_once: ZooKeeper goes on now; the row is given up, and a freeze may take minutes.
        """
        if not self._thread.is_alive():
            return
        self._closed.set()
        if at_once:
            self._at_once.set()
        self._thread.join()

    def _run(self) -> None:
        case = self._case
        assert case.fault_at_s is not None
        if self._closed.wait(case.fault_at_s):
            return
        leader = self._servers.leader()
        self.begin_ns = time.monotonic_ns()
        if case.kill_leader:
            # Do not wait for the process: its CPU time up to now is read afterwards.
            leader.signal(signal.SIGKILL)
        else:
            with leader.paused():
                self._at_once.wait(case.freeze_s)
        self.end_ns = time.monotonic_ns()


def fault_of(case: Case, servers: Servers) -> Fault | None:
    """The fault of a case, None if it has none."""
    return None if case.fault_at_s is None else Fault(case, servers)
