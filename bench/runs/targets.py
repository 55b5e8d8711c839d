"""What a row measures: a controller, configured in one way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from emulator.servers.bridge import Bridge
from emulator.servers.kafka import KraftController
from emulator.servers.ports import is_open

KAFKA_RELEASE: Final = "3.9.2"
OURS: Final = "kraft-bridge"
OFF: Final = "no-zookeeper"
"""The counterfactual: our controller without writes to ZooKeeper."""
RAW_TARGET: Final = "raw-multi"
"""ZooKeeper alone; no controller."""


class Controller(Protocol):
    """A controller as a child process."""

    @property
    def port(self) -> int:
        """Where whoever makes changes listens."""

    @property
    def ports(self) -> Sequence[int]:
        """Where all of its processes listen."""

    @property
    def pid(self) -> int | None: ...  # noqa: D102 - as the processes' own

    @property
    def alive(self) -> bool: ...  # noqa: D102 - as the processes' own

    def prepare(self) -> None:
        """Format the controller's folder."""

    def begin(self) -> None:
        """Start the controller, without waiting for it."""

    def listening(self) -> bool:
        """Whether the controller accepts connections."""

    def dual_writing(self) -> bool:
        """Whether its log or status shows, since its last start, that changes go to ZooKeeper."""

    def metrics(self) -> dict[str, float]:
        """Metrics of the controller, by name; empty for Kafka's controller."""

    def tail(self) -> str: ...  # noqa: D102 - as the processes' own

    def stop(self, timeout_s: float = 30) -> int | None: ...  # noqa: D102 - as the processes' own

    def kill(self) -> int | None: ...  # noqa: D102 - as the processes' own


class Ours(Bridge):
    """kraft-bridge."""

    cluster_id = ""

    @property
    def ports(self) -> list[int]:
        """Its own."""
        return [self.port]

    def prepare(self) -> None:
        """See Controller."""
        self.format(self.cluster_id)

    def begin(self) -> None:
        """See Controller."""
        self.start()

    def listening(self) -> bool:
        """See Controller."""
        return is_open(self.port)

    def dual_writing(self) -> bool:
        """See Controller."""
        status = self.status()
        return status is not None and status["migration"]["driver_state"] == "DUAL_WRITE"

    def metrics(self) -> dict[str, float]:
        """See Controller."""
        page = self.page("/metrics")
        if page is None:
            return {}
        found: dict[str, float] = {}
        for line in page.splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                found[name] = float(value)
        return found


class _Kafkas(KraftController):
    """Kafka's controller."""

    @property
    def ports(self) -> list[int]:
        return [self.port]

    def prepare(self) -> None:
        self.at_full_speed().format()

    def begin(self) -> None:
        self.start()

    def listening(self) -> bool:
        return is_open(self.port)

    def dual_writing(self) -> bool:
        return any("to DUAL_WRITE state" in line for line in self.lines())

    def metrics(self) -> dict[str, float]:
        return {}


@dataclass(frozen=True, slots=True)
class Setting:
    """What a row gives its controller.

    ``trace``: folder of the trace. ``bound_records``: our bound of the lag; None: the default.
    """

    folder: Path
    zk: str
    cluster_id: str
    run_id: str
    trace: Path
    bound_records: int | None


@dataclass(frozen=True, slots=True)
class Target:
    """One column of a comparison. ``ours``: it has our metrics and our trace."""

    name: str
    what: str
    ours: bool
    properties: Mapping[str, object]
    to_zookeeper: bool = True
    """Whether ZooKeeper gets the changes."""
    node: str = ""
    """One of ``counterfactual.NODES``; "" for the product's own."""

    def controller(self, setting: Setting) -> Controller:
        """Its process, not started."""
        if not self.ours:
            return _Kafkas(
                KAFKA_RELEASE,
                setting.folder,
                setting.zk,
                setting.cluster_id,
                properties=self.properties,
            )
        properties: dict[str, object] = {
            "kraftbridge.trace.dir": setting.trace.absolute(),
            "kraftbridge.trace.run.id": setting.run_id,
            **self.properties,
        }
        if setting.bound_records is not None and self.to_zookeeper:
            properties["kraftbridge.zk.write.behind.max.records"] = setting.bound_records
        made = Ours(setting.folder, setting.zk, properties=properties)
        made.cluster_id = setting.cluster_id
        if self.node:
            made.command = (
                "from bench.counterfactual import main; from emulator.cli import main as whole; "
                f"main({self.node!r}, whole)"
            )
        return made


TARGETS: Final[Mapping[str, Target]] = {
    one.name: one
    for one in (
        Target(OURS, "kraft-bridge, defaults", ours=True, properties={}),
        Target(
            "write-ahead",
            "kraft-bridge, but ZooKeeper first and then the log: the order that was rejected",
            ours=True,
            properties={},
            node="write-ahead",
        ),
        Target(
            OFF,
            "kraft-bridge, but nothing goes to ZooKeeper or to brokers after the copy",
            ours=True,
            properties={
                "kraftbridge.zk.write.behind.max.records": 0,
                "kraftbridge.zk.write.behind.max.bytes": 0,
            },
            to_zookeeper=False,
            node="write-off",
        ),
        Target(
            "sequential",
            "kraft-bridge, but one operation in a multi and one multi in flight",
            ours=True,
            properties={"kraftbridge.zk.write.behind.multi.ops": 1},
            node="one-multi-in-flight",
        ),
        Target("kafka", f"Kafka {KAFKA_RELEASE}'s controller, defaults", ours=False, properties={}),
        Target(
            "kafka-tuned",
            f"Kafka {KAFKA_RELEASE}'s controller, controller.quorum.append.linger.ms=0, "
            "zookeeper.max.in.flight.requests=1000",
            ours=False,
            properties={
                "controller.quorum.append.linger.ms": 0,
                "zookeeper.max.in.flight.requests": 1000,
            },
        ),
    )
}
"""Name -> target."""
