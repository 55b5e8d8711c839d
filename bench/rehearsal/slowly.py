"""Reads a ZooKeeper that others use, at a limited rate."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Final

from kazoo.client import KazooClient

_TRIPS: Final = 11


class SlowReads:
    """A client that only reads, and waits before each read; what ``zk_dump.dump`` calls.

    Args:
        client: not started; nothing but reads is asked of it.
        per_s: reads a second at most.
        clock, sleep: seconds.
    """

    def __init__(
        self,
        client: KazooClient,
        per_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._client = client
        self._between_s = 1 / per_s
        self._clock, self._sleep = clock, sleep
        self._due_s = clock()
        self.trip_s = 0.0
        """To the leader and back; before ``sync`` not known."""
        for name in ("start", "stop", "close"):
            setattr(self, name, getattr(client, name))

    def get_async(self, path: str) -> Any:
        """Data and stat."""
        self._wait()
        return self._client.get_async(path)

    def get_acls_async(self, path: str) -> Any:
        """Access rules and stat."""
        self._wait()
        return self._client.get_acls_async(path)

    def get_children(self, path: str) -> Any:
        """Names."""
        self._wait()
        return self._client.get_children(path)

    def get_children_async(self, path: str) -> Any:
        """Names."""
        self._wait()
        return self._client.get_children_async(path)

    def sync(self, path: str) -> None:
        """Wait until the leader has answered, several times: the median is ``trip_s``."""
        found = []
        for _ in range(_TRIPS):
            self._wait()
            began = self._clock()
            self._client.sync(path)
            found.append(self._clock() - began)
        self.trip_s = statistics.median(found)

    def _wait(self) -> None:
        """Not before it is due; reads that were late are not made up for."""
        self._sleep(max(0.0, self._due_s - self._clock()))
        self._due_s = max(self._due_s, self._clock()) + self._between_s
