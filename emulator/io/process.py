"""One controller process: folder, node, sockets, HTTP, trace, signals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import uvloop

from emulator.config.listeners import USUAL, url_of
from emulator.config.load import Config
from emulator.io import banner, live_page, serving
from emulator.io.clock import Clock
from emulator.io.disk import Disk
from emulator.io.http import HttpRequest, Page
from emulator.io.log_output import lines_lost, logger
from emulator.io.operator_route import finalise_page, reconcile_page
from emulator.io.run import Shell
from emulator.io.tls import profiles
from emulator.io.trace_recording import NodeTrace
from emulator.io.watched import Watched
from emulator.metadata.errors import ActivationRefusedError
from emulator.metadata.topics import Partition
from emulator.net.faults.script import FaultScript
from emulator.node import introspection, readiness, recovery
from emulator.node.machine import Node
from emulator.node.reconciling import Reconciling
from emulator.raft import layout
from emulator.raft.format import MetaProperties
from emulator.raft.layout import RecoveryError
from emulator.seam import Halt, Log
from emulator.trace import metrics as metric
from emulator.trace.exposition import exposition
from emulator.trace.rows import Row, StallRow

GAUGE_INTERVAL_S = 0.1
STALL_MS_MIN = 50
"""A turn of the event loop that is late by more than this is recorded as a stall."""


class NodeProcess:
    """One node with its disk, sockets, HTTP endpoint and trace; needs a running event loop.

    Args:
        config: of the node.
        disk: its folder; closed when the node ends.
        clock: time for the node.
        log: takes its log lines.
        connections_max: how many connections may be accepted.
        faults: strikes requests, for tests of clients; None: nothing does.
        watched: each event and effect is a log line.
        node: makes the node; the bench measures others.
        advice: the next step, for the live page; None: it shows none.

    Raises:
        Exception: one of ``_OPERATOR_ERRORS``, logged in one line; nothing was written.
    """

    def __init__(
        self,
        config: Config,
        disk: Disk,
        clock: Clock,
        log: Callable[[Log], None],
        *,
        connections_max: int,
        faults: FaultScript | None = None,
        watched: bool = False,
        node: Callable[..., Node] = Node,
        advice: live_page.Advice | None = None,
    ) -> None:
        self.config = config
        self.clock = clock
        self.log = log
        self.trace = NodeTrace(config, clock, log)
        self.faults = faults
        self._alone = False
        self.http_port = -1
        """Where metrics and status are served; -1: nowhere."""
        self.stalls = 0
        """How often the event loop was late by more than ``STALL_MS_MIN``."""
        self.series = live_page.Series(clock.now_ms())
        """What the live page shows of the last minutes."""
        self._advice = advice
        self._unseen = serving.failures_to(log)
        self._disk = disk
        files = disk.read_all()
        identity = recovery.identity(config, files)
        self.shell: Shell | None = None
        self.node = node(
            config,
            identity,
            files,
            rng=random.Random(os.urandom(16)),  # noqa: S311 - placement and back-off, no secrets
            stamp=clock.now_ns,
            cpu=time.thread_time_ns,
            new_conn=self._new_conn,
            now_ms=clock.now_ms(),
            descriptors=connections_max,
            faults=faults,
        )
        of_zookeeper = config.zookeeper_security.tls if config.migration_enabled else None
        tls = profiles(of_zookeeper, config.tls)
        machine = Watched(self.node, log) if watched else self.node
        self.shell = Shell(machine, disk, clock, log=log, row=self._row, tls=tls)

    @property
    def settled(self) -> bool:
        """Whether the node is the active controller and has committed what it has appended.

        Before that, answers to reads may lack what a new controller writes first. Of several
        voters: or whether it follows the leader, and has all that was committed.
        """
        raft = self.node.raft
        if self.node.active:
            return raft.high_watermark == raft.log_end_offset
        return not raft.is_leader and raft.leader_id >= 0 and raft.caught_up

    def resign(self, first: Sequence[int] = ()) -> None:
        """Give the leadership up, as a test asks for; without effect unless this node leads.

        Args:
            first: voters that become candidates at once; if empty, the one with the longest log.
        """
        assert self.shell is not None
        self.node.role.resign(first)
        self.shell.wake()

    def request_shutdown(self) -> None:
        """Ask for an orderly stop; a second call stops at once."""
        assert self.shell is not None
        self.shell.request_shutdown()

    def status(self) -> dict[str, Any]:
        """The JSON object behind ``/status``."""
        now_ms = self.clock.now_ms()
        return introspection.status(self.node, now_ms, self.trace.status, lines_lost())

    @property
    def led_epoch(self) -> int | None:
        """The epoch in which it is the active controller; None: it is not."""
        return self.node.raft.leader_epoch if self.node.active else None

    @property
    def stable_offset(self) -> int:
        """Offset of the last committed record that brokers may know."""
        return self.node.controller.stable.offset

    @property
    def fenced(self) -> dict[int, bool]:
        """Registered broker -> whether it is fenced, as it is committed here."""
        return {one.id: one.fenced for one in self.node.controller.stable.brokers.values()}

    def partition(self, topic: str, number: int) -> Partition | None:
        """A partition as it is committed here; None: there is none."""
        found = self.node.controller.stable.topic(topic)
        return None if found is None else found.partitions.get(number)

    def _new_conn(self) -> int:
        assert self.shell is not None, "no connection is made before start"
        return self.shell.new_conn()

    def _row(self, row: object) -> None:
        self.trace.append(cast("Row", row))

    async def run(self) -> Halt:
        """Serve until the node halts, as the only node of an operating system's process."""
        assert self.shell is not None
        serving.own_process(self.shell)
        self._alone = True
        return await self.serve()

    async def serve(
        self,
        ready: Callable[[], None] | None = None,
        sockets: Mapping[str, socket.socket] | None = None,
    ) -> Halt:
        """Serve until the node halts; signals and the collector of this process stay as they are.

        Args:
            ready: called once the node has started and accepts connections.
            sockets: listener name -> socket that is bound already; the others are bound here.

        Raises:
            serving.BindError: an address cannot be bound.
        """
        assert self.shell is not None
        listeners = self.config.listeners
        with contextlib.closing(self.trace):
            opened = serving.opened(self.shell, listeners, sockets, self._endpoint(), self.log)
            async with opened as self.http_port:
                housekeeping = asyncio.get_running_loop().create_task(self._housekeeping())
                try:
                    return await self.shell.run(ready)
                finally:
                    housekeeping.cancel()
                    await asyncio.wait([housekeeping])

    def _endpoint(self) -> serving.HttpEndpoint:
        def metrics() -> str:
            values = introspection.metrics(self.node, self.clock.now_ms())
            values[metric.LOG_SYNC_MS] = self._disk.sync_ms
            values[metric.LOOP_STALLS] = self.stalls
            values.update(self.trace.metrics)
            return exposition(values, active=self.node.active)

        def not_ready() -> str:
            return readiness.not_ready_because(self.node, self.clock.now_ms())

        config = self.config
        faults = self.faults if config.faults_enabled else None
        host, folder = config.controller_listener.host, Path(config.log_dir)
        shown = live_page.routes(self.series, self.status, self._advice, self._url)
        routes = {**shown, **serving.pages(metrics, self.status, not_ready)}
        pages = {}
        if self.node.driver is not None:
            pages["/reconcile"] = self._waking(reconcile_page(Reconciling(self.node)))
        if config.finalise_hold:
            pages["/finalise"] = self._waking(finalise_page(self.node, self.log))
        waited_for = faults is not None or not self._alone
        own = {config.advertised_controller_listener.host}
        own |= {one.host for number, one in config.voters.items() if number == config.node_id}
        return serving.HttpEndpoint(
            host,
            config.metrics_port,
            routes,
            faults,
            folder,
            pages,
            waited_for=waited_for,
            names={*own, *config.metrics_hosts},
        )

    def _url(self) -> str:
        """Where the pages are; of a node that is asked they are somewhere."""
        usual = self.config.metrics_port is None
        host = USUAL.host if usual else self.config.controller_listener.host
        return url_of(host, self.http_port)

    def _waking(self, page: Callable[[HttpRequest], Page]) -> Callable[[HttpRequest], Page]:
        def answer(asked: HttpRequest) -> Page:
            assert self.shell is not None
            self.shell.wake()
            return page(asked)

        return answer

    async def _housekeeping(self) -> None:
        """Sample gauges into the trace and the page, flush it, record stalls of the event loop."""
        interval_ns = int(GAUGE_INTERVAL_S * 1e9)
        looked_ms = -live_page.EVERY_MS
        while True:
            before_ns = self.clock.now_ns()
            await asyncio.sleep(GAUGE_INTERVAL_S)
            now_ns = self.clock.now_ns()
            late_ns = now_ns - before_ns - interval_ns
            stalled = None
            if late_ns > STALL_MS_MIN * 1_000_000:
                self.stalls += 1
                stalled = StallRow(begin_ns=now_ns - late_ns, end_ns=now_ns)
            self.trace.sample(now_ns, stalled, self._gauges)
            if (now_ms := self.clock.now_ms()) - looked_ms >= live_page.EVERY_MS:
                looked_ms = now_ms
                self._look(now_ms)

    def _look(self, now_ms: int) -> None:
        """One look for the live page; what only shows a node never ends it."""
        try:
            seen, sync = introspection.moment(self.node, now_ms), self._disk.sync_ms
            measured = {live_page.SYNC: sync}
            if self.node.driver is not None:
                measured[live_page.MULTI] = self.node.driver.write_behind.pipeline.multi_latency_ms
            of_process = (sync.count, sync.total, self.stalls)
            self.series.add(seen, of_process, measured, now_ms)
        except Exception as error:  # noqa: BLE001 - whatever it is, only this look fails
            self._unseen("/series", error)

    def _gauges(self) -> Mapping[str, float]:
        return introspection.gauges(self.node, self.clock.now_ms())


