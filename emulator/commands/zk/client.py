"""KazooClient for the tools that read a tree, with the security of a properties file."""

from __future__ import annotations

import contextlib
import math
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import AsyncResult, KazooTimeoutError, SequentialThreadingHandler
from kazoo.handlers.utils import create_tcp_connection
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.states import KeeperState

from emulator.commands.common import fail
from emulator.commands.configuration import source_of, text_of
from emulator.config import properties
from emulator.config import zookeeper as config_zookeeper
from emulator.config.tls import TlsSettings
from emulator.config.zookeeper import OPEN, ZooKeeperSecurity, connect_string
from emulator.io.jaas_file import inlined
from emulator.io.printable import sentence
from emulator.io.reach import why_unreachable
from emulator.io.tls import context, explain
from emulator.zookeeper.channel import REPLY_BYTES_MAX
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
        given = properties.parse("", overrides or ())
    except ValueError as error:
        raise fail(f"-X: {error}", 2) from error
    try:
        configured, security = settings(config, overrides or ())
    except OSError as error:
        raise fail(sentence(error), 2) from error
    except ValueError as error:
        raise fail(f"{source_of(str(error), config, given)}: {error}", 2) from error
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
    if security.sasl is not None:
        more["sasl_options"] = {
            "mechanism": MECHANISM,
            "username": security.sasl.username,
            "password": security.sasl.password,
        }
    if security.digest is not None:
        more["auth_data"] = [("digest", f"{security.digest.username}:{security.digest.password}")]
    handler = _Handler(security.tls)
    return _Client(hosts=hosts, timeout=timeout_s, read_only=read_only, handler=handler, **more)


def check_reachable(hosts: str) -> None:
    """Ask whether any server accepts connections: kazoo would try for long, and give no reason.

    Raises:
        KazooTimeoutError: none does; the text says why not, for each.
        ValueError: ``hosts`` is no connect string.
    """
    servers, _ = config_zookeeper.connect_string(hosts)
    if problem := why_unreachable(servers):
        raise KazooTimeoutError(problem)


def without_address(hosts: str, why: str) -> str:
    """An error without the address that its sentence begins with.

    >>> without_address("zk:2181/kafka", "zk:2181: Connection refused")
    'Connection refused'
    """
    return why.removeprefix(f"{hosts.partition('/')[0]}: ")


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


# Kazoo takes an answer for right: a wrong one ends its thread with an error of struct, or allocates
# what the answer announces. Its end waits ten seconds for a server that does not answer.

END_S: Final = 0.3
"""How long the end of a session waits for the server, which later drops the session anyway."""
LOOK_S: Final = 0.2
"""How long a thread waits at once. CPython looks for signals before and after a wait: a Ctrl-C just
before the system call is seen when the wait is over."""
_PART_BYTES: Final = 1 << 20


class WrongAnswerError(KazooException):  # type: ignore[misc]  # kazoo has no types
    """What answers is no ZooKeeper, or a broken one."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"the answer is not ZooKeeper's ({type(error).__name__}: {error})")


class _Client(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """Kazoo's client on a connection that does not trust what it reads."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        # Kazoo has no argument for its class, and has not started it yet.
        sasl_options = vars(self)["_connection"].sasl_options
        retry = self._conn_retry.copy()
        self._connection = _Connection(self, retry, logger=self.logger, sasl_options=sasl_options)

    @property
    def oldest_call(self) -> _Call | None:
        """The call whose answer is the next one; None: nobody waits for it."""
        return self._pending[0][1] if self._pending else None

    def answered_wrongly(self, wrong: WrongAnswerError) -> None:
        """End all calls; the connection has ended, and a new one is tried."""
        for call in [each[1] for each in (*self._pending, *self._queue)]:
            if call is not None:
                call.set_exception(wrong)
        self._session_callback(KeeperState.CONNECTING)

    def start(self, timeout: float = 15) -> None:
        """Connect; unlike kazoo's own, without a look at the chroot, which may never end.

        Raises:
            KazooTimeoutError: no answer within so many seconds.
            WrongAnswerError: no right one.
        """
        if not _waited(self.start_async().wait, timeout):
            self.stop()
            self.close()
            if self._connection.wrong is not None:
                raise self._connection.wrong
            raise KazooTimeoutError(f"no answer within {timeout:g} s")


