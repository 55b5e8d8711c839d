"""The processes that get the frames: a controller in a migration, and a broker of each mode.

ZooKeeper is the simulator's model as a process of its own, so nothing here needs Java.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Collection
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self

from bench.zookeeper_model import CLUSTER_ID
from emulator.servers.bridge import Bridge, BridgeBroker
from emulator.servers.kafka import USERS, authorizer, tokens
from emulator.servers.ports import HOST, free_ports, is_open
from emulator.servers.process import ServerProcess
from tools.fuzz.doors import Door
from tools.fuzz.frames import OWN_ID, Cell, Known, LogIn
from wire import messages as m

CONTROLLER: Final = "controller"
ZK_BROKER: Final = "zk-broker"
KRAFT_BROKER: Final = "kraft-broker"
BROKERS: Final = (ZK_BROKER, KRAFT_BROKER)
"""Their places are their ids."""
_RELEASE: Final = "3.9.2"
_TOPICS: Final = ("t", "u", "a.b")
_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_PATIENT: Final = {
    # A machine that is busy with something else takes no session away.
    "broker.session.timeout.ms": 600_000,
    "zookeeper.session.timeout.ms": 40_000,
    "delegation.token.max.lifetime.ms": 20_000,
    "delegation.token.expiry.check.interval.ms": 2_000,
    "metadata.log.max.record.bytes.between.snapshots": 1 << 20,
}
"""So that what a process holds is the same after any number of frames."""
_LOG_BYTES_MAX: Final = 20_000_000


class Server:
    """One process of ours, and the doors to it.

    Args:
        name: in cells.
        process: not started yet.
        plain: port of a listener without SASL.
        sasl: of one with it.
        http: of its metrics.
    """

    def __init__(self, name: str, process: ServerProcess, plain: int, sasl: int, http: int) -> None:
        self.name, self.process = name, process
        self._ports, self._http = (plain, sasl), http
        self._doors: dict[tuple[LogIn, str, int], Door] = {}
        self._read = 0
        self._rested_ns = -1
        self._reading = Lock()
        self._schedstat = -1
        self.readings: list[tuple[int, int]] = []
        """Frames so far, and its resident bytes then."""
        self.longest_ms = 0.0
        """CPU of the frame that took the most."""

    def door(self, door: LogIn, user: str = "", lane: int = 0) -> Door:
        """The connection on which such frames of a lane go."""
        user = user if door == "login" else ""
        if (found := self._doors.get((door, user, lane))) is None:
            found = self._doors[door, user, lane] = Door(self._ports[door != "plain"], user)
        return found

    def close(self) -> None:
        """End all connections."""
        for door in list(self._doors.values()):
            door.close()
        if self._schedstat >= 0:
            os.close(self._schedstat)
            self._schedstat = -1

    def cells(self) -> list[Cell]:
        """Every API and version that it offers, a broker when it knows what its controller does."""
        self.door("plain").ask(m.CreateTopicsRequest(timeout_ms=1_000), 2)
        keys = self.door("plain").ask(m.ApiVersionsRequest(), 0).api_keys
        return [
            Cell(self.name, one.api_key, version)
            for one in keys
            for version in range(one.min_version, one.max_version + 1)
        ]

    def page(self, path: str) -> str:
        """A page of its HTTP server.

        Raises:
            OSError: it does not answer.
        """
        with urllib.request.urlopen(f"http://{HOST}:{self._http}{path}", timeout=60) as answer:
            return str(answer.read().decode())

    def status(self) -> dict[str, Any]:
        """The content of ``/status``; empty while the server does not answer."""
        try:
            return dict(json.loads(self.page("/status")))
        except OSError:
            return {}

    def new_lines(self) -> list[str]:
        """Whole lines of its log since the last call; the file is emptied when it is long."""
        with self._reading:
            size = self.process.out.stat().st_size
            if size == self._read:
                return []
            with self.process.out.open("rb") as file:
                file.seek(self._read)
                text = file.read()
            text = text[: text.rfind(b"\n") + 1]
            self._read += len(text)
            if self._read > _LOG_BYTES_MAX and self._read == size:
                os.truncate(self.process.out, 0)
                self._read = 0
            return text.decode(errors="replace").splitlines()

    def cpu_ns(self) -> int:
        """CPU time of its main thread, where all frames are read and answered."""
        if self._schedstat < 0:
            self._schedstat = os.open(f"/proc/{self.process.pid}/schedstat", os.O_RDONLY)
        return int(os.pread(self._schedstat, 100, 0).split()[0])

    def rests(self) -> bool:
        """Whether its main thread sleeps, and has not run since the last call."""
        cpu_ns = self.cpu_ns()
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        still, self._rested_ns = cpu_ns == self._rested_ns, cpu_ns
        return still and stat.rpartition(")")[2].split()[0] == "S"

    def look(self, frames: int) -> None:
        """Read its size after so many frames to all servers."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        self.readings.append((frames, pages * os.sysconf("SC_PAGE_SIZE")))


