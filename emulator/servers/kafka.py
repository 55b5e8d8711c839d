"""Unmodified Kafka servers of a release on the loopback address: brokers and KRaft controllers.

A broker keeps its folder, ports and id over restarts, so that one that ran in ZooKeeper mode comes
back as a migrating or a KRaft broker by a restart with other properties, as in a real migration.
"""

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from emulator.servers.jars import kafka_jars
from emulator.servers.java import (
    QUICK_START,
    SCRIPT_FLAGS,
    SERVER_LOG,
    archive_flags,
    find_java,
    java_text,
)
from emulator.servers.ports import HOST, free_port, free_ports, is_open
from emulator.servers.process import ProcessError, ServerProcess
from emulator.servers.waiting import PATIENCE_S
from emulator.servers.zookeeper import ZooKeeper

CONTROLLER_ID = 3000
_STARTED = "started (kafka.server."
_EXPIRED = "KeeperErrorCode = Session expired for"

_LOG = f"""\
{SERVER_LOG}\
log4j.logger.org.apache.zookeeper=WARN
log4j.logger.org.apache.kafka.clients.NetworkClient=ERROR
log4j.logger.org.apache.kafka.common.config=WARN
log4j.logger.kafka.server.KafkaConfig=WARN
log4j.logger.kafka.server.ReplicaFetcherThread=WARN
log4j.logger.kafka.log=WARN
log4j.logger.org.apache.kafka.storage=WARN
log4j.logger.kafka.coordinator=WARN
log4j.logger.org.apache.kafka.metadata.migration=TRACE
"""

# What a production broker spreads over many threads and disks, cut to what a laptop shares.
_SMALL = {
    "num.network.threads": 1,
    "num.io.threads": 2,
    "background.threads": 2,
    "log.cleaner.enable": "false",
    "num.recovery.threads.per.data.dir": 1,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    # Brokers that stop together would each wait 3 times 5 s for the others to take over.
    "controlled.shutdown.retry.backoff.ms": 300,
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
}
_PROTOCOLS = "INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT"

USERS = {"admin": "admin-secret", "reader": "reader-secret"}
"""Users of the SASL listener by mechanism PLAIN, with their passwords."""
SUPER_USERS = "User:ANONYMOUS;User:admin"
TOKEN_SECRET = "of-the-tokens"  # noqa: S105 - of no one but the loopback address


def ibp(release: str) -> str:
    """The inter.broker.protocol.version of a release: ``3.9.2`` -> ``3.9``."""
    return release.rpartition(".")[0]


class _Server(ServerProcess):
    """What a broker and a controller share: class path, flags, log file, properties file."""

    def __init__(self, name: str, release: str, folder: Path | str) -> None:
        home = Path(folder).absolute()
        super().__init__(name, home, home / f"{name}.log")
        self.release = release
        self.data = home / f"{name}-data"
        self.heap = "512m"
        self.jmx_port: int | None = None
        self.java_flags: tuple[str, ...] = ()
        self.log4j = _LOG

    def at_full_speed(self) -> Self:
        """Start it as Kafka's scripts do, to be measured: 1 GiB of heap, G1, both compilers."""
        self.heap, self.java_flags, self.log4j = "1g", SCRIPT_FLAGS, SERVER_LOG
        return self

    def properties(self) -> dict[str, object]:
        """The server.properties of the next start."""
        raise NotImplementedError

    def _write_properties(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{self.name}.properties"
        lines = (f"{key}={value}\n" for key, value in self.properties().items())
        path.write_text(java_text("".join(lines)))
        return path

    def _java(self, main: str, *arguments: str | Path, flags: tuple[str, ...] = ()) -> list[str]:
        # Its own: another broker of the folder may be reading its file while this one is written.
        log = self.folder / f"{self.name}.log4j.properties"
        log.write_text(self.log4j)
        jars = os.pathsep.join(map(str, kafka_jars(self.release)))
        return [
            str(find_java().executable),
            *QUICK_START,
            *flags,
            f"-Dkraft.bridge.log={self.log}",
            f"-Dlog4j.configuration=file:{log}",
            "-cp",
            jars,
            main,
            *map(str, arguments),
        ]

    def start(self) -> Self:
        """Start it with `properties`; `wait_started` then waits until it serves.

        Raises:
            JavaNotFoundError: no Java.
            JarsMissingError: the jars of the release were not fetched.
        """
        flags = [f"-Xmx{self.heap}", *archive_flags(self.release), *self.java_flags]
        if self.jmx_port is not None:
            flags += [
                f"-Dcom.sun.management.jmxremote.port={self.jmx_port}",
                f"-Dcom.sun.management.jmxremote.host={HOST}",
                f"-Djava.rmi.server.hostname={HOST}",
                "-Dcom.sun.management.jmxremote.authenticate=false",
                "-Dcom.sun.management.jmxremote.ssl=false",
            ]
        path = self._write_properties()
        return self.launch(self._java("kafka.Kafka", path, flags=tuple(flags)))

    def wait_started(self, timeout_s: float = PATIENCE_S) -> Self:
        """Wait until it logs that it has started.

        Raises:
            PortTakenError: a port of it was taken meanwhile.
            ProcessError: it ended, or the time is over.
        """
        self.wait_line(_STARTED, timeout_s)
        return self

    def __enter__(self) -> Self:
        try:
            return self.start().wait_started()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_: object) -> None:
        self.kill()


