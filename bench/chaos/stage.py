"""The servers of a run: three controllers behind proxies, three brokers, perhaps ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from bench.chaos.plan import BROKER, CONTROLLER, ZOOKEEPER, Fault
from bench.demo.controllers import IDS
from emulator.servers.bridge import Bridge
from emulator.servers.fault_proxy import FaultProxy, FrameProtocol
from emulator.servers.kafka import KafkaBroker, KraftController
from emulator.servers.ports import HOST, free_ports
from emulator.servers.process import ServerProcess, kill_all
from emulator.servers.waiting import PATIENCE_S
from emulator.servers.zookeeper import ZooKeeper, ensemble

RELEASE: Final = "3.9.2"
CLUSTER: Final = "5L6g3nShT-eMCtK--X86sw"
_PATIENT: Final = {"zookeeper.connection.timeout.ms": round(PATIENCE_S * 1_000)}
"""Kafka's servers that start during a fault of ZooKeeper wait for so long, and do not end."""
_SAFE: Final = {
    "min.insync.replicas": 2,
    "default.replication.factor": 3,
    "unclean.leader.election.enable": "false",
    "initial.broker.registration.timeout.ms": round(PATIENCE_S * 1_000),
    **_PATIENT,
}
Controller = Bridge | KraftController


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line may change."""

    out: Path
    """Folder of this run; made new."""
    seconds: float = 600.0
    seed: int = 0
    kafkas: int = 0
    """How many of the three controllers are Kafka's."""
    servers: int = 0
    """Number of ZooKeeper servers: 1 or 3 in a migration; 0: KRaft mode without ZooKeeper."""
    rate: float = 8.0
    """Administrative changes per second."""
    properties: Mapping[str, object] = field(default_factory=dict)
    """More properties of every controller."""
    brokers: int = 3


class Stage:
    """Every server; as a context manager all gone at its end. ``start`` is the caller's."""

    def __init__(self, options: Options) -> None:
        self.options = options
        out = options.out
        self.zookeepers = _zookeepers(out / "zookeeper", options.servers)
        self.zk = ",".join(each.hosts for each in self.zookeepers) or None
        ports = free_ports(len(IDS))
        self.proxies = [FaultProxy(port, FrameProtocol.KAFKA).start() for port in ports]
        self.voters = ",".join(
            f"{each}@{HOST}:{proxy.port}" for each, proxy in zip(IDS, self.proxies, strict=True)
        )
        self.controllers: list[Controller] = [
            self._controller(index, port) for index, port in enumerate(ports)
        ]
        self.brokers = [self._broker(number) for number in range(options.brokers)]
        self._killed: ServerProcess | None = None
        """Servers under a fault: they are not started before the fault is over."""

    def _controller(self, index: int, port: int) -> Controller:
        own = {"node.id": IDS[index], "controller.quorum.voters": self.voters}
        more = {**own, **self.options.properties}
        home = self.options.out / f"controller-{IDS[index]}"
        if index >= len(IDS) - self.options.kafkas:
            more |= _PATIENT
            return KraftController(RELEASE, home, self.zk, CLUSTER, port=port, properties=more)
        return Bridge(home, self.zk, port=port, properties=more)

    def _broker(self, number: int) -> KafkaBroker:
        home = self.options.out / "brokers"
        safe = _SAFE if self.options.brokers > 1 else {}
        made = KafkaBroker(
            RELEASE, number, home, self.zk, properties=safe, broker_count=self.options.brokers
        )
        if self.zk is None:
            made.controller_port = self.proxies[0].port
            made.extra |= {"controller.quorum.voters": self.voters}
            made.identify(CLUSTER)
        return made

    @property
    def bootstrap(self) -> str:
        """CLIENT listeners of all brokers."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    def servers(self, kind: str) -> list[ServerProcess]:
        """The servers of a kind."""
        found: dict[str, list[ServerProcess]] = {
            CONTROLLER: [*self.controllers],
            BROKER: [*self.brokers],
            ZOOKEEPER: [*self.zookeepers],
        }
        return found[kind]

    @property
    def all(self) -> list[ServerProcess]:
        """Every server."""
        return [*self.zookeepers, *self.controllers, *self.brokers]

    def begin(self, kind: str, which: int, fault: Fault) -> None:
        """Begin a fault."""
        server = self.servers(kind)[which]
        proxy = self.proxies[which] if kind == CONTROLLER else None
        match fault:
            case Fault.KILL:
                self._killed = server
                server.kill()
            case Fault.PAUSE:
                server.pause()
            case Fault.CUT if proxy is not None:
                proxy.cut()
            case Fault.UNREACHABLE if proxy is not None:
                proxy.refuse()
            case Fault.HOLD if proxy is not None:
                proxy.freeze()
            case _:
                raise ValueError(f"{fault.name} of a {kind}")

    def end(self, kind: str, which: int, fault: Fault) -> None:
        """End a fault, without waiting until the server serves again."""
        server = self.servers(kind)[which]
        match fault:
            case Fault.KILL:
                self._killed = None
                restart(server)
            case Fault.PAUSE:
                server.resume()
            case Fault.UNREACHABLE:
                self.proxies[which].refuse(on=False)
            case Fault.HOLD:
                self.proxies[which].thaw()
            case Fault.CUT:
                pass

    def revive(self) -> list[KafkaBroker]:
        """Start again the brokers that ended for a ZooKeeper session, of before or of their own.

        As an operator would, or the service manager; it is no fault of a controller. A broker that
        ended for another reason stays down, and the verdict names it.
        """
        found = [each for each in self.brokers if each is not self._killed and each.lost_session]
        for broker in found:
            broker.start()
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        kill_all()
        for proxy in self.proxies:
            proxy.close()


def restart(server: ServerProcess) -> None:
    """Start a server that was killed, with its folder as it is."""
    assert isinstance(server, Bridge | KraftController | KafkaBroker | ZooKeeper)
    server.start()


def _zookeepers(folder: Path, servers: int) -> list[ZooKeeper]:
    if servers <= 1:
        return [ZooKeeper(folder)] * servers
    return ensemble(folder, servers)
