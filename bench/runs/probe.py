"""Asks a controller that starts for a change until it makes it, as an impatient operator would."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Final

from kazoo.client import KazooClient

from bench.runs.blocking import BlockingClient
from wire.errors import ErrorCode

_PERIOD_S: Final = 0.02
_LOOK_S: Final = 0.005


class Probe:
    """A thread that creates one topic as soon as it can. Times count from ``start``.

    Args:
        ports: of the controllers, of which one makes changes.
        client: of ZooKeeper.
        topic: its name.
    """

    def __init__(self, ports: Sequence[int], client: KazooClient, topic: str = "probe") -> None:
        self._ports = ports
        self._client = client
        self._topic = topic
        self._began_s = 0.0
        self._commit_s: float | None = None
        self._in_zookeeper_s: float | None = None
        self._over = threading.Event()
        self._done = threading.Event()
        self._last = "no connection"
        self._thread = threading.Thread(target=self._run, name="probe", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._began_s = time.monotonic()
        self._thread.start()

    def result(self, timeout_s: float) -> tuple[float, float]:
        """Wait; seconds until the change was committed, and until ZooKeeper had it.

        Raises:
            RuntimeError: the controller did not make it in time.
        """
        self._done.wait(timeout_s)
        self._over.set()
        self._thread.join()
        if self._commit_s is None or self._in_zookeeper_s is None:
            raise RuntimeError(
                f"no change is possible {timeout_s:g} s after the start: {self._last}"
            )
        return self._commit_s, self._in_zookeeper_s

    def _run(self) -> None:
        while not self._over.is_set() and not any(map(self._asked, self._ports)):
            self._over.wait(_PERIOD_S)
        if self._commit_s is None:
            return
        while not self._over.is_set():
            if self._client.exists(f"/brokers/topics/{self._topic}/partitions/0/state"):
                self._in_zookeeper_s = time.monotonic() - self._began_s
                self._done.set()
                return
            self._over.wait(_LOOK_S)

    def _asked(self, port: int) -> bool:
        try:
            with contextlib.closing(BlockingClient(port)) as client:
                error = client.create_topic(self._topic)
        except OSError as problem:
            self._last = str(problem)
            return False
        self._last = error.name
        # A request whose answer was lost may have been carried out.
        if error not in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
            return False
        self._commit_s = time.monotonic() - self._began_s
        return True
