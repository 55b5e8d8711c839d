"""The measured controllers, each configured for speed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from bench.rig.bridge import Bridge
from bench.rig.java import FULL_SPEED
from bench.rig.kafka import KraftController

QUIET_LOG: Final = """\
log4j.rootLogger=INFO, F
log4j.appender.F=org.apache.log4j.FileAppender
log4j.appender.F.File=${kraft.bridge.log}
log4j.appender.F.layout=org.apache.log4j.PatternLayout
log4j.appender.F.layout.ConversionPattern=[%d{ISO8601}] %p %m (%c)%n
"""
# What kafka-server-start.sh passes.
KAFKA_FLAGS: Final = (
    *FULL_SPEED,
    "-Xms1g",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)


class Controller(Protocol):
    """A controller as a child process."""

    @property
    def pid(self) -> int | None: ...  # noqa: D102 - as the processes' own

    port: int

    def await_dual_write(self) -> None:
        """Wait until changes go to ZooKeeper."""

    def stop(self, timeout_s: float = 30) -> int | None: ...  # noqa: D102 - as the processes' own

    def kill(self) -> int | None: ...  # noqa: D102 - as the processes' own


class _Ours(Bridge):
    def await_dual_write(self) -> None:
        self.wait_dual_write()


class _Kafkas(KraftController):
    def await_dual_write(self) -> None:
        self.wait_line("to DUAL_WRITE state")


@dataclass(frozen=True, slots=True)
class Contender:
    """One column of the comparison.

    ``begin`` takes a folder, a connect string and a cluster id, and returns a started controller.
    """

    name: str
    what: str
    begin: Callable[[Path, str, str], Controller]


def ours(
    name: str, what: str, properties: Callable[[Path], Mapping[str, object]] | None = None
) -> Contender:
    """Our controller, with more properties if wanted; they may depend on its folder."""

    def begin(folder: Path, zk: str, cluster_id: str) -> Controller:
        controller = _Ours(folder, zk, properties=properties(folder) if properties else None)
        controller.format(cluster_id)
        controller.start()
        controller.wait_started()
        return controller

    return Contender(name, what, begin)


def kafkas(name: str, what: str, properties: Mapping[str, object] | None = None) -> Contender:
    """Kafka 3.9.2's controller as its scripts start it: 1 GiB of heap, G1, both compilers."""

    def begin(folder: Path, zk: str, cluster_id: str) -> Controller:
        controller = _Kafkas("3.9.2", folder, zk, cluster_id, properties=properties)
        controller.heap = "1g"
        controller.java_flags = KAFKA_FLAGS
        controller.log4j = QUIET_LOG
        controller.start()
        return controller

    return Contender(name, what, begin)


OURS: Final = ours("ours", "kraft-bridge, defaults")
KAFKA: Final = kafkas("kafka", "Kafka 3.9.2's controller, defaults")
KAFKA_TUNED: Final = kafkas(
    "kafka tuned",
    "Kafka 3.9.2's controller, controller.quorum.append.linger.ms=0, "
    "zookeeper.max.in.flight.requests=1000",
    {"controller.quorum.append.linger.ms": 0, "zookeeper.max.in.flight.requests": 1000},
)