class _Connection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """A wrong answer ends the connection, and the calls that wait for it, but not the thread."""

    def __init__(self, *more: Any, **named: Any) -> None:
        super().__init__(*more, **named)
        self.wrong: WrongAnswerError | None = None
        """The newest answer that was no ZooKeeper's."""

    def stop(self, timeout: float | None = None) -> bool:
        """End, without the server if it does not answer, and even before it is connected."""
        if not self.connection_stopped.wait(END_S):
            connected = self._socket
            if connected is not None:
                with contextlib.suppress(OSError):
                    connected.shutdown(socket.SHUT_RDWR)
            if not self.connection_stopped.wait(END_S):
                # A thread that still connects is a daemon, and finds that the client has ended.
                self.connection_stopped.set()
                self._connection_routine = None
        return bool(super().stop(timeout))

    def _connect_attempt(self, *where: Any) -> Any:
        try:
            return super()._connect_attempt(*where)
        except KazooException:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a wrong answer makes of kazoo's parser
            self.wrong = WrongAnswerError(error)
            self.client.answered_wrongly(self.wrong)
            return None

    def _read(self, length: int, timeout: float) -> bytes:
        if not 0 <= length <= REPLY_BYTES_MAX:
            raise ValueError(f"a frame of {length} bytes")
        # What is announced is not allocated before it is there.
        sizes = [_PART_BYTES] * (length // _PART_BYTES) + [length % _PART_BYTES]
        return b"".join([super(_Connection, self)._read(size, timeout) for size in sizes])

    def _read_response(self, header: Any, buffer: bytes, offset: int) -> Any:
        call = self.client.oldest_call
        try:
            return super()._read_response(header, buffer, offset)
        except Exception as error:
            if call is not None:  # which kazoo forgets if the code of the answer is unknown
                call.set_exception(error)
            raise


class _Call(AsyncResult):  # type: ignore[misc]  # kazoo has no types
    """What a call ends with: a value, or an error of kazoo's; the first one counts."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """The value or the error of the call, waited for so many seconds."""
        if block:
            _waited(self.wait, timeout)
        return super().get(block=False)

    def set_exception(self, error: Exception) -> None:
        """End it with an error."""
        if not self.ready():
            known = isinstance(error, KazooException | KazooTimeoutError)
            super().set_exception(error if known else WrongAnswerError(error))


def _waited(wait: Callable[[float], bool], timeout: float | None) -> bool:
    """Wait in parts, so that Ctrl-C ends it; returns whether it has come within so many seconds."""
    end = math.inf if timeout is None else time.monotonic() + timeout
    while not wait(max(0.0, min(LOOK_S, end - time.monotonic()))):
        if time.monotonic() >= end:
            return False
    return True


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Kazoo's own TLS supports neither PKCS12 nor Kafka's settings."""

    def __init__(self, tls: TlsSettings | None) -> None:
        super().__init__()
        self._tls = tls
        self.failed = ""

    def async_result(self) -> _Call:
        """What a call waits for."""
        return _Call(self)

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: object
    ) -> socket.socket:
        """Connect, and shake hands if it is to be secured."""
        plain: socket.socket = create_tcp_connection(socket, address, timeout=timeout)
        if self._tls is None:
            return plain
        try:
            made: ssl.SSLSocket = context(self._tls, datetime.now(UTC)).wrap_socket(
                plain, server_hostname=hostname
            )
        except OSError as error:
            plain.close()
            self.failed = explain(error)
            raise ConnectionError(self.failed) from error
        self.failed = ""
        return made
