"""A real ZooKeeper 3.9.5 server on the loopback address, from the jars in the pyspark wheel.

It may be secured: SASL DIGEST-MD5 users, a port with TLS, a demand that everybody logs in.
"""

import base64
import fcntl
import hashlib
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TextIO

from emulator.servers.jars import JarsMissingError, pyspark_jars, zookeeper_jars
from emulator.servers.java import QUICK_START, JavaNotFoundError, find_java, java_text
from emulator.servers.own_folder import make_folder
from emulator.servers.ports import HOST, free_port, free_ports
from emulator.servers.process import ProcessError, ServerProcess, interrupt_on_terminate
from emulator.servers.waiting import PATIENCE_S

_CONFIG = """\
tickTime={tick_ms}
minSessionTimeout={tick_ms}
maxSessionTimeout=120000
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
maxClientCnxns=0
4lw.commands.whitelist=*
"""

_LOG = """\
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
"""

# TLS is served by Netty only. Of pyspark's jars of it these are enough.
_NETTY = ("buffer", "codec-base", "common", "handler", "resolver", "transport")
_NETTY_NATIVE = ("native-unix-common", "classes-epoll")
_SECURITY = "org.apache.zookeeper.server.auth"


@dataclass(frozen=True)
class Secured:
    """What a server demands and offers beside plain text.

    Args:
        users: user -> password of SASL DIGEST-MD5.
        super_password: of the user ``super`` of ``addauth digest``, whom no ACL stops.
        keystore: PEM file of key (PKCS 8) and certificate of the port with TLS; None: no such port.
        truststore: PEM file of the authorities whose clients' certificates are taken.
        required: schemes of which everybody must have an identity, such as ``sasl``.
    """

    users: Mapping[str, str] = field(default_factory=dict)
    super_password: str = "super"  # noqa: S105 - of a server on the loopback address
    keystore: Path | None = None
    truststore: Path | None = None
    required: tuple[str, ...] = ()

    def config(self, tls_port: int) -> Iterator[str]:
        """Lines of ``zoo.cfg``."""
        yield f"authProvider.sasl={_SECURITY}.SASLAuthenticationProvider"
        if self.required:
            yield "enforce.auth.enabled=true"
            yield f"enforce.auth.schemes={','.join(self.required)}"
        if self.keystore is not None:
            yield "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory"
            yield f"authProvider.x509={_SECURITY}.X509AuthenticationProvider"
            yield f"secureClientPort={tls_port}"
            yield f"secureClientPortAddress={HOST}"
            yield "ssl.clientAuth=want"
            # 3.9 speaks TLS 1.3 alone by itself, Kafka 1.2 by itself.
            yield "ssl.enabledProtocols=TLSv1.2,TLSv1.3"
            yield f"ssl.keyStore.location={self.keystore}"
            yield f"ssl.trustStore.location={self.truststore or self.keystore}"

    def jaas(self) -> str:
        """The section ``Server`` of a JAAS file."""
        users = "".join(f' user_{name}="{secret}"' for name, secret in self.users.items())
        return f"Server {{ {_SECURITY}.DigestLoginModule required{users}; }};\n"

    def flags(self, jaas: Path) -> Iterator[str]:
        """Flags of the JVM. FIPS mode, the default of 3.9, forbids DIGEST-MD5."""
        digest = hashlib.sha1(f"super:{self.super_password}".encode()).digest()  # noqa: S324 - ZooKeeper's own form of a digest
        secret = base64.b64encode(digest).decode()
        yield f"-Djava.security.auth.login.config={jaas}"
        yield "-Dzookeeper.fips-mode=false"
        yield f"-Dzookeeper.DigestAuthenticationProvider.superDigest=super:{secret}"

    def jars(self) -> Iterator[Path]:
        """More jars for the class path; reading the settings of a login loads Netty's classes."""
        for name in (*_NETTY, *(f"transport-{one}" for one in _NETTY_NATIVE)):
            yield next(pyspark_jars().glob(f"netty-{name}-4.*.jar"))


