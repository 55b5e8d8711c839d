"""Looks at a row from outside, 20 times a second: how far the log is, and how far ZooKeeper.

It works with every controller: DescribeQuorum has the high watermark, ``/migration`` the offset up
to which ZooKeeper holds everything.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from typing import Any, Final

from kazoo.client import KazooClient

from bench.runs.blocking import BlockingClient
from emulator.trace.rows import GaugeRow

COMMITTED: Final = "bench_committed_offset"
IN_ZOOKEEPER: Final = "bench_zk_offset"
PERIOD_S: Final = 0.05
LOOK_S: Final = 0.005
"""Between two looks at ``/migration`` of a close watch: how exactly it is known when ZooKeeper held
all. Each look costs the process some 0.5 ms, and the load's client runs in it too."""


def offset_of(data: bytes) -> int:
    """The offset that ``/migration`` holds."""
    return int(json.loads(data)["kraft_metadata_offset"])


@dataclass(frozen=True, slots=True)
class Sample:
    """One look. Offsets of the last committed record and of the last one in ZooKeeper."""

    time_ns: int
    committed: int
    in_zookeeper: int

    @property
    def lag(self) -> int:
        """Records by which ZooKeeper is behind."""
        return max(0, self.committed - self.in_zookeeper)


class Watch:
    """Samples in a thread until ``close``.

    While ZooKeeper does not answer, the last offset that was read counts.

    Args:
        port: of the controller.
        client: of ZooKeeper.
        closely: look at ``/migration`` every 5 ms from the beginning, not once for each sample.
    """

    def __init__(self, port: int, client: KazooClient, *, closely: bool = False) -> None:
        self.samples: list[Sample] = []
        self.problem: Exception | None = None
        """Why the watch ended early; None while it works."""
        self._quorum = BlockingClient(port)
        self._client = client
        self._pending: Any = None
        self._steps: list[tuple[int, int]] = []
        """When ``/migration`` was seen to hold another offset, and which."""
        self._between_s = LOOK_S if closely else PERIOD_S
        self._over = False
        self._wake = threading.Event()
        """Ends a wait between two looks."""
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End; samples stay."""
        self._over = True
        self._wake.set()
        self._thread.join()
        self._quorum.close()

    def drained(self, offset: int, timeout_s: float) -> int | None:
        """Wait until ZooKeeper holds an offset; returns when it did, None if it does not.

        From now on it looks closely.
        """
        self._between_s = LOOK_S
        self._wake.set()
        end = time.monotonic() + timeout_s
        while self.problem is None:
            for time_ns, reached in self._steps:
                if reached >= offset:
                    return time_ns
            if time.monotonic() > end:
                break
            time.sleep(LOOK_S)
        return None

    def lag_at(self, time_ns: int) -> int:
        """The largest lag of the samples of a second around a time."""
        near = [one.lag for one in self.samples if abs(one.time_ns - time_ns) < 1e9]
        return max(near, default=0)

    def committed_at(self, time_ns: int) -> int:
        """Offset of the last record committed at a time, as far as was sampled."""
        before = [one.committed for one in self.samples if one.time_ns <= time_ns]
        return before[-1] if before else -1

    def rows(self) -> list[GaugeRow]:
        """Rows of the trace."""
        return [
            row
            for one in self.samples
            for row in (
                GaugeRow(one.time_ns, COMMITTED, float(one.committed)),
                GaugeRow(one.time_ns, IN_ZOOKEEPER, float(one.in_zookeeper)),
            )
        ]

    def _run(self) -> None:
        sampled_s = 0.0
        try:
            while not self._over:
                self._wake.wait(self._between_s)
                self._wake.clear()
                self._look_at_zookeeper()
                if time.monotonic() - sampled_s >= PERIOD_S and self._steps:
                    sampled_s = time.monotonic()
                    # ZooKeeper first: what it holds then was committed before.
                    in_zookeeper = self._steps[-1][1]
                    committed = self._quorum.high_watermark() - 1
                    self.samples.append(Sample(time.monotonic_ns(), committed, in_zookeeper))
        except (OSError, ValueError, KeyError) as error:
            self.problem = error

    def _look_at_zookeeper(self) -> None:
        if self._pending is None:
            self._pending = self._client.get_async("/migration")
        self._pending.wait(self._between_s)
        if not self._pending.ready():
            return
        pending, self._pending = self._pending, None
        if pending.successful():
            offset = offset_of(pending.value[0])
            if not self._steps or self._steps[-1][1] != offset:
                self._steps.append((time.monotonic_ns(), offset))
