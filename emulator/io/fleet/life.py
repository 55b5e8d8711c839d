"""One life of a broker of a fleet: the machine on sockets, with no files."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Sequence
from typing import Protocol

from typing_extensions import override

from emulator.broker.assembly import broker_node
from emulator.broker.churn import ChurnedIsr, IsrChurn
from emulator.broker.kraft.folders import FolderIdentity
from emulator.broker.kraft.replicas import HostedReplicas
from emulator.broker.kraft.shared_log import LogImages
from emulator.broker.kraft.side import KRaftSide
from emulator.broker.machine import BrokerNode, BrokerSurroundings
from emulator.broker.zookeeper.folders import ZooKeeperFolders
from emulator.broker.zookeeper.shared_control import SharedControl
from emulator.broker.zookeeper.side import ZooKeeperSide
from emulator.config.broker import BrokerConfig
from emulator.config.listeners import Listener
from emulator.io.clock import Clock
from emulator.io.fleet.tap import HEARTBEAT, Exchange, LifeScript, Tapped
from emulator.io.run import Shell
from emulator.io.tls import profiles
from emulator.seam import Log


class FleetObserver(Protocol):
    """Called with what brokers did."""

    def answered(self, broker_id: int, seen: Exchange) -> None:
        """A controller has answered a request."""

    def churned(self, broker_id: int, change: ChurnedIsr) -> None:
        """A change of an ISR is done or lost."""

    def registered(self, broker_id: int, broker_epoch: int) -> None:
        """The quorum has accepted a registration."""

    def stranded(self, broker_id: int, why: str) -> None:
        """No controller will ever take it, and it asks on."""


class BrokerLife(LifeScript):
    """Begins at construction. Times are monotonic nanoseconds; None: it did not come to that.

    Args:
        config: of the broker.
        folders: the contents of its folders.
        images: of the cluster, shared by the fleet.
        control: the control requests of the fleet's brokers.
        clock: time.
        observer: called with what it did.
        due_ns: when it was due to begin.
        bound: the sockets of its listeners, in their order.
        manual_isrs: whether it proposes no change of an ISR by itself.
    """

    def __init__(
        self,
        config: BrokerConfig,
        folders: FolderIdentity | ZooKeeperFolders,
        images: LogImages,
        *,
        control: SharedControl,
        clock: Clock,
        observer: FleetObserver,
        due_ns: int,
        bound: Sequence[socket.socket],
        manual_isrs: bool = False,
    ) -> None:
        self.due_ns = due_ns
        self.running_ns: int | None = None
        """Registered, and for a broker in KRaft mode unfenced."""
        self.ended_ns: int | None = None
        self.problem: str | None = None
        """Why the end was not as asked for; None: it was, or it goes on."""
        self.asked = 0
        self.skipped = 0
        self._broker_id = config.node_id
        self._clock = clock
        self._observer = observer
        self._rng = random.Random(clock.now_ns() ^ config.node_id)  # noqa: S311 - no secrets
        self._rate = 0.0
        self._churn: IsrChurn | None = None
        self.killed = False
        """Whether it was ended at once."""
        self._beaten_ns: int | None = None
        """When a heartbeat was answered without an error last."""
        self._patience_ns = 1_000_000 * max(
            config.session_timeout_ms, 2 * config.heartbeat_interval_ms
        )
        self._begun = False
        self._asked_to_end = False
        self._stranded = False
        around = BrokerSurroundings(self._new_conn, self._rng, clock.now_ns, shared=control)
        self.node: BrokerNode = broker_node(config, folders, images, around)
        if self.replicas is not None:
            self.replicas.manual = manual_isrs
        mode = config.zookeeper
        servers = frozenset(() if mode is None else ((x.host, x.port) for x in mode.servers))
        self.tapped = Tapped(
            self.node,
            lambda host, port: (host, port) in servers,
            config.heartbeat_interval_ms * 1_000_000,
            clock,
            self,
        )
        tls = {} if mode is None else profiles(mode.security.tls)
        self._shell = Shell(self.tapped, None, clock, log=self._logged, row=_drop_row, tls=tls)
        self._task = asyncio.ensure_future(self._live(config.listeners, bound))

    @property
    def goes_on(self) -> bool:
        """Whether it has not ended."""
        return not self._task.done()

    @property
    def running(self) -> bool:
        """Whether it is registered, and can serve."""
        return self.goes_on and self.node.side.running

    @property
    def registered(self) -> bool:
        """Whether the quorum knows it, if it is to: in KRaft mode, and with migration."""
        side = self.node.side
        registration = side.registration if isinstance(side, ZooKeeperSide) else None
        return registration is None or registration.epoch >= 0

    @property
    def unanswered(self) -> bool:
        """Whether its heartbeats got no good answer for as long as a controller keeps a session."""
        beaten_ns = self._beaten_ns
        return beaten_ns is not None and self._clock.now_ns() - beaten_ns > self._patience_ns

    @property
    def replicas(self) -> HostedReplicas | None:
        """The partitions that it hosts."""
        side = self.node.side
        if isinstance(side, KRaftSide):
            return side.hosting.replicas
        return side.replicas if isinstance(side, ZooKeeperSide) else None

    @property
    def outstanding(self) -> int:
        """Number of changes of ISRs that are not done."""
        return 0 if self._churn is None else self._churn.outstanding

    @property
    def cluster_id(self) -> str | None:
        """The cluster, if it was read from ZooKeeper in this life."""
        side = self.node.side
        return side.zookeeper.znode.cluster_id if isinstance(side, ZooKeeperSide) else None

    async def end(self, patience_s: float) -> None:
        """Ask for a controlled shutdown and wait for it; after ``patience_s`` it ends at once."""
        if not self.goes_on:
            return
        if not self._begun:
            # The broker has sent nothing yet.
            await self.die()
            return
        if not self._asked_to_end:
            # A second time would end it at once.
            self._asked_to_end = True
            self._shell.request_shutdown()
        done, _ = await asyncio.wait([self._task], timeout=patience_s)
        if not done:
            await self.die()
            self.problem = f"the shutdown was not granted within {patience_s:g} s"

    async def die(self) -> None:
        """End at once: every connection is closed, and nothing is sent."""
        if self.goes_on:
            if not self.killed:
                self.killed = True
                self._task.cancel()
            await asyncio.wait([self._task])

    def begin_churn(self, per_second: float) -> None:
        """Change ISRs of led partitions from now on; 0: ask for nothing more."""
        self._rate = per_second
        replicas = self.replicas
        if per_second > 0 and replicas is not None:
            self._churn = IsrChurn(replicas, per_second, self._rng, self._clock.now_ms())

    def end_churn(self) -> None:
        """Let followers come back, and forget what is not done."""
        if self._churn is not None:
            self._churn.stop(self._clock.now_ms())
            self._count_churn()

    # ---------------------------------------------------------------- a script
    @property
    @override
    def deadline_ms(self) -> int | None:
        return None if self._churn is None or not self._rate else self._churn.deadline_ms

    @override
    def tick(self, now_ms: int) -> None:
        if self._churn is not None and self._rate:
            self._churn.tick(now_ms)

    @override
    def stepped(self, _now_ms: int) -> None:
        if self.running_ns is None and self.node.side.running:
            self.running_ns = self._clock.now_ns()
        if self._churn is not None:
            for change in self._churn.take_done():
                self._observer.churned(self._broker_id, change)
        side = self.node.side
        if not self._stranded and isinstance(side, ZooKeeperSide) and side.of_another_cluster:
            self._stranded = True
            why = (
                "INCONSISTENT_CLUSTER_ID: the controllers that are named are of another cluster, "
                f"ZooKeeper is of {self.cluster_id}"
            )
            self._observer.stranded(self._broker_id, why)

    @override
    def answered(self, seen: Exchange) -> None:
        if seen.api_key == HEARTBEAT and not seen.error_code:
            self._beaten_ns = seen.answered_ns
        self._observer.answered(self._broker_id, seen)

    # ---------------------------------------------------------------- inside
    async def _live(self, listeners: Sequence[Listener], bound: Sequence[socket.socket]) -> None:
        try:
            for listener, one in zip(listeners, bound, strict=True):
                await self._shell.listen(listener.name, listener.host, 0, one)
            halt = await self._shell.run(self._has_begun)
            self.problem = halt.why if halt.exit_code else None
        except asyncio.CancelledError:
            await self._shell.stop()
            if not self.killed:
                raise
        except Exception as error:  # noqa: BLE001 - of this broker only; the results show it
            self.problem = f"{type(error).__name__}: {error}"
        finally:
            self.ended_ns = self._clock.now_ns()
            self._count_churn()

    def _has_begun(self) -> None:
        self._begun = True

    def _count_churn(self) -> None:
        if self._churn is not None:
            self.asked += self._churn.asked
            self.skipped += self._churn.skipped
            self._churn = None

    def _logged(self, line: Log) -> None:
        """Log lines are counted by the tap; one of them is news."""
        if line.event == "registered":
            self._observer.registered(self._broker_id, int(str(line.fields["broker_epoch"])))

    def _new_conn(self) -> int:
        return self._shell.new_conn()


def _drop_row(_something: object) -> None:
    """Brokers of a fleet write no trace: rows are dropped."""
