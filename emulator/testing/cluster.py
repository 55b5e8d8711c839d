"""A cluster for one test: nodes in this process, on free ports of 127.0.0.1, in a new folder.

Each node runs on a thread of its own (:mod:`emulator.testing.local_node`). So a test may block,
and the same class serves ``async with`` and ``with``.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

from emulator.io.broker_process import BrokerProcess
from emulator.io.kafka_client import Connection
from emulator.io.process import NodeProcess
from emulator.net.faults.fault import Fault
from emulator.testing.broker import start_broker
from emulator.testing.controller import CONTROLLER_ID, start_controller
from emulator.testing.local_node import HOST, ClusterError, LocalNode
from emulator.testing.scripts import ClusterScripts, FaultSource

CLIENT_ID: Final = "kraft-bridge-test"
START_S: Final = 60.0
"""How long a node may take to serve its clients."""
STOP_S: Final = 10.0
"""How long an orderly stop may take before a node is stopped at once."""
INTERNAL_TOPICS: Final = ("offsets.topic", "transaction.state.log")

AnyNode = LocalNode[NodeProcess] | LocalNode[BrokerProcess]


class Cluster:
    """A controller in KRaft mode, and brokers, for one test.

    ``async with Cluster() as cluster:`` and ``with Cluster() as cluster:`` start it, stop it and
    remove its folder. Several may run at once. All of it is KRaft mode, without ZooKeeper.

    Args:
        brokers: how many, with the ids 0 and up. They answer from the metadata and forward changes
            to the controller; they store no records.
        release: the Kafka release that is emulated, "3.4" ... "3.9".
        metadata_version: the first one, such as "3.7-IV4"; None: the newest of the release.
        fsync: False: writes are not made durable, which is faster; what was acknowledged may be
            lost if the machine (not only the process) crashes. :meth:`status` says which it is.
        properties: more of Kafka's properties for the controller, and ``kraftbridge.`` ones.
        broker_properties: the same for each broker.
        faults: the script to begin with: faults, TOML text, or the path of a TOML file. It strikes
            requests of clients: those that brokers get, or without brokers the controller.
        controller_faults: the same for requests that the controller gets; with brokers also those
            that they forward, and their own.
        folder: for the nodes' files, kept afterwards; None: a temporary one, removed at the end.

    Raises:
        ScriptError: the faults cannot be read.
        ClusterError: from the start: a property is wrong, or the folder cannot be used.
    """

    def __init__(
        self,
        *,
        brokers: int = 0,
        release: str = "3.9",
        metadata_version: str | None = None,
        fsync: bool = True,
        properties: Mapping[str, str] = MappingProxyType({}),
        broker_properties: Mapping[str, str] = MappingProxyType({}),
        faults: FaultSource = (),
        controller_faults: FaultSource = (),
        folder: Path | None = None,
    ) -> None:
        if not 0 <= brokers < CONTROLLER_ID:
            raise ClusterError(f"brokers={brokers}: 0 to {CONTROLLER_ID - 1}")
        self._broker_count = brokers
        self._release = release
        self._metadata_version = metadata_version
        self._fsync = fsync
        self._properties = dict(properties)
        self._broker_properties = dict(broker_properties)
        self._scripts = ClusterScripts(one=not brokers)
        self._scripts.clients.add_from(faults)
        self._scripts.controller.add_from(controller_faults)
        self._folder = folder
        self._temporary: Path | None = None
        self._controller: LocalNode[NodeProcess] | None = None
        self._brokers: list[LocalNode[BrokerProcess]] = []

    # ---------------------------------------------------------------- start and stop
    def __enter__(self) -> Self:
        """Start, and wait until requests are served."""
        self._check_not_started()
        try:
            self._start_controller().wait_ready(START_S)
            for broker in self._start_brokers():
                broker.wait_ready(START_S)
        except BaseException as error:
            self._stop(error)
            raise _not_started(error) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop in order, wait for the end, remove the temporary folder.

        An error of the block is not replaced by these:

        Raises:
            ClusterError: a node ended with an error.
            FaultMissedError: a fault never fired.
        """
        self._stop(error)

    async def __aenter__(self) -> Self:
        """Start, and wait until requests are served; the loop goes on meanwhile."""
        self._check_not_started()
        try:
            nodes: list[AnyNode] = [self._start_controller()]
            await _wait(nodes[0].thread.ready, START_S)
            nodes[0].wait_ready(0)
            for broker in self._start_brokers():
                await _wait(broker.thread.ready, START_S)
                broker.wait_ready(0)
        except BaseException as error:
            self._stop(error)
            raise _not_started(error) from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop as ``with`` does; the loop goes on meanwhile."""
        try:
            for nodes in self._groups():
                self._request_stop(nodes)
                for node in nodes:
                    await _wait(node.thread.ended, STOP_S)
        finally:
            self._stop(error)

    # ---------------------------------------------------------------- while it runs
    @property
    def controllers(self) -> str:
        """``host:port`` of the controller, as ``bootstrap.controllers`` takes it.

        Raises:
            ClusterError: it was not started.
        """
        return self._node(CONTROLLER_ID).address

    @property
    def bootstrap(self) -> str:
        """``host:port`` of each broker, as ``bootstrap.servers`` takes them.

        Raises:
            ClusterError: it was not started, or has no brokers.
        """
        if not self._brokers:
            raise ClusterError("the cluster has no brokers: Cluster(brokers=1)")
        return ",".join(broker.address for broker in self._brokers)

    def http(self, node_id: int | None = None) -> str:
        """``http://host:port`` of a node's metrics, status and faults.

        Args:
            node_id: of a node with ``kraftbridge.metrics.port``; None: as in :meth:`request`.

        Raises:
            ClusterError: it is not running, or has none.
        """
        node = self._node(node_id)
        port = node.call(lambda process: process.http_port)
        if port < 0:
            raise ClusterError(f"{node.name} has no kraftbridge.metrics.port")
        return f"http://{HOST}:{port}"

    @property
    def cluster_id(self) -> str:
        """22 characters; of a folder that was formatted before, its own.

        Raises:
            ClusterError: it is not running.
        """
        return self._started().call(lambda process: process.node.cluster_id)

    @property
    def folder(self) -> Path:
        """The folder of the nodes' folders, ``controller-3000``, ``broker-0`` and so on.

        Raises:
            ClusterError: it is not running.
        """
        found = self._folder or self._temporary
        if found is None:
            raise ClusterError("the cluster is not running")
        return found

    def status(self, node_id: int = CONTROLLER_ID) -> dict[str, Any]:
        """What ``/status`` of a node says, and ``fsync``.

        Raises:
            ClusterError: it is not running.
        """
        found = self._node(node_id).call(lambda process: process.status())
        return {**found, "fsync": self._fsync}

    def connect(
        self,
        node_id: int | None = None,
        *,
        client_id: str = CLIENT_ID,
        timeout_s: float = 10,
    ) -> Connection:
        """A blocking connection to a node; close it.

        Args:
            node_id: None: the first broker, or without brokers the controller (3000).
            client_id: of its requests.
            timeout_s: for the connection and each answer.

        Raises:
            OSError: it does not answer in time.
        """
        port = self._node(node_id).port
        return Connection(HOST, port, timeout_s, client_id=client_id)

    def request(
        self,
        message: Any,
        node_id: int | None = None,
        *,
        client_id: str = CLIENT_ID,
        timeout_s: float = 10,
    ) -> Any:
        """Send one request (``wire.messages``) to a node and wait for its answer.

        It blocks: in a coroutine that has other work, call it by ``asyncio.to_thread``. Arguments
        as of :meth:`connect`.

        Raises:
            OSError: no answer in time, or the connection was cut: it may have been executed.
        """
        made = self.connect(node_id, client_id=client_id, timeout_s=timeout_s)
        with closing(made) as connection:
            return connection.call(message)

    # ---------------------------------------------------------------- faults
    def add_faults(self, *faults: Fault | str | Path) -> None:
        """Add faults, TOML text or files of it to the script that strikes requests of clients.

        Raises:
            ScriptError: they cannot be read, or are too many.
        """
        self._scripts.clients.add_from(*faults)

    def add_controller_faults(self, *faults: Fault | str | Path) -> None:
        """The same for requests that the controller gets."""
        self._scripts.controller.add_from(*faults)

    def clear_faults(self) -> None:
        """Remove all faults; those that never fired are still an error at the end."""
        self._scripts.clear()

    @property
    def faults(self) -> list[dict[str, Any]]:
        """Each fault as it was written, with ``calls``, ``fired`` and ``unfit``.

        ``calls`` counts the requests it was about, ``fired`` those it struck; ``unfit`` says why it
        could not, the last time it was its turn and it did not. The controller's own are last.
        """
        return self._scripts.status()

    def check_faults(self) -> None:
        """Called at the end, and by the plugin of pytest after each test.

        Raises:
            FaultMissedError: a fault never fired. Each is reported once.
        """
        self._scripts.check()

    # ---------------------------------------------------------------- the parts
    def _check_not_started(self) -> None:
        if self._controller is not None:
            raise ClusterError("the cluster was started already")

    def _start_controller(self) -> LocalNode[NodeProcess]:
        if self._folder is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="kraft-bridge-"))
        self._controller = start_controller(
            self.folder / f"controller-{CONTROLLER_ID}",
            self._scripts.controller,
            release=self._release,
            metadata_version=self._metadata_version,
            fsync=self._fsync,
            properties=self._properties,
        )
        return self._controller

    def _start_brokers(self) -> list[LocalNode[BrokerProcess]]:
        replicas = str(min(self._broker_count, 3))
        internal = {f"{topic}.replication.factor": replicas for topic in INTERNAL_TOPICS}
        for node_id in range(self._broker_count):
            made = start_broker(
                node_id,
                self.folder / f"broker-{node_id}",
                self._scripts.clients,
                controller_port=self._started().port,
                cluster_id=self.cluster_id,
                release=self._release,
                fsync=self._fsync,
                properties={**internal, **self._broker_properties},
            )
            self._brokers.append(made)
        return self._brokers

    def _started(self) -> LocalNode[NodeProcess]:
        if self._controller is None:
            raise ClusterError("the cluster is not running")
        return self._controller

    def _node(self, node_id: int | None) -> AnyNode:
        controller = self._started()
        if node_id == CONTROLLER_ID or (node_id is None and not self._brokers):
            return controller
        if not 0 <= (node_id or 0) < len(self._brokers):
            raise ClusterError(f"the cluster has no node {node_id}")
        return self._brokers[node_id or 0]

    def _groups(self) -> list[list[AnyNode]]:
        """Nodes in the order of a controlled shutdown: brokers first; they ask the controller."""
        return [[*self._brokers], [] if self._controller is None else [self._controller]]

    def _request_stop(self, nodes: Sequence[AnyNode]) -> None:
        # Requests that a fault delays or loses must not hold up the end.
        self._scripts.end()
        for node in nodes:
            if not node.stopping:
                node.request_stop()

    def _stop(self, before: BaseException | None) -> None:
        """Stop and wait for the end; nothing is raised if there is an error before."""
        failed: list[ClusterError] = []
        for nodes in self._groups():
            self._request_stop(nodes)
            for node in nodes:
                try:
                    node.join(STOP_S)
                except ClusterError as error:
                    failed.append(error)
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None
        if before is None:
            if failed:
                raise failed[0]
            self.check_faults()


async def _wait(future: Future[Any], timeout_s: float) -> None:
    """Wait for a future of a thread; a wait that is cancelled or ends does not cancel it."""
    waiting = asyncio.wrap_future(future)
    # Looked at, so that asyncio does not call an error forgotten, also after a cancelled wait.
    waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.wait([waiting], timeout=timeout_s)


def _not_started(error: BaseException) -> BaseException:
    return ClusterError(str(error)) if isinstance(error, Exception) else error