def _identity(config: Config) -> MetaProperties:
    """See :func:`emulator.node.recovery.identity`; of the folder itself."""
    path = Path(config.log_dir) / layout.META_PROPERTIES
    files = {layout.META_PROPERTIES: path.read_bytes()} if path.exists() else {}
    return recovery.identity(config, files)


_OPERATOR_ERRORS = (
    ActivationRefusedError,
    serving.BindError,
    RecoveryError,
    recovery.UnusableFolderError,
    OSError,
)
"""Failures that an operator can repair: the text is shown without a traceback."""


def run_controller(
    config: Config,
    *,
    file: Path | None = None,
    log_json: bool,
    log_level: str = "info",
    node: Callable[..., Node] = Node,
    advice: live_page.Advice | None = None,
) -> int:
    """Run until a signal or a halt; returns the exit code.

    0: stopped in order with everything written. 1: something failed; stderr says what.
    2: the folder is not formatted; stderr says how it is.

    Args:
        config: of the node.
        file: its properties, for what is said of them.
        log_json: whether log lines are JSON.
        log_level: lines below it are left out.
        node: makes the node; the bench runs others.
        advice: the next step, for the live page.

    Raises:
        FolderLockedError: another process uses its folder.
    """
    log = logger(str(config.node_id), json=log_json, level=log_level)

    def run() -> Halt:
        try:
            with contextlib.closing(Disk(Path(config.log_dir))) as disk:
                return run_on(disk)
        except recovery.NotFormattedError as error:
            how = banner.format_command(config, file)
            raise recovery.NotFormattedError(f"{error}: {how}") from error
        except RecoveryError as error:
            why = recovery.damaged(config.log_dir, error)
            raise recovery.UnusableFolderError(why) from error

    def run_on(disk: Disk) -> Halt:
        # Before the log is read, which may take long.
        log(banner.of_controller(config, _identity(config).cluster_id, file))
        process = NodeProcess(
            config,
            disk,
            Clock(),
            log,
            connections_max=serving.for_connections(),
            faults=FaultScript() if config.faults_enabled else None,
            watched=log_level == "trace",
            node=node,
            advice=advice,
        )
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(process.run())

    return serving.exit_code_of(run, _OPERATOR_ERRORS, log, (recovery.NotFormattedError,))