class ZooKeeper(ServerProcess):
    """One stand-alone server; its data survives stop, kill and start again.

    Args:
        folder: its data, configuration and output; made if absent.
        port: client port; a free one if not given.
        tick_ms: sessions end at multiples of it; the shortest session timeout granted.
        fsync: whether writes wait for the disk, as in production. Tests that do not look at
            durability or speed may do without.
        secured: who may connect, and how; None: everybody, in plain text.

    >>> import tempfile
    >>> ZooKeeper(Path(tempfile.gettempdir()), port=2181).hosts
    '127.0.0.1:2181'
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        port: int | None = None,
        tick_ms: int = 500,
        fsync: bool = True,
        secured: Secured | None = None,
    ) -> None:
        super().__init__("zookeeper", Path(folder).absolute())
        self.port = port or free_port()
        self.tick_ms = tick_ms
        self.fsync = fsync
        self.heap = "256m"
        self.main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        self.more_config = ""
        """Lines added to ``zoo.cfg``."""
        self.java_flags: tuple[str, ...] = ()
        self.classes: tuple[Path, ...] = ()
        """Folders of classes before the jars, such as that of ``main``."""
        self.secured = secured
        self.tls_port = 0 if secured is None or secured.keystore is None else free_port()

    @property
    def hosts(self) -> str:
        """Connect string, ``host:port``."""
        return f"{HOST}:{self.port}"

    def start(self) -> Self:
        """Start the server; `wait_started` then waits until it answers.

        Raises:
            JavaNotFoundError: no Java.
            JarsMissingError: no pyspark.
        """
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        config = self.folder / "zoo.cfg"
        lines = _CONFIG.format(tick_ms=self.tick_ms, data=data, port=self.port)
        flags, jars = self.java_flags, [*self.classes, *zookeeper_jars()]
        if self.secured is not None:
            lines += "\n".join((*self.secured.config(self.tls_port), ""))
            jaas = self.folder / "server.jaas"
            jaas.write_text(self.secured.jaas())
            flags = (*flags, *self.secured.flags(jaas))
            jars = [*jars, *self.secured.jars()]
        config.write_text(java_text(lines + self.more_config))
        log = self.folder / "log4j2.properties"
        log.write_text(_LOG)
        return self.launch(
            [
                find_java().executable,
                f"-Xmx{self.heap}",
                *QUICK_START,
                *flags,
                f"-Dlog4j2.configurationFile={log}",
                f"-Dzookeeper.forceSync={'yes' if self.fsync else 'no'}",
                "-cp",
                os.pathsep.join(map(str, jars)),
                self.main,
                config,
            ]
        )

    def answers(self) -> bool:
        """Whether the server answers ``imok`` to ``ruok``."""
        return self.four_letters("ruok") == "imok"

    def four_letters(self, word: str) -> str:
        """Answer to a four-letter command such as ``mntr``; empty if there is none."""
        try:
            with socket.create_connection((HOST, self.port), 2) as connection:
                connection.sendall(word.encode())
                return b"".join(iter(lambda: connection.recv(65536), b"")).decode()
        except OSError:
            return ""

    def transactions(self) -> int:
        """Id of the last transaction, 0 if unknown; each write that was tried takes one.

        The upper 32 bits are the epoch of the ensemble's leader, the lower ones count.
        """
        for line in self.four_letters("srvr").splitlines():
            if line.startswith("Zxid:"):
                return int(line.split()[1], 16)
        return 0

    def wait_started(self, timeout_s: float = PATIENCE_S) -> Self:
        """Wait until it answers.

        Raises:
            PortTakenError: its port was taken meanwhile.
            ProcessError: it ended, or the time is over.
        """
        self.wait_until("an answer to ruok", self.answers, timeout_s)
        return self

    def __enter__(self) -> Self:
        try:
            return self.start().wait_started()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_: object) -> None:
        self.kill()


def hold(folder: Path) -> TextIO:
    """Lock the folder: ZooKeeper itself does not, and two on one folder write into one log.

    Raises:
        BlockingIOError: another process has it.
        OSError: it is no folder, or may not be written.
    """
    make_folder(folder)
    lock = (folder / "kraft-bridge.lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise
    return lock


def run_foreground(folder: Path, port: int) -> int:
    """Run a server until Ctrl-C, SIGTERM or its own end; its output goes to ``stderr``.

    Args:
        folder: where it keeps its data.
        port: client port; 0 takes a free one.

    Returns:
        Exit code: 0 when it was asked to end, 1 when it could not start or ended by itself.
    """
    interrupt_on_terminate()
    try:
        lock = hold(folder)
    except BlockingIOError:
        sys.stderr.write(f"{folder} is in use by another ZooKeeper: stop it, or give --data\n")
        return 1
    zk = ZooKeeper(folder, port=port or None)
    try:
        zk.start().wait_started()
        sys.stderr.write(f"ZooKeeper is ready at {zk.hosts}; its log is {zk.log}\n")
        sys.stderr.flush()
        zk.wait()
    except KeyboardInterrupt:
        zk.stop()
        return 0
    except (JavaNotFoundError, JarsMissingError, ProcessError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        zk.kill()
        lock.close()
    sys.stderr.write(f"ZooKeeper ended with {zk.exit_code}:\n{zk.tail()}\n")
    return 1


# Several ZooKeeper servers that form one ensemble on the loopback address.

_LIMITS = """\
initLimit=10
syncLimit=5
standaloneEnabled=false
"""


def ensemble(folder: Path, count: int, *, tick_ms: int = 2_000) -> list[ZooKeeper]:
    """The servers of an ensemble, not started; each answers once more than half of them run.

    Args:
        folder: each server gets a folder in it.
        count: at least three, or the death of one ends the ensemble.
        tick_ms: as of ``ZooKeeper``.
    """
    ports = free_ports(2 * count)
    voters = "".join(
        f"server.{number + 1}={HOST}:{ports[2 * number]}:{ports[2 * number + 1]}\n"
        for number in range(count)
    )
    servers = []
    for number in range(count):
        one = ZooKeeper(folder / f"zookeeper-{number + 1}", tick_ms=tick_ms)
        one.main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        one.more_config = _LIMITS + voters
        data = one.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(f"{number + 1}\n")
        servers.append(one)
    return servers
