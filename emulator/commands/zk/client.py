"""KazooClient for the tools that read a tree, with the security of a properties file."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.handlers.utils import create_tcp_connection

from emulator.commands.common import fail
from emulator.commands.configuration import text_of
from emulator.config import properties
from emulator.config import zookeeper as config_zookeeper
from emulator.config.tls import TlsSettings
from emulator.config.zookeeper import OPEN, ZooKeeperSecurity, connect_string
from emulator.io.jaas_file import inlined
from emulator.io.printable import sentence
from emulator.io.reach import why_unreachable
from emulator.io.tls import context, explain
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import NodeData, ReadFailed, Stat
from emulator.zookeeper.sasl import MECHANISM

# The ZooKeeper that a verb reads, and its login.

Ensemble = Annotated[
    str,
    typer.Option(
        "--zookeeper", help="host:port[,…][/chroot]; default: zookeeper.connect of --config."
    ),
]
SecuredBy = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Properties with the login to ZooKeeper."),
]


def ensemble(
    zookeeper: str, config: Path | None, overrides: list[str] | None
) -> tuple[str, ZooKeeperSecurity]:
    """The connect string and the login."""
    try:
        configured, security = settings(config, overrides or ())
    except OSError as error:
        raise fail(sentence(error), 2) from error
    except ValueError as error:
        raise fail(f"{config or '-X'}: {error}", 2) from error
    hosts = zookeeper or configured
    if not hosts:
        raise fail("give --zookeeper host:port, or --config with zookeeper.connect", 2)
    try:
        connect_string(hosts)
    except ValueError as error:
        raise fail(f"{hosts} is not host:port[,…][/chroot]: {error}", 2) from error
    return hosts, security


CONNECT_TIMEOUT_S: Final = 10.0
"""How long a verb waits for ZooKeeper to accept its connection."""


def settings(path: Path | None, overrides: Iterable[str]) -> tuple[str, ZooKeeperSecurity]:
    """Connect string ("" if not given) and security of a controller's or a broker's properties.

    Raises:
        ValueError: the properties cannot be used; every problem is in the text.
        OSError: a file cannot be read.
    """
    text = "" if path is None else text_of(path)
    raw: Mapping[str, str] = inlined(properties.parse(text, overrides))
    security, problems = config_zookeeper.read(raw)
    if problems:
        raise ValueError("; ".join(problems))
    return raw.get("zookeeper.connect", ""), security


def value_of(client: KazooClient, path: str) -> NodeData | ReadFailed:
    """Read one znode, as our own client answers it.

    Raises:
        KazooException: it cannot be read, and is not absent.
    """
    try:
        data, stat = client.get(path)
    except NoNodeError:
        return ReadFailed(ZkCode.NO_NODE)
    return NodeData(
        data,
        Stat(
            stat.czxid,
            stat.mzxid,
            stat.ctime,
            stat.mtime,
            stat.version,
            stat.cversion,
            stat.aversion,
            stat.ephemeralOwner,
            stat.dataLength,
            stat.numChildren,
            stat.pzxid,
        ),
    )


def client(
    hosts: str,
    security: ZooKeeperSecurity = OPEN,
    *,
    timeout_s: float = 10,
    read_only: bool = False,
) -> KazooClient:
    """A client that is not started yet.

    Raises:
        ValueError: ``hosts`` is no connect string.
        TlsError: a store cannot be used.
    """
    more: dict[str, Any] = {}
    if security.tls is not None:
        context(security.tls)
        more["handler"] = _Handler(security.tls)
    if security.sasl is not None:
        more["sasl_options"] = {
            "mechanism": MECHANISM,
            "username": security.sasl.username,
            "password": security.sasl.password,
        }
    if security.digest is not None:
        more["auth_data"] = [("digest", f"{security.digest.username}:{security.digest.password}")]
    return KazooClient(hosts=hosts, timeout=timeout_s, read_only=read_only, **more)


def check_reachable(hosts: str) -> None:
    """Ask whether any server accepts connections: kazoo would try for long, and give no reason.

    Raises:
        KazooTimeoutError: none does; the text says why not, for each.
        ValueError: ``hosts`` is no connect string.
    """
    servers, _ = config_zookeeper.connect_string(hosts)
    if problem := why_unreachable(servers):
        raise KazooTimeoutError(problem)


def why(found: KazooClient) -> str:
    """The error of the newest TLS connection of a client; empty if there was none."""
    handler = found.handler
    return handler.failed if isinstance(handler, _Handler) else ""


class Connector:
    """Creates clients with a login, and returns the error of the last one."""

    def __init__(self, security: ZooKeeperSecurity) -> None:
        self._security = security
        self._last: KazooClient | None = None

    def __call__(self, hosts: str) -> KazooClient:
        """A client that is not started yet.

        Raises:
            KazooTimeoutError: no server accepts connections there; the text has the reason.
            ValueError: ``hosts`` is no connect string.
        """
        check_reachable(hosts)
        self._last = client(hosts, self._security)
        return self._last

    @property
    def why(self) -> str:
        """See :func:`why`."""
        return "" if self._last is None else why(self._last)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Kazoo's own TLS supports neither PKCS12 nor Kafka's settings."""

    def __init__(self, tls: TlsSettings) -> None:
        super().__init__()
        self._tls = tls
        self.failed = ""

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: object
    ) -> ssl.SSLSocket:
        """Connect and shake hands."""
        plain = create_tcp_connection(socket, address, timeout=timeout)
        try:
            made = context(self._tls, datetime.now(UTC)).wrap_socket(
                plain, server_hostname=hostname
            )
        except OSError as error:
            plain.close()
            self.failed = explain(error)
            raise ConnectionError(self.failed) from error
        self.failed = ""
        return made
