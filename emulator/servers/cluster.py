"""Several brokers of one release on one ZooKeeper, started, moved to migration mode and stopped."""

import functools
import signal
import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from emulator.servers.kafka import KafkaBroker
from emulator.servers.ports import HOST
from emulator.servers.process import PortTakenError
from emulator.servers.waiting import PATIENCE_S
from emulator.servers.zookeeper import ZooKeeper

# Ask a broker for its live brokers: "started" in its log is not yet "of use to a client".

_METADATA = 3


def known_to(port: int) -> tuple[frozenset[int], int]:
    """Broker ids and controller id of a broker's Metadata response, version 1, no topics asked.

    Args:
        port: of a PLAINTEXT listener on the loopback address.

    Returns:
        No brokers and controller -1 while it does not answer.

    Source: MetadataRequest.json, MetadataResponse.json, Kafka 3.4-3.9.
    """
    request = struct.pack(">hhi", _METADATA, 1, 0) + struct.pack(">h", -1) + struct.pack(">i", 0)
    try:
        with socket.create_connection((HOST, port), 5) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as answer:
                (size,) = struct.unpack(">i", answer.read(4))
                return _parse(answer.read(size))
    except (OSError, struct.error):
        return frozenset(), -1


def _parse(frame: bytes) -> tuple[frozenset[int], int]:
    count, position = struct.unpack_from(">i", frame, 4)[0], 8
    brokers = set()
    for _ in range(count):
        broker, host_length = struct.unpack_from(">ih", frame, position)
        position += 6 + host_length + 4
        (rack_length,) = struct.unpack_from(">h", frame, position)
        position += 2 + max(rack_length, 0)
        brokers.add(broker)
    return frozenset(brokers), struct.unpack_from(">i", frame, position)[0]


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

    def __exit__(self, *_: object) -> None:
        self.kill()