def authorizer(*, kraft: bool) -> dict[str, object]:
    """Properties of a server that enforces ACLs, of brokers and controllers."""
    name = (
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        if kraft
        else "kafka.security.authorizer.AclAuthorizer"
    )
    return {"authorizer.class.name": name, "super.users": SUPER_USERS}


def _sasl() -> dict[str, object]:
    """Properties of the SASL listener of a broker, but for ``listeners``."""
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    name, password = next(iter(USERS.items()))
    module = "org.apache.kafka.common.security"
    scram = f"{module}.scram.ScramLoginModule required;"
    login = f'username="{name}" password="{password}"'
    return {
        "listener.security.protocol.map": f"{_PROTOCOLS},SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl.plain.sasl.jaas.config": (
            f"{module}.plain.PlainLoginModule required {login} {users};"
        ),
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": scram,
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": scram,
    }


def tokens(release: str) -> dict[str, object]:
    """Properties of a server that issues delegation tokens; none where KRaft mode refuses them.

    Source: BrokerServer.startup, Kafka 3.5: "Delegation tokens are not supported".
    """
    return {} if ibp(release) in {"3.4", "3.5"} else {"delegation.token.secret.key": TOKEN_SECRET}


class KafkaBroker(_Server):
    """One broker with two listeners, INTERNAL (between brokers) and CLIENT.

    Args:
        release: one of `emulator.servers.jars.BRIDGE_RELEASES`.
        id: broker id.
        folder: its data, properties, log and output; brokers may share one.
        zk: ZooKeeper, or its connect string; None for a KRaft broker.
        controller_port: where its KRaft controller (id 3000) listens; None in plain ZooKeeper mode.
        migration: whether ``zookeeper.metadata.migration.enable`` is set.
        properties: more server properties; they win over ours.
        broker_count: how many brokers the cluster has: replication of the internal topics.
        sasl: whether there is a third listener, SASL, for `USERS`, SCRAM users and tokens.
        authorizer: whether ACLs are enforced, by the authorizer that fits the mode; `SUPER_USERS`
            may everything.

    Attributes may be changed while it is stopped; they hold from the next start on.
    """

    def __init__(
        self,
        release: str,
        id: int,  # noqa: A002 - Kafka's name for it
        folder: Path | str,
        zk: ZooKeeper | str | None,
        *,
        controller_port: int | None = None,
        migration: bool = False,
        properties: Mapping[str, object] | None = None,
        broker_count: int = 3,
        sasl: bool = False,
        authorizer: bool = False,
    ) -> None:
        super().__init__(f"broker-{id}", release, folder)
        self.authorizer = authorizer
        self.sasl_port = free_port() if sasl else None
        self.id = id
        self.zk = zk.hosts if isinstance(zk, ZooKeeper) else zk
        self.controller_port = controller_port
        self.migration = migration
        self.extra = dict(properties or {})
        self.broker_count = broker_count
        self.internal_port, self.client_port = free_ports(2)

    @property
    def bootstrap(self) -> str:
        """``host:port`` of the CLIENT listener."""
        return f"{HOST}:{self.client_port}"

    def properties(self) -> dict[str, object]:
        """The server.properties of the next start."""
        listeners = f"INTERNAL://{HOST}:{self.internal_port},CLIENT://{HOST}:{self.client_port}"
        found: dict[str, object] = {
            **_SMALL,
            "listeners": listeners,
            "listener.security.protocol.map": _PROTOCOLS,
            "inter.broker.listener.name": "INTERNAL",
            "log.dirs": self.data,
            "broker.rack": f"r{self.id}",
            "offsets.topic.replication.factor": self.broker_count,
            "transaction.state.log.replication.factor": self.broker_count,
        }
        if self.zk is None:
            found |= {"process.roles": "broker", "node.id": self.id}
        else:
            found |= {
                "broker.id": self.id,
                "zookeeper.connect": self.zk,
                # An ephemeral node outlives a killed broker by this; Kafka's 18 s is a long wait.
                "zookeeper.session.timeout.ms": 6000,
                "inter.broker.protocol.version": ibp(self.release),
            }
        if self.controller_port is not None:
            found["controller.quorum.voters"] = f"{CONTROLLER_ID}@{HOST}:{self.controller_port}"
            found["controller.listener.names"] = "CONTROLLER"
        if self.migration:
            found["zookeeper.metadata.migration.enable"] = "true"
        if self.sasl_port is not None:
            found |= _sasl() | tokens(self.release)
            found["listeners"] = f"{listeners},SASL://{HOST}:{self.sasl_port}"
        if self.authorizer:
            found |= authorizer(kraft=self.zk is None)
        return found | self.extra

    @property
    def lost_session(self) -> bool:
        """Whether its last start ended as its znode of before was there, or its session expired.

        Source: KafkaZkClient.CheckedEphemeral, KafkaServer.startup, Kafka 3.4-3.9.
        """
        met = f"creating ephemeral at /brokers/ids/{self.id}, node already exists"
        lines = "\n".join(self.lines()) if (self.exit_code or 0) > 0 else _STARTED
        return _STARTED not in lines and (met in lines or _EXPIRED in lines)

    def wait_started(self, timeout_s: float = PATIENCE_S) -> Self:
        """As of any server; after `lost_session` it is started again, as by hand."""
        end = time.monotonic() + timeout_s
        while True:
            try:
                return super().wait_started(end - time.monotonic())
            except ProcessError:
                if not self.lost_session:
                    raise
                self.start()

    def migrate(self, controller_port: int) -> Self:
        """Let the next start be with migration on, towards that controller."""
        self.controller_port, self.migration = controller_port, True
        return self

    def identify(self, cluster_id: str) -> Self:
        """Write ``meta.properties`` of a KRaft broker, as ``kafka-storage format`` does."""
        self.data.mkdir(parents=True, exist_ok=True)
        text = f"version=1\ncluster.id={cluster_id}\nnode.id={self.id}\n"
        (self.data / "meta.properties").write_text(text)
        return self

    def new_ports(self) -> Self:
        """Choose other ports, after a `PortTakenError`."""
        self.internal_port, self.client_port, sasl = free_ports(3)
        self.sasl_port = self.sasl_port and sasl
        return self