class Stage:
    """All processes; as a context manager started, then killed.

    Args:
        folder: of their files.
        names: of the servers; without a broker in ZooKeeper mode there is no migration either.
    """

    def __init__(self, folder: Path, names: Collection[str] = (CONTROLLER, *BROKERS)) -> None:
        self.known = Known(CLUSTER_ID)
        self._zk_port, plain, sasl, *http = free_ports(5)
        self._zk = ServerProcess("zookeeper", folder)
        hosts = f"{HOST}:{self._zk_port}" if ZK_BROKER in names else None
        self.bridge = Bridge(folder, hosts, release=_RELEASE, port=plain)
        self.bridge.extra = _secured(plain, sasl)
        own = Server(CONTROLLER, self.bridge, plain, sasl, self.bridge.metrics_port)
        self.servers = {CONTROLLER: own}
        for number, name in enumerate(BROKERS):
            if name not in names:
                continue
            broker = BridgeBroker(
                _RELEASE,
                number,
                folder,
                hosts if name == ZK_BROKER else None,
                controller_port=plain,
                migration=name == ZK_BROKER,
                properties={"kraftbridge.metrics.port": http[number], **_PATIENT},
                sasl=True,
                authorizer=name != ZK_BROKER,
            )
            assert broker.sasl_port is not None, "it was asked for"
            ports = (broker.client_port, broker.sasl_port, http[number])
            self.servers[name] = Server(name, broker, *ports)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> Self:
        """Start all, and wait until the migration has copied and each broker runs.

        Raises:
            ProcessError: one of them ended, or the time is over.
        """
        if self.bridge.zk is not None:
            command = [sys.executable, "-m", "bench.zookeeper_model", str(self._zk_port)]
            self._zk.launch(command).wait_until("its port", lambda: is_open(self._zk_port))
        self.bridge.format(CLUSTER_ID).start()
        brokers = [self.servers[name] for name in BROKERS if name in self.servers]
        for one in brokers:
            assert isinstance(one.process, BridgeBroker), "it is a broker"
            if one.name != ZK_BROKER:
                one.process.identify(CLUSTER_ID)
            one.process.start()
        self.bridge.wait_status("to lead", lambda status: bool(status["active"]))
        if self.bridge.zk is not None:
            self.bridge.wait_dual_write()
        for one in brokers:
            one.process.wait_until("running", partial(_runs, one))
        return self

    def kill(self) -> None:
        """SIGKILL to all."""
        for one in self.servers.values():
            one.close()
            one.process.kill()
        self._zk.kill()

    def sweep(self) -> None:
        """Take away what frames have left behind, and learn what is known then.

        Raises:
            OSError: a server does not answer.
        """
        controller = self.servers[CONTROLLER].door("plain")
        if (broker := self.servers.get(KRAFT_BROKER)) is not None:
            topics = broker.door("plain").ask(m.MetadataRequest(topics=None), 12).topics
            names = tuple(one.name for one in topics)
            controller.ask(m.DeleteTopicsRequest(topic_names=names, timeout_ms=5_000), 5)
            self._no_quotas(controller, broker.door("plain"))
        every = m.DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
        )
        controller.ask(m.DeleteAclsRequest(filters=[every]), 3)
        status = self.servers[CONTROLLER].status()
        for one in status["brokers"]:
            if one["id"] not in (0, 1):
                controller.ask(m.UnregisterBrokerRequest(broker_id=one["id"]), 0)
        kinds = m.CreateTopicsRequest
        made = [
            kinds.CreatableTopic(name=name, num_partitions=2, replication_factor=1)
            for name in _TOPICS
        ]
        created = controller.ask(kinds(topics=made, timeout_ms=5_000), 7)
        token = controller.ask(m.CreateDelegationTokenRequest(), 3)
        epochs = [self._registered(controller)]
        epochs += [one.status().get("broker_epoch", -1) for one in self.servers.values()]
        self.known = Known(
            CLUSTER_ID,
            tuple(one.topic_id for one in created.topics if not one.error_code),
            tuple(epochs),
            status["leader_epoch"],
            (token.hmac,),
        )

    def _no_quotas(self, controller: Door, broker: Door) -> None:
        found = broker.ask(m.DescribeClientQuotasRequest(components=[]), 1).entries or []
        kinds = m.AlterClientQuotasRequest
        gone = [
            kinds.EntryData(
                entity=[
                    kinds.EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in one.entity
                ],
                ops=[kinds.OpData(key=value.key, remove=True) for value in one.values],
            )
            for one in found
        ]
        if gone:
            controller.ask(kinds(entries=gone), 1)

    def _registered(self, controller: Door) -> int:
        """The epoch of a broker that does not run."""
        kinds = m.BrokerRegistrationRequest
        level = kinds.Feature(
            name="metadata.version", min_supported_version=1, max_supported_version=21
        )
        answer = controller.ask(
            kinds(
                broker_id=OWN_ID,
                cluster_id=CLUSTER_ID,
                incarnation_id=os.urandom(16),
                listeners=[kinds.Listener(name="INTERNAL", host=HOST, port=9)],
                features=[level],
                rack=None,
                log_dirs=(os.urandom(16),),
            ),
            4,
        )
        return int(answer.broker_epoch)


def _secured(plain: int, sasl: int) -> dict[str, object]:
    """Properties of a controller with two listeners, the second one with SASL."""
    name, password = next(iter(USERS.items()))
    users = " ".join(f'user_{one}="{secret}"' for one, secret in USERS.items())
    login = f'username="{name}" password="{password}"'
    return {
        "listeners": f"CONTROLLER://{HOST}:{plain},SECURE://{HOST}:{sasl}",
        "controller.listener.names": "CONTROLLER,SECURE",
        "listener.security.protocol.map": (
            "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT,SASL:SASL_PLAINTEXT,"
            "SECURE:SASL_PLAINTEXT"
        ),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": f"{_MODULE} {login} {users};",
        **authorizer(kraft=True),
        **tokens(_RELEASE),
        **_PATIENT,
    }


def _runs(server: Server) -> bool:
    return bool(server.status().get("state") == "running")
