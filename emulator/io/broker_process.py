"""One broker process: folders, machine, sockets, HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import uvloop

from emulator.broker import introspection
from emulator.broker.assembly import broker_node
from emulator.broker.kraft.folders import (
    FILE,
    BrokerFolderError,
    BrokerNotFormattedError,
    FolderIdentity,
    identify,
)
from emulator.broker.kraft.shared_log import LogImages
from emulator.broker.kraft.side import KRaftSide
from emulator.broker.machine import BrokerNode, BrokerSurroundings
from emulator.broker.zookeeper.folders import ZooKeeperFolders, identify_in_zookeeper_mode
from emulator.broker.zookeeper.side import ZooKeeperSide
from emulator.config.broker import BrokerConfig
from emulator.io import serving
from emulator.io.clock import Clock
from emulator.io.disk import Disk
from emulator.io.log_output import lines_lost, logger
from emulator.io.run import Shell
from emulator.io.tls import profiles
from emulator.io.watched import Watched
from emulator.net.faults.script import FaultScript
from emulator.seam import Halt, Log, ReplaceFile
from emulator.trace.exposition import exposition

OPERATOR_ERRORS: Final = (BrokerFolderError, serving.BindError, OSError)
"""Failures that an operator can repair."""


class BrokerFolders:
    """The log folders of a broker, locked for this process; close it at the end.

    Args:
        config: names them.
        fsync: False: nothing is made durable; for tests.

    Raises:
        BrokerFolderError: they cannot be used by this broker.
        FolderLockedError: another process uses one.
        OSError: one cannot be read or written.
    """

    def __init__(self, config: BrokerConfig, *, fsync: bool = True) -> None:
        names = dict.fromkeys((config.metadata_log_dir, *config.log_dirs))
        self._closing = ExitStack()
        try:
            self._disks = {
                name: self._closing.enter_context(contextlib.closing(Disk(Path(name), fsync=fsync)))
                for name in names
            }
            found = {name: _read(Path(name) / FILE) for name in names}
            self.identity = self._identified(config, found)
        except BaseException:
            self._closing.close()
            raise

    def _identified(
        self, config: BrokerConfig, found: Mapping[str, bytes | None]
    ) -> FolderIdentity | ZooKeeperFolders:
        if config.zookeeper is not None:
            # Files of the first folder are named relative to it, as its disk performs effects.
            names = [*self._disks]
            places = {name: str(Path(name).absolute() / FILE) for name in names}
            return identify_in_zookeeper_mode(
                config.node_id,
                config.release,
                found,
                places | {names[0]: FILE},
                _random_id,
                migration=config.zookeeper.migration,
            )
        identity = identify(config.node_id, config.release, found, _random_id)
        for name, data in identity.to_write.items():
            self._disks[name].replace(ReplaceFile(FILE, data))
        return identity

    @property
    def disk(self) -> Disk:
        """The disk of the metadata log."""
        return next(iter(self._disks.values()))

    def close(self) -> None:
        """Release the folders."""
        self._closing.close()


def _random_id() -> bytes:
    return os.urandom(16)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


class BrokerProcess:
    """One broker with its folders, sockets and HTTP endpoint; needs a running event loop.

    Args:
        config: of the broker.
        folders: its folders, which its owner closes.
        clock: time for the broker.
        log: takes its log lines.
        images: of its cluster; brokers of one process share them.
        connections_max: how many connections may be accepted.
        faults: strikes requests, for tests of clients; None: nothing does.
        watched: each event and effect is a log line.
        ends_unregistered: it ends in order once an UnregisterBroker has removed it, and requests
            that it has forwarded are answered. Kafka's brokers go on.
    """

    def __init__(
        self,
        config: BrokerConfig,
        folders: BrokerFolders,
        clock: Clock,
        log: Callable[[Log], None],
        *,
        images: LogImages | None = None,
        connections_max: int,
        faults: FaultScript | None = None,
        watched: bool = False,
        ends_unregistered: bool = False,
    ) -> None:
        self.config = config
        self.faults = faults
        self.clock = clock
        self.log = log
        self._alone = False
        self.http_port = -1
        """The port of the HTTP endpoint, once it is served."""
        self.shell: Shell | None = None
        around = BrokerSurroundings(
            self._new_conn,
            random.Random(os.urandom(16)),  # noqa: S311 - no secrets
            clock.now_ns,
            connections_max,
            faults,
        )
        self.node: BrokerNode = broker_node(config, folders.identity, images or LogImages(), around)
        if ends_unregistered and isinstance(self.node.side, KRaftSide):
            self.node.side.end_unregistered(lambda: not self.node.forwarding.outstanding)
        of_zookeeper = None if config.zookeeper is None else config.zookeeper.security.tls
        tls = profiles(of_zookeeper, config.tls)
        machine = Watched(self.node, log) if watched else self.node
        self.shell = Shell(machine, folders.disk, clock, log=log, row=_no_row, tls=tls)

    @property
    def settled(self) -> bool:
        """Whether the broker is registered and unfenced."""
        return self.node.side.running

    @property
    def registered(self) -> bool:
        """Whether the quorum knows it, if it is to: in KRaft mode, and with migration."""
        side = self.node.side
        registration = side.registration if isinstance(side, ZooKeeperSide) else None
        return registration is None or registration.epoch >= 0

    def request_shutdown(self) -> None:
        """Ask for an orderly stop; a second call stops at once."""
        assert self.shell is not None
        self.shell.request_shutdown()

    @property
    def metadata_offset(self) -> int:
        """Offset of the last record of the metadata log that its answers know."""
        return self.node.side.cluster.image.offset

    def want_fence(self, wanted: bool) -> None:
        """Have the controller fence this broker of KRaft mode, or not any more; for tests."""
        side = self.node.side
        assert isinstance(side, KRaftSide), "ZooKeeper knows no fenced brokers"
        assert self.shell is not None
        side.want_fence(wanted, self.clock.now_ms())
        self.shell.wake()

    def status(self) -> dict[str, Any]:
        """The JSON object behind ``/status``."""
        return introspection.status(self.node, lines_lost())

    def _new_conn(self) -> int:
        assert self.shell is not None, "no connection is made before start"
        return self.shell.new_conn()

    async def run(self) -> Halt:
        """Serve until the broker halts, as the only one of an operating system's process."""
        assert self.shell is not None
        serving.own_process(self.shell)
        self._alone = True
        return await self.serve()

    async def serve(
        self,
        ready: Callable[[], None] | None = None,
        sockets: Mapping[str, socket.socket] | None = None,
    ) -> Halt:
        """Serve until the broker halts; signals and the collector of this process stay.

        Args:
            ready: called once the broker has started and accepts connections.
            sockets: listener name -> socket that is bound already; the others are bound here.

        Raises:
            serving.BindError: an address cannot be bound.
        """
        assert self.shell is not None
        listeners = self.config.listeners
        opened = serving.opened(self.shell, listeners, sockets, self._endpoint(), self.log)
        async with opened as self.http_port:
            return await self.shell.run(ready)

    def _endpoint(self) -> serving.HttpEndpoint:
        def metrics() -> str:
            values = introspection.metrics(self.node, self.clock.now_ms())
            return exposition(values, active=True)

        config = self.config
        faults = self.faults if config.faults_enabled else None
        host, folder = config.listeners[0].host, Path(config.metadata_log_dir)
        routes = serving.pages(
            metrics, self.status, lambda: introspection.not_ready_because(self.node)
        )
        waited_for = faults is not None or not self._alone
        return serving.HttpEndpoint(
            host,
            config.metrics_port,
            routes,
            faults,
            folder,
            waited_for=waited_for,
            names={*(one.host for one in config.advertised), *config.metrics_hosts},
        )


def _no_row(_row: object) -> None:
    """A broker records no trace."""


def run_broker(config: BrokerConfig, *, log_json: bool, log_level: str = "info") -> int:
    """Run until a signal or the end of the machine; returns the exit code.

    0: stopped in order. 1: not registered, refused, or something failed; the log says what.

    Raises:
        FolderLockedError: another process uses one of its folders.
    """
    log = logger(str(config.node_id), json=log_json, level=log_level)

    def run() -> Halt:
        with contextlib.closing(BrokerFolders(config)) as folders:
            most = serving.for_connections()
            faults = FaultScript() if config.faults_enabled else None
            process = BrokerProcess(
                config,
                folders,
                Clock(),
                log,
                connections_max=most,
                faults=faults,
                watched=log_level == "trace",
            )
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                return runner.run(process.run())

    return serving.exit_code_of(run, OPERATOR_ERRORS, log, (BrokerNotFormattedError,))
