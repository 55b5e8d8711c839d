"""A cluster for one test: nodes in this process, on free ports of 127.0.0.1, in a new folder.

Each node runs on a thread of its own (:mod:`emulator.testing.local_node`). So a test may block,
and the same class serves ``async with`` and ``with``. Nodes can be stopped and started again, one
operation at a time: whichever thread calls, another one waits.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypeVar

from emulator.io.broker_process import BrokerProcess
from emulator.io.kafka_client import Connection, RequestRefusedError, elect_first_replica
from emulator.io.process import NodeProcess
from emulator.net.faults.fault import Fault
from emulator.testing.broker import broker_launcher
from emulator.testing.controller import (
    CONTROLLER_ID,
    configured_controller,
    format_controllers,
    launcher,
    voters,
)
from emulator.testing.local_node import (
    HOST,
    ClusterError,
    HeldPort,
    LocalNode,
    NodePlace,
    NodeT,
    SettingsError,
)
from emulator.testing.scripts import ClusterScripts, FaultSource

CLIENT_ID: Final = "kraft-bridge-test"
START_S: Final = 60.0
"""How long a node may take to serve its clients, and any other change to be done."""
STOP_S: Final = 10.0
"""How long an orderly stop may take before a node is stopped at once."""
SETTLE_S: Final = 5.0
"""How long is waited for brokers to read what has changed."""
LOOK_S: Final = 0.005
"""How often it is looked whether a change is done."""
CONTROLLERS_MAX: Final = 9
INTERNAL_TOPICS: Final = ("offsets.topic", "transaction.state.log")

T = TypeVar("T")
AnyNode = LocalNode[NodeProcess] | LocalNode[BrokerProcess]
AnyPlace = NodePlace[NodeProcess] | NodePlace[BrokerProcess]


class UnknownNodeError(ClusterError):
    """The cluster has no such node, topic or partition."""


class Cluster:
    """Controllers in KRaft mode, and brokers, for one test.

    ``async with Cluster() as cluster:`` and ``with Cluster() as cluster:`` start it, stop it and
    remove its folder. Several may run at once. All of it is KRaft mode, without ZooKeeper.

    Args:
        brokers: how many, with the ids 0 and up. They answer from the metadata and forward changes
            to the controller; they store no records. One that an UnregisterBroker removes ends.
        controllers: how many, with the ids 3000 and up.
        release: the Kafka release that is emulated, "3.4" ... "3.9".
        metadata_version: the first one, such as "3.7-IV4"; None: the newest of the release.
        fsync: False: writes are not made durable, which is faster; what was acknowledged may be
            lost if the machine (not only the process) crashes. :meth:`status` says which it is.
        properties: more of Kafka's properties for controllers, and ``kraftbridge.`` ones.
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
        controllers: int = 1,
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
            raise SettingsError(f"brokers={brokers}: 0 to {CONTROLLER_ID - 1}")
        if not 1 <= controllers <= CONTROLLERS_MAX:
            raise SettingsError(f"controllers={controllers}: 1 to {CONTROLLERS_MAX}")
        self._broker_ids = range(brokers)
        self._controller_ids = range(CONTROLLER_ID, CONTROLLER_ID + controllers)
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
        self._controllers: dict[int, NodePlace[NodeProcess]] = {}
        self._brokers: dict[int, NodePlace[BrokerProcess]] = {}
        self._cluster_id = ""
        self._operation = threading.RLock()
        """Held by the one operation that is under way."""
        self._starting = threading.Lock()
        """Held for the moment in which a node is started, or the end begins."""
        self._ending = False
        self._crashed: set[int] = set()
        """Brokers that were stopped at once: they may be registered still."""
        self._failed: list[ClusterError] = []
        """Ends that were not in order, and that nobody was told yet."""

    # ---------------------------------------------------------------- start and stop
    def __enter__(self) -> Self:
        """Start, and wait until requests are served."""
        self._check_not_started()
        try:
            for start in (self._start_controllers, self._start_brokers):
                for node in start():
                    node.wait_ready(START_S)
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
            for start in (self._start_controllers, self._start_brokers):
                for node in start():
                    await _wait(node.thread.ready, START_S)
                    node.wait_ready(0)
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
            for places in self._groups():
                self._request_stop(places)
                for place in places:
                    await _wait(place.node.thread.ended, STOP_S)
        finally:
            self._stop(error)

    # ---------------------------------------------------------------- while it runs
    @property
    def controllers(self) -> str:
        """``host:port`` of each controller, as ``bootstrap.controllers`` takes them.

        Raises:
            ClusterError: it was not started.
        """
        self._check_started()
        return ",".join(place.port.address for place in self._controllers.values())

    @property
    def bootstrap(self) -> str:
        """``host:port`` of each broker, also of stopped ones, as ``bootstrap.servers`` takes them.

        Raises:
            ClusterError: it was not started, or has no brokers.
        """
        if not self._brokers:
            raise ClusterError("the cluster has no brokers: Cluster(brokers=1)")
        return ",".join(place.port.address for place in self._brokers.values())

    @property
    def active_controller(self) -> int | None:
        """The id of the controller that leads; None: none does now.

        Raises:
            ClusterError: it was not started.
        """
        active = self._active()
        return None if active is None else active[0]

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """Every node, controllers first: ``id``, ``role``, ``address``, ``state``, ``why``.

        ``state`` is ``running``, ``stopped`` or ``failed``, ``why`` the reason of the latter two.
        A controller has ``active``, a broker ``fenced``; None: that is not known, as no controller
        leads or the broker is not registered.

        Raises:
            ClusterError: it was not started.
        """
        active = self._active()
        fenced = {} if active is None else self._fenced(active[0])
        return [
            {
                "id": place.node_id,
                "role": place.name.partition(" ")[0],
                "address": place.port.address,
                "state": _state(place),
                "why": place.end,
                **(
                    {"active": active is not None and place.node_id == active[0]}
                    if place.node_id in self._controllers
                    else {"fenced": fenced.get(place.node_id)}
                ),
            }
            for place in self._places()
        ]

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
            ClusterError: it was not started.
        """
        self._check_started()
        return self._cluster_id

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

    def status(self, node_id: int | None = None) -> dict[str, Any]:
        """What ``/status`` of a node says, and ``fsync``.

        Args:
            node_id: None: the active controller, or if none is, the first that runs.

        Raises:
            ClusterError: it is not running.
        """
        wanted = self._any_controller() if node_id is None else node_id
        found = self._node(wanted).call(lambda process: process.status())
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
            node_id: None: the first broker that runs, or without brokers the active controller.
            client_id: of its requests.
            timeout_s: for the connection and each answer.

        Raises:
            ClusterError: it is not running.
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

    # ---------------------------------------------------------------- nodes come and go
    # Each returns once the brokers that run have read what the active controller has committed of
    # it, so that clients find it; a test whose faults prevent that is not held up for long.
    def stop(self, node_id: int, *, at_once: bool = False) -> None:
        """Stop one node, and wait for its end. Its clients find its port closed.

        A broker leaves by a controlled shutdown; if no majority of the controllers runs, at once.

        Args:
            node_id: of a node that runs.
            at_once: as if it crashed: a broker stays registered until its session ends
                (``broker.session.timeout.ms``).

        Raises:
            ClusterError: it is not running, or it did not end in order.
        """
        with self._operation:
            place = self._running(node_id)
            at_once = at_once or (node_id in self._brokers and not self._has_majority)
            if at_once and node_id in self._brokers:
                self._crashed.add(node_id)
            place.node.request_stop(at_once=at_once)
            place.join(START_S)
            self._settle()

    def start(self, node_id: int) -> None:
        """Start a node that was stopped, or has ended, at the same port and with its folder.

        Wait until it serves its clients; while no majority of the controllers runs, only until it
        accepts connections.

        Raises:
            ClusterError: it is running, or cannot start, or does not serve its clients in time.
        """
        with self._operation:
            place = self._place(node_id)
            if place.running:
                raise ClusterError(f"{place.name} is running already")
            self._join(place, STOP_S)
            with self._starting:
                self._check_not_ending()
                node = place.start()
            try:
                if self._has_majority:
                    node.wait_ready(START_S)
                else:
                    node.thread.accepts.result(START_S)
            except Exception as error:
                raise ClusterError(f"{place.name}: {error}") from error
            self._settle()

    def resign(self, node_id: int | None = None) -> int:
        """Have the active controller give its leadership up; returns the id of the next one.

        Args:
            node_id: the active controller, as the test believes; None: whichever it is.

        Raises:
            ClusterError: another one is active, or none, or there is no other; or none is in time.
        """
        with self._operation:
            if node_id is not None:
                self._controller(node_id)
            if len(self._controllers) == 1:
                raise ClusterError("there is one controller: no other could lead instead")
            active = self._leader()
            if node_id not in {None, active[0]}:
                raise ClusterError(f"controller {node_id} is not active, {active[0]} is")
            leads = self._resign(active)[0]
            self._settle()
            return leads

    def move_controller(self, node_id: int) -> None:
        """Have a controller become the active one: the active one resigns in its favour.

        Raises:
            ClusterError: it is not running, none is active, or it is not elected in time.
        """
        with self._operation:
            self._controller(node_id)
            self._running(node_id)
            active, until_s = self._leader(), time.monotonic() + START_S
            # Another voter may be faster, or have a longer log.
            while active[0] != node_id:
                if time.monotonic() > until_s:
                    raise ClusterError(f"controller {node_id} is not elected: {active[0]} is")
                active = self._resign(active, node_id)
            self._settle()

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Have a broker lead a partition of which it holds a replica.

        It becomes the first of the replicas, so the preferred leader, and is elected, as by
        ``kafka-reassign-partitions`` and ``kafka-leader-election``.

        Args:
            topic: its name.
            partition: its number.
            node_id: of the broker.

        Raises:
            ClusterError: it holds no replica, or is not in sync; the controller refuses it, or no
                controller is active.
        """
        with self._operation:
            self._broker(node_id)
            active = self._controllers[self._leader()[0]].node
            found = active.call(lambda process: process.partition(topic, partition))
            if found is None:
                raise UnknownNodeError(f"the cluster has no partition {topic}-{partition}")
            if node_id not in found.isr:
                why = f"broker {node_id} is not in sync with {topic}-{partition}"
                raise ClusterError(f"{why}: replicas {list(found.replicas)}, ISR {list(found.isr)}")
            if found.leader == node_id:
                return
            order = [node_id, *(one for one in found.replicas if one != node_id)]
            try:
                with closing(Connection(HOST, active.port, START_S, client_id=CLIENT_ID)) as made:
                    elect_first_replica(made, topic, partition, order)
            except (RequestRefusedError, OSError) as error:
                raise ClusterError(f"{topic}-{partition} has no new leader: {error}") from error
            self._settle()

    def fence(self, node_id: int) -> None:
        """Have the controller fence a broker: it goes on to run and leads nothing.

        It stays fenced until :meth:`unfence`, or until it is started again.

        Raises:
            ClusterError: it is not running, no controller is active, or it is not done in time.
        """
        self._fence(node_id, wanted=True)

    def unfence(self, node_id: int) -> None:
        """Undo :meth:`fence`.

        Raises:
            ClusterError: as there.
        """
        self._fence(node_id, wanted=False)

    def _fence(self, node_id: int, *, wanted: bool) -> None:
        with self._operation:
            self._broker(node_id)
            self._running(node_id)
            broker = self._brokers[node_id].node
            self._leader()

            def done() -> bool:
                # Asked again each time: a heartbeat may be under way that does not ask for it.
                broker.call(lambda process: process.want_fence(wanted))
                active = self._active()
                return active is not None and self._fenced(active[0]).get(node_id) is wanted

            self._until(done, f"broker {node_id} is not {'' if wanted else 'un'}fenced")
            self._settle()

    # ---------------------------------------------------------------- who leads
    def _active(self) -> tuple[int, int] | None:
        """Id and epoch of the active controller; the newer one while an older has not resigned."""
        self._check_started()
        found = [
            (epoch, place.node_id)
            for place in self._controllers.values()
            if (epoch := _asked(place, lambda process: process.led_epoch)) is not None
        ]
        epoch, node_id = max(found, default=(-1, -1))
        return None if node_id < 0 else (node_id, epoch)

    def _leader(self) -> tuple[int, int]:
        """Id and epoch of the active controller, waited for.

        Raises:
            ClusterError: no majority of the controllers runs, or none is elected in time.
        """
        return self._until(self._active, "no controller is active")

    def _resign(self, active: tuple[int, int], *first: int) -> tuple[int, int]:
        """Have the active controller resign; returns id and epoch of the next one."""
        self._controllers[active[0]].node.call(lambda process: process.resign(first))

        def later() -> tuple[int, int] | None:
            found = self._active()
            return None if found is None or found[1] <= active[1] else found

        return self._until(later, f"controller {active[0]} has resigned, and none is active")

    def _until(self, look: Callable[[], T | None], problem: str) -> T:
        """Wait until something is found.

        Raises:
            ClusterError: it is not in time, or cannot be without a majority.
        """
        until_s = time.monotonic() + START_S
        while True:
            self._check_not_ending()
            if not self._has_majority:
                raise ClusterError(f"{problem}: no majority of the controllers is running")
            if found := look():
                return found
            if time.monotonic() > until_s:
                raise ClusterError(problem)
            time.sleep(LOOK_S)

    def _settle(self) -> None:
        """Wait until every broker that runs knows what is committed by now."""
        until_s = time.monotonic() + SETTLE_S
        active = self._active()
        if active is None:
            return
        offset = _asked(self._controllers[active[0]], lambda process: process.stable_offset) or 0
        for broker in self._brokers.values():
            while broker.running and broker.node.ready:
                known = _asked(broker, lambda process: process.metadata_offset)
                if known is None or known >= offset:
                    break
                if time.monotonic() > until_s or self._ending:
                    return
                time.sleep(LOOK_S)

    @property
    def _has_majority(self) -> bool:
        running = sum(place.running for place in self._controllers.values())
        return running > len(self._controllers) // 2

    @property
    def _grants_shutdowns(self) -> bool:
        """Whether a broker that asks for a controlled shutdown is granted it soon.

        Not without a majority, nor while a broker is gone whose session has not ended: the
        controller waits until every active broker has read of the shutdown.
        """
        return self._has_majority and all(
            (place := self._brokers[node_id]).running and place.node.ready
            for node_id in self._crashed
        )

    def _fenced(self, controller_id: int) -> dict[int, bool]:
        """Registered broker -> whether it is fenced."""
        return _asked(self._controllers[controller_id], lambda process: process.fenced) or {}

    def _any_controller(self) -> int:
        active = self.active_controller
        running = [one.node_id for one in self._controllers.values() if one.running]
        return next(iter(running), CONTROLLER_ID) if active is None else active

    # ---------------------------------------------------------------- the parts
    def _check_not_started(self) -> None:
        if self._controllers:
            raise ClusterError("the cluster was started already")

    def _check_started(self) -> None:
        if not self._controllers:
            raise ClusterError("the cluster is not running")

    def _check_not_ending(self) -> None:
        if self._ending:
            raise ClusterError("the cluster is being stopped")

    def _start_controllers(self) -> list[LocalNode[NodeProcess]]:
        if self._folder is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="kraft-bridge-"))
        for node_id in self._controller_ids:
            place = NodePlace[NodeProcess](node_id, f"controller {node_id}", HeldPort())
            self._controllers[node_id] = place
        ports = self._controller_ports
        configs = [
            configured_controller(
                node_id,
                ports,
                self.folder / f"controller-{node_id}",
                self._release,
                self._properties,
            )
            for node_id in self._controller_ids
        ]
        self._cluster_id = format_controllers(configs, self._metadata_version)
        for config in configs:
            script = self._scripts.controller
            place = self._controllers[config.node_id]
            place.launch = launcher(config, script, fsync=self._fsync)
        return [place.start() for place in self._controllers.values()]

    @property
    def _controller_ports(self) -> dict[int, int]:
        return {node_id: place.port.number for node_id, place in self._controllers.items()}

    def _start_brokers(self) -> list[LocalNode[BrokerProcess]]:
        replicas = str(min(len(self._broker_ids), 3))
        internal = {f"{topic}.replication.factor": replicas for topic in INTERNAL_TOPICS}
        for node_id in self._broker_ids:
            place = NodePlace[BrokerProcess](node_id, f"broker {node_id}", HeldPort())
            self._brokers[node_id] = place
            place.launch = broker_launcher(
                node_id,
                self.folder / f"broker-{node_id}",
                self._scripts.clients,
                port=place.port.number,
                voters=voters(self._controller_ports),
                cluster_id=self._cluster_id,
                release=self._release,
                fsync=self._fsync,
                properties={**internal, **self._broker_properties},
            )
        return [place.start() for place in self._brokers.values()]

    def _places(self) -> list[AnyPlace]:
        return [*self._controllers.values(), *self._brokers.values()]

    def _place(self, node_id: int) -> AnyPlace:
        self._check_started()
        found = self._controllers.get(node_id) or self._brokers.get(node_id)
        if found is None:
            raise UnknownNodeError(f"the cluster has no node {node_id}")
        return found

    def _controller(self, node_id: int) -> AnyPlace:
        place = self._place(node_id)
        if node_id not in self._controllers:
            raise ClusterError(f"{place.name} is no controller")
        return place

    def _broker(self, node_id: int) -> AnyPlace:
        place = self._place(node_id)
        if node_id not in self._brokers:
            raise ClusterError(f"{place.name} is no broker")
        return place

    def _running(self, node_id: int) -> AnyPlace:
        place = self._place(node_id)
        if not place.running:
            raise ClusterError(f"{place.name} is not running: {place.end}")
        return place

    def _node(self, node_id: int | None) -> AnyNode:
        if node_id is not None:
            return self._place(node_id).node
        self._check_started()
        running = [place for place in self._brokers.values() if place.running]
        if self._brokers:
            return next(iter(running or self._brokers.values())).node
        return self._controllers[self._any_controller()].node

    def _groups(self) -> list[list[AnyPlace]]:
        """Nodes in the order of a controlled shutdown: brokers first; they ask the controller."""
        with self._starting:
            self._ending = True
            groups: list[list[AnyPlace]] = [
                [place for place in self._brokers.values() if place.started],
                [place for place in self._controllers.values() if place.started],
            ]
        return groups

    def _request_stop(self, places: Sequence[AnyPlace]) -> None:
        # Requests that a fault delays or loses must not hold up the end.
        self._scripts.end()
        for place in places:
            if not place.node.stopping:
                at_once = place.node_id in self._brokers and not self._grants_shutdowns
                place.node.request_stop(at_once=at_once)

    def _join(self, place: AnyPlace, timeout_s: float) -> None:
        """Wait for an end; one that was not in order is an error of the end of the cluster."""
        try:
            place.join(timeout_s)
        except ClusterError as error:
            self._failed.append(error)

    def _stop(self, before: BaseException | None) -> None:
        """Stop and wait for the end; nothing is raised if there is an error before."""
        for places in self._groups():
            self._request_stop(places)
            for place in places:
                self._join(place, STOP_S)
        for place in self._places():
            place.port.close()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None
        if before is None:
            if self._failed:
                raise self._failed[0]
            self.check_faults()


def _asked(place: NodePlace[NodeT], look: Callable[[NodeT], T]) -> T | None:
    """What a node says of itself; None: it is not running."""
    try:
        return place.node.call(look)
    except ClusterError:
        return None


def _state(place: AnyPlace) -> str:
    if place.running:
        return "running"
    return "failed" if place.failure else "stopped"


async def _wait(future: Future[Any], timeout_s: float) -> None:
    """Wait for a future of a thread; a wait that is cancelled or ends does not cancel it."""
    waiting = asyncio.wrap_future(future)
    # Looked at, so that asyncio does not call an error forgotten, also after a cancelled wait.
    waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.wait([waiting], timeout=timeout_s)


def _not_started(error: BaseException) -> BaseException:
    if isinstance(error, ClusterError) or not isinstance(error, Exception):
        return error
    return ClusterError(str(error))
