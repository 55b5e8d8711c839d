"""A cluster for one test: nodes in this process, on free ports of 127.0.0.1, in a new folder.

Each node runs on a thread of its own (:mod:`emulator.testing.node_thread`). So a test may block,
and the same class serves ``async with`` and ``with``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypeVar

from emulator.commands.admin_client import Connection
from emulator.commands.format import FormatError, format_folder
from emulator.config.load import Config, ConfigError, load
from emulator.config.reading import INT_MAX
from emulator.io.clock import Clock
from emulator.io.disk import Disk
from emulator.io.process import NodeProcess
from emulator.seam import Halt, Log
from emulator.testing.node_thread import NodeEndedError, NodeThread
from wire.text import uuid_text

T = TypeVar("T")

HOST: Final = "127.0.0.1"
CONTROLLER_ID: Final = 3000
CONTROLLER: Final = "CONTROLLER"
OWN_PROPERTIES: Final = frozenset(
    "process.roles node.id controller.quorum.voters controller.listener.names listeners "
    "advertised.listeners metadata.log.dir log.dirs log.dir kraftbridge.release".split()
)
"""Set by the cluster; a test cannot give them."""
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class ClusterError(Exception):
    """The cluster cannot start, is not running, or did not end in order; the text says why."""


class Cluster:
    """A controller in KRaft mode for one test.

    ``async with Cluster() as cluster:`` and ``with Cluster() as cluster:`` start it, stop it and
    remove its folder. Several may run at once. It needs no ZooKeeper; to migrate from one, give
    ``zookeeper.connect`` and ``zookeeper.metadata.migration.enable`` as properties.

    Args:
        release: the Kafka release that is emulated, "3.4" ... "3.9".
        metadata_version: the first one, such as "3.7-IV4"; None: the newest of the release.
        fsync: False: writes are not made durable, which is faster; what was acknowledged may be
            lost if the machine (not only the process) crashes. :meth:`status` says which it is.
        properties: more of Kafka's properties, and ``kraftbridge.`` ones.
        folder: for the node's files, kept afterwards; None: a temporary one, removed at the end.

    Raises:
        ClusterError: from the start: a property is wrong, or the folder cannot be used.
    """

    def __init__(
        self,
        *,
        release: str = "3.9",
        metadata_version: str | None = None,
        fsync: bool = True,
        properties: Mapping[str, str] = MappingProxyType({}),
        folder: Path | None = None,
    ) -> None:
        self._release = release
        self._metadata_version = metadata_version
        self._fsync = fsync
        self._properties = dict(properties)
        self._folder = folder
        self._temporary: Path | None = None
        self._port = 0
        self._thread: NodeThread | None = None
        self._process: NodeProcess | None = None

    # ---------------------------------------------------------------- start and stop
    def __enter__(self) -> Self:
        """Start, and wait until requests are served."""
        thread = self._start()
        try:
            thread.ready.result()
        except BaseException as error:
            raise self._not_started(error) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop in order, wait for the end, remove the temporary folder.

        Raises:
            ClusterError: the node ended with an error.
        """
        self._request_stop()
        self._end(also=error)

    async def __aenter__(self) -> Self:
        """Start, and wait until requests are served; the loop goes on meanwhile."""
        thread = self._start()
        try:
            await asyncio.wrap_future(thread.ready)
        except BaseException as error:
            raise self._not_started(error) from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop as ``with`` does; the loop goes on meanwhile."""
        self._request_stop()
        try:
            if self._thread is not None:
                # Not the future itself: a cancelled test must not cancel the node's end.
                await asyncio.wait([asyncio.wrap_future(self._thread.ended)])
        finally:
            self._end(also=error)

    # ---------------------------------------------------------------- while it runs
    @property
    def controllers(self) -> str:
        """``host:port`` of the controller, as ``bootstrap.controllers`` takes it."""
        return f"{HOST}:{self._port}"

    @property
    def cluster_id(self) -> str:
        """22 characters; of a folder that was formatted before, its own.

        Raises:
            ClusterError: it is not running.
        """
        return self._call(lambda process: process.node.cluster_id)

    @property
    def folder(self) -> Path:
        """Folder of the controller's files.

        Raises:
            ClusterError: it was not started.
        """
        found = self._folder or self._temporary
        if found is None:
            raise ClusterError("the cluster is not running")
        return found

    def status(self) -> dict[str, Any]:
        """What ``kraft-bridge status --json`` prints, and ``fsync``.

        Raises:
            ClusterError: it is not running.
        """
        return {**self._call(lambda process: process.status()), "fsync": self._fsync}

    def connect(self, *, client_id: str = "kraft-bridge-test", timeout_s: float = 10) -> Connection:
        """A blocking connection to the controller; close it.

        Raises:
            OSError: it does not answer in time.
        """
        return Connection(HOST, self._port, timeout_s, client_id=client_id)

    def request(
        self, message: Any, *, client_id: str = "kraft-bridge-test", timeout_s: float = 10
    ) -> Any:
        """Send one request (``wire.messages``) to the controller and wait for its answer.

        It blocks: in a coroutine that has other work, call it by ``asyncio.to_thread``.

        Raises:
            OSError: no answer in time, or the connection was cut: it may have been executed.
        """
        with closing(self.connect(client_id=client_id, timeout_s=timeout_s)) as connection:
            return connection.call(message)

    # ---------------------------------------------------------------- the parts
    def _start(self) -> NodeThread:
        if self._thread is not None:
            raise ClusterError("the cluster was started already")
        if self._folder is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="kraft-bridge-"))
        bound = socket.socket()
        try:
            bound.bind((HOST, 0))
            self._port = bound.getsockname()[1]
            config = self._config()
            cluster_id = uuid_text(os.urandom(16))
            format_folder(config, cluster_id, self._metadata_version, ignore_formatted=True)
        except BaseException as error:
            bound.close()
            self._remove()
            if isinstance(error, ConfigError | FormatError | OSError):
                raise ClusterError(str(error)) from error
            raise
        name = f"controller-{CONTROLLER_ID}"
        self._thread = NodeThread(
            f"kraft-bridge-{name}", lambda: self._build(config, name), {CONTROLLER: bound}
        )
        return self._thread

    def _config(self) -> Config:
        taken = OWN_PROPERTIES.intersection(self._properties)
        if taken:
            raise ClusterError(f"set by the cluster itself: {', '.join(sorted(taken))}")
        config, warnings = load(
            {
                "listener.security.protocol.map": f"{CONTROLLER}:PLAINTEXT",
                **self._properties,
                "process.roles": "controller",
                "node.id": str(CONTROLLER_ID),
                "controller.quorum.voters": f"{CONTROLLER_ID}@{HOST}:{self._port}",
                "controller.listener.names": CONTROLLER,
                "listeners": f"{CONTROLLER}://{HOST}:{self._port}",
                "log.dirs": str(self.folder),
                "kraftbridge.release": self._release,
            }
        )
        for warning in warnings:
            logging.getLogger("kraft_bridge").warning("%s", warning)
        return config

    def _build(self, config: Config, name: str) -> NodeProcess:
        disk = Disk(Path(config.log_dir), fsync=self._fsync)
        try:
            self._process = NodeProcess(
                config, disk, Clock(), _log_to(name), connections_max=INT_MAX
            )
        except BaseException:
            disk.close()
            raise
        return self._process

    def _call(self, work: Callable[[NodeProcess], T]) -> T:
        thread, process = self._thread, self._process
        if thread is None or process is None:
            raise ClusterError("the cluster is not running")
        try:
            return thread.call(lambda: work(process))
        except NodeEndedError as error:
            raise ClusterError(f"the controller ended: {error}") from error

    def _not_started(self, error: BaseException) -> BaseException:
        """Clean up after a start that failed; returns what to raise."""
        self._request_stop()
        try:
            self._end(also=error)
        finally:
            self._thread = None
        return ClusterError(str(error)) if isinstance(error, Exception) else error

    def _request_stop(self) -> None:
        if self._thread is not None:
            self._thread.request_stop()

    def _end(self, also: BaseException | None) -> None:
        """Wait for the node's end; its error is raised unless there is one already."""
        try:
            if self._thread is None:
                return
            self._thread.join()
            failed, halt = self._thread.ended.exception(), None
            if failed is None:
                halt = self._thread.ended.result()
            if also is None and (halt is None or halt.exit_code != 0):
                raise ClusterError(_ending(failed, halt)) from failed
        finally:
            self._remove()

    def _remove(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None


def _ending(failed: BaseException | None, halt: Halt | None) -> str:
    what = halt.why if halt is not None else f"{type(failed).__name__}: {failed}"
    return f"the controller did not end in order: {what}"


def _log_to(name: str) -> Callable[[Log], None]:
    """Log lines go to the logger ``kraft_bridge.NAME``."""
    logger = logging.getLogger(f"kraft_bridge.{name}")

    def write(line: Log) -> None:
        fields = " ".join(f"{key}={value}" for key, value in line.fields.items())
        logger.log(_LEVELS[line.level], "%s %s", line.event, fields)

    return write