class KraftController(_Server):
    """Kafka's own KRaft controller, a quorum of one, to be measured beside ours.

    Args:
        release: one of `emulator.servers.jars.BRIDGE_RELEASES`.
        folder: its data, properties, log and output.
        zk: ZooKeeper to migrate from, or its connect string; None for plain KRaft.
        cluster_id: ``/cluster/id`` of the brokers, base64url.
        port: where it listens; a free one if not given.
        properties: more server properties; they win over ours.
    """

    def __init__(
        self,
        release: str,
        folder: Path | str,
        zk: ZooKeeper | str | None,
        cluster_id: str,
        *,
        port: int | None = None,
        properties: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(f"controller-{CONTROLLER_ID}", release, folder)
        self.zk = zk.hosts if isinstance(zk, ZooKeeper) else zk
        self.cluster_id = cluster_id
        self.port = port or free_port()
        self.extra = dict(properties or {})

    def properties(self) -> dict[str, object]:
        """The server.properties of the next start."""
        found: dict[str, object] = {
            "process.roles": "controller",
            "node.id": CONTROLLER_ID,
            "controller.quorum.voters": f"{CONTROLLER_ID}@{HOST}:{self.port}",
            "listeners": f"CONTROLLER://{HOST}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": _PROTOCOLS,
            "inter.broker.listener.name": "INTERNAL",
            "log.dirs": self.data,
            "auto.leader.rebalance.enable": "false",
        }
        if self.zk is not None:
            found |= {
                "zookeeper.metadata.migration.enable": "true",
                "zookeeper.connect": self.zk,
            }
        return found | self.extra

    def format(self) -> None:
        """Run kafka-storage format, at the metadata.version of the release.

        Raises:
            ProcessError: it failed, for example as the folder is formatted already.
        """
        path = self._write_properties()
        arguments = ("format", f"--cluster-id={self.cluster_id}", "-c", path)  # it may begin with -
        release = ("--release-version", ibp(self.release))
        done = subprocess.run(
            self._java("kafka.tools.StorageTool", *arguments, *release),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ProcessError(f"kafka-storage format failed:\n{done.stdout}{done.stderr}")

    def start(self) -> Self:
        """Format the folder if it is new, and start."""
        if not (self.data / "meta.properties").exists():
            self.format()
        return super().start()

    def wait_started(self, timeout_s: float = PATIENCE_S) -> Self:
        """Wait until it accepts connections.

        Raises:
            ProcessError: it ended, or the time is over.
        """
        self.wait_until(f"port {self.port}", lambda: is_open(self.port), timeout_s)
        return self
