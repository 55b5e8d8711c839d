"""The controller of a cluster: its properties, its folder, and the thread that it runs on."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from emulator.commands.format import FormatError, format_folder
from emulator.config.load import Config, ConfigError, load
from emulator.config.reading import INT_MAX
from emulator.faults.script import FaultScript
from emulator.io.clock import Clock
from emulator.io.disk import Disk
from emulator.io.process import NodeProcess
from emulator.seam import Halt, Log
from emulator.testing.node_thread import NodeEndedError, NodeThread
from wire.text import uuid_text

T = TypeVar("T")

HOST: Final = "127.0.0.1"
CONTROLLER_ID: Final = 3000
LISTENER: Final = "CONTROLLER"
OWN_PROPERTIES: Final = frozenset(
    "process.roles node.id controller.quorum.voters controller.listener.names listeners "
    "advertised.listeners metadata.log.dir log.dirs log.dir kraftbridge.release".split()
)
"""Set by the cluster; a test cannot give them."""
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class ClusterError(Exception):
    """The cluster cannot start, is not running, or did not end in order; the text says why."""


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """See the arguments of :class:`emulator.testing.Cluster`."""

    release: str
    metadata_version: str | None
    fsync: bool
    properties: Mapping[str, str]


class LocalController:
    """A controller in this process; starts at construction.

    Args:
        settings: of the cluster.
        folder: for its files; formatted if it is not.
        script: faults that strike its requests.

    Raises:
        ClusterError: a property is wrong, or the folder cannot be used.
    """

    def __init__(self, settings: ControllerSettings, folder: Path, script: FaultScript) -> None:
        self._settings = settings
        self._script = script
        self._process: NodeProcess | None = None
        bound = socket.socket()
        try:
            bound.bind((HOST, 0))
            self.port: int = bound.getsockname()[1]
            config = _config(settings, folder, self.port)
            cluster_id = uuid_text(os.urandom(16))
            format_folder(config, cluster_id, settings.metadata_version, ignore_formatted=True)
        except (ConfigError, FormatError, OSError) as error:
            bound.close()
            raise ClusterError(str(error)) from error
        except BaseException:
            bound.close()
            raise
        name = f"controller-{CONTROLLER_ID}"
        self.thread = NodeThread(
            f"kraft-bridge-{name}", lambda: self._build(config, name), {LISTENER: bound}
        )

    def call(self, work: Callable[[NodeProcess], T]) -> T:
        """Call a function between two steps of the node.

        Raises:
            ClusterError: it is not running.
        """
        try:
            return self.thread.call(lambda: work(self._running()))
        except NodeEndedError as error:
            raise ClusterError(f"the controller ended: {error}") from error

    def join(self) -> None:
        """Wait for the end.

        Raises:
            ClusterError: it did not end in order.
        """
        self.thread.join()
        failed = self.thread.ended.exception()
        if failed is not None:
            why = f"{type(failed).__name__}: {failed}"
            raise ClusterError(f"the controller did not end in order: {why}") from failed
        halt: Halt = self.thread.ended.result()
        if halt.exit_code != 0:
            raise ClusterError(f"the controller did not end in order: {halt.why}")

    def _running(self) -> NodeProcess:
        assert self._process is not None, "its thread has built it"
        return self._process

    def _build(self, config: Config, name: str) -> NodeProcess:
        disk = Disk(Path(config.log_dir), fsync=self._settings.fsync)
        try:
            self._process = NodeProcess(
                config,
                disk,
                Clock(),
                _log_to(name),
                connections_max=INT_MAX,
                faults=self._script,
            )
        except BaseException:
            disk.close()
            raise
        return self._process


def _config(settings: ControllerSettings, folder: Path, port: int) -> Config:
    taken = OWN_PROPERTIES.intersection(settings.properties)
    if taken:
        raise ClusterError(f"set by the cluster itself: {', '.join(sorted(taken))}")
    config, warnings = load(
        {
            "listener.security.protocol.map": f"{LISTENER}:PLAINTEXT",
            **settings.properties,
            "process.roles": "controller",
            "node.id": str(CONTROLLER_ID),
            "controller.quorum.voters": f"{CONTROLLER_ID}@{HOST}:{port}",
            "controller.listener.names": LISTENER,
            "listeners": f"{LISTENER}://{HOST}:{port}",
            "log.dirs": str(folder),
            "kraftbridge.release": settings.release,
        }
    )
    for warning in warnings:
        logging.getLogger("kraft_bridge").warning("%s", warning)
    return config


def _log_to(name: str) -> Callable[[Log], None]:
    """Log lines go to the logger ``kraft_bridge.NAME``."""
    logger = logging.getLogger(f"kraft_bridge.{name}")

    def write(line: Log) -> None:
        fields = " ".join(f"{key}={value}" for key, value in line.fields.items())
        logger.log(_LEVELS[line.level], "%s %s", line.event, fields)

    return write
