"""Several brokers of one release on one ZooKeeper, started, moved to migration mode and stopped."""

import functools
import signal
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from emulator.servers.kafka import KafkaBroker
from emulator.servers.process import PortTakenError
from emulator.servers.readiness import known_to
from emulator.servers.waiting import PATIENCE_S
from emulator.servers.zookeeper import ZooKeeper


class KafkaCluster:
    """Brokers 0 to ``count`` - 1 in ZooKeeper mode; as a context manager started, then killed.

    Args:
        release: one of `emulator.servers.jars.BRIDGE_RELEASES`.
        folder: where all of them keep their files.
        zk: a started ZooKeeper, or a connect string (then with a chroot, if wanted).
        count: number of brokers.
        properties: more server properties of every broker.
        sasl, authorizer: as of `Broker`.
    """

    def __init__(
        self,
        release: str,
        folder: Path | str,
        zk: ZooKeeper | str,
        *,
        count: int = 3,
        properties: Mapping[str, object] | None = None,
        sasl: bool = False,
        authorizer: bool = False,
    ) -> None:
        self.zk = zk.hosts if isinstance(zk, ZooKeeper) else zk
        self.brokers = [
            KafkaBroker(
                release,
                number,
                folder,
                self.zk,
                properties=properties,
                broker_count=count,
                sasl=sasl,
                authorizer=authorizer,
            )
            for number in range(count)
        ]

    @property
    def bootstrap(self) -> str:
        """CLIENT listeners of all brokers, ``host:port,...``."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    def start(self, timeout_s: float = PATIENCE_S) -> Self:
        """Start every broker that does not run and wait until all of them have started.

        A broker whose port was taken gets other ports, once. `wait_ready` waits further.

        Raises:
            ProcessError: a broker ended, or did not start in time.
        """
        for broker in self.brokers:
            if not broker.alive:
                broker.start()
        for broker in self.brokers:
            try:
                broker.wait_started(timeout_s)
            except PortTakenError:
                broker.new_ports().start().wait_started(timeout_s)
        return self

    def wait_ready(self, timeout_s: float = PATIENCE_S) -> Self:
        """Wait until every broker shows its clients all the brokers that run, and a controller.

        Raises:
            ProcessError: a broker ended, or the time is over.
        """
        alive = frozenset(broker.id for broker in self.brokers if broker.alive)

        def ready(port: int) -> bool:
            brokers, controller = known_to(port)
            return brokers >= alive and controller >= 0

        for broker in self.brokers:
            if broker.alive:
                broker.wait_until(
                    f"metadata of {len(alive)} brokers",
                    functools.partial(ready, broker.client_port),
                    timeout_s,
                )
        return self

    def migrate(self, controller_port: int, *, rolling: bool = True) -> Self:
        """Restart every broker with migration on, towards the controller at that port.

        Args:
            controller_port: of controller 3000, which need not run yet.
            rolling: one after the other, as an operator does; else all at once, which is faster
                and leaves no partition a leader meanwhile.

        Returns when all have started; `wait_ready` waits until each has its controller's metadata.
        """
        if not rolling:
            self.stop(PATIENCE_S)
        for broker in self.brokers:
            broker.stop(PATIENCE_S)
            broker.migrate(controller_port)
            if rolling:
                broker.start().wait_started()
        return self.start()

    def stop(self, timeout_s: float = 30) -> None:
        """Ask all to end, in good order and together, and wait; SIGKILL when the time is over."""
        for broker in self.brokers:
            broker.resume()
            broker.signal(signal.SIGTERM)
        for broker in self.brokers:
            broker.stop(timeout_s)

    def kill(self) -> None:
        """SIGKILL to all."""
        for broker in self.brokers:
            broker.kill()

    def __enter__(self) -> Self:
        try:
            return self.start().wait_ready()
        except BaseException:
            self.kill()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
