"""A broker in the simulated cluster: the product's own, on the simulated network.

What a broker receives is seen on its connections. What a broker knows is what it would answer
clients. A controller breaks an invariant if it forgets a registration, sends control requests out
of order, or serves a record that is later truncated; so does a broker that ends without a reason.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, Final, Protocol

from emulator.broker.isr import Key
from emulator.broker.kraft.replicas import HostedReplicas
from emulator.broker.kraft.shared_log import LogImages
from emulator.broker.machine import BrokerNode, BrokerSurroundings
from emulator.config.broker import BrokerConfig
from emulator.net.control import ControlRequest
from emulator.seam import (
    Accepted,
    Close,
    Closed,
    Connect,
    Connected,
    Effect,
    Event,
    Halt,
    Log,
    Received,
    Send,
)
from emulator.simulation.clients.caller import Caller, OnAnswer
from emulator.simulation.models.broker_modes import (
    KnownByBroker,
    KnownInKRaftMode,
    KnownInZooKeeperMode,
)
from emulator.simulation.models.broker_settings import REQUEST_MS, address_of, host_of
from emulator.simulation.models.network import Address, Network
from emulator.simulation.models.scheduler import MS, Scheduler
from emulator.simulation.violation import Violated
from emulator.trace.log_events import listed
from wire import messages as m
from wire.batch import decode_batches
from wire.errors import ErrorCode
from wire.frame import FrameReader, decode_response

LOOK_MS: Final = 50
"""How often it looks whether a leader is known."""


class LeaderCaller:
    """A client of the active controller, like an admin client with ``bootstrap.controllers``.

    It knows all controllers, has a connection to each that it has asked, and asks the one that it
    takes for the leader. As long as it knows none, it waits.

    Args:
        name: of the parties.
        addresses: of all controllers; a single one is not asked whether it leads.
        leader: where the leader is, as far as it is known.
        scheduler: the clock.
        network: between all of them.
    """

    def __init__(
        self,
        name: str,
        addresses: Sequence[Address],
        leader: Callable[[], Address | None],
        scheduler: Scheduler,
        network: Network,
    ) -> None:
        self._leader = leader if len(addresses) > 1 else lambda: addresses[0]
        self._scheduler = scheduler
        self._over = False
        self._callers = {
            address: Caller(f"{name} {at}" if at else name, address, REQUEST_MS, scheduler, network)
            for at, address in enumerate(addresses)
        }

    def ask(
        self, message: Any, version: int, on_answer: OnAnswer, left_ms: int = REQUEST_MS
    ) -> None:
        """Send a request, as soon as a leader is known; without an answer if none is in time."""
        address = self._leader()
        if self._over or (address is None and left_ms <= 0):
            on_answer(None)
        elif address is None:
            self._scheduler.after(
                LOOK_MS * MS, lambda: self.ask(message, version, on_answer, left_ms - LOOK_MS)
            )
        else:
            self._callers[address].ask(message, version, on_answer)

    def end(self) -> None:
        """Its process is dead: it waits for no answer any more."""
        self._over = True
        for caller in self._callers.values():
            caller.end()


# Reads the frames between a broker and its controllers: the records that it was served.

FETCH: Final = 1
_REQUEST: Final = struct.Struct(">ihhi")
"""Length, API key, version, correlation id."""
_RESPONSE: Final = struct.Struct(">i")
EMPTY_MAX: Final = 120
"""No response below so many bytes holds a batch."""

OnRecord = Callable[[int, int, bytes, int], None]
"""Takes offset, leader epoch, value, and the high watermark that came with the record."""
OnMark = Callable[[int, int, int], None]
"""Takes the high watermark that came with records, and the leader and its epoch that did."""


class FetchTap:
    """Sees what is sent and received on the connections of one broker.

    Args:
        fetched: takes every record that a Fetch was answered with.
        marked: takes the high watermark of the answer, before its records.
    """

    def __init__(self, fetched: OnRecord, marked: OnMark) -> None:
        self._fetched = fetched
        self._marked = marked
        self._asked: dict[int, tuple[int, int]] = {}
        """Connection -> version and correlation id of its last Fetch."""
        self._readers: dict[int, FrameReader] = {}

    def sent(self, conn: int, data: bytes) -> None:
        """The broker has sent a request; one at a time is written."""
        if len(data) < _REQUEST.size:
            return
        _, key, version, correlation_id = _REQUEST.unpack_from(data)
        if key == FETCH:
            self._asked[conn] = version, correlation_id
            self._readers.setdefault(conn, FrameReader())

    def received(self, conn: int, data: bytes) -> None:
        """The broker has received bytes."""
        reader = self._readers.get(conn)
        if reader is None:
            return
        for frame in reader.feed(data):
            version, correlation_id = self._asked[conn]
            if len(frame) > EMPTY_MAX and _RESPONSE.unpack_from(frame)[0] == correlation_id:
                self._look(decode_response(FETCH, version, frame)[1])

    def closed(self, conn: int) -> None:
        """A connection is gone."""
        self._readers.pop(conn, None)
        self._asked.pop(conn, None)

    def _look(self, answer: m.FetchResponse) -> None:
        for topic in answer.responses:
            for partition in topic.partitions:
                leader = partition.current_leader
                self._marked(partition.high_watermark, leader.leader_id, leader.leader_epoch)
                for batch in decode_batches(partition.records or b"", whole_only=False):
                    for offset, (_, value) in enumerate(batch.records, batch.base_offset):
                        mark = partition.high_watermark
                        self._fetched(offset, batch.leader_epoch, value, mark)


LISTENER: Final = "PLAINTEXT"
LOOPBACK: Final = bytes((127, 0, 0, 1))
PRINCIPAL: Final = b"\x00\x00\x05User\x0aANONYMOUS\x00\x00"
FAILED: Final = "a request failed with an internal error"
"""The event of the log line about a request whose handler raised."""
FORGOTTEN: Final = "heartbeat refused: STALE_BROKER_EPOCH"
CLIENT_MS: Final = 3 * REQUEST_MS
"""How long clients wait: longer than a broker, which answers them."""
EXCUSED: Final = ("registration in ZooKeeper: /brokers/ids/", "metadata.version ")
"""How the reason begins for which a broker may end by itself: its id is taken for a while, or a
level is finalised that its release does not support."""


class BrokerEyes(Protocol):
    """Takes what a broker receives and does."""

    def control_request_received(self, broker: SimulatedBroker, request: ControlRequest) -> None:
        """The broker has received a control request."""

    def fetched(self, offset: int, leader_epoch: int, value: bytes, high_watermark: int) -> None:
        """The broker fetched a record of the metadata log, with the high watermark."""

    def marked(self, high_watermark: int, leader_id: int, leader_epoch: int) -> None:
        """The broker fetched the high watermark, and who leads."""

    def refused(self, broker: SimulatedBroker, opener: str) -> None:
        """It has closed a connection because of what came on it; ``opener`` had opened it."""

    def granted(self, broker: SimulatedBroker) -> None:
        """A change of an ISR that it had asked for was granted."""

    def passed_on(self, asked: BrokerAsked) -> None:
        """A client has an answer of it, or has none and gets none."""

    def forgotten(self, broker: SimulatedBroker) -> None:
        """The controller does not know its registration any more."""

    def ended(self, broker: SimulatedBroker, exit_code: int) -> None:
        """Its process has ended by itself."""


class BrokerAsked:
    """A request of a client through a broker.

    ``waited_ms``: from its arrival at the broker until the answer left, None if none did.
    ``repeated``: the broker has connected to a controller meanwhile, so that it may have asked
    more than once.
    """

    __slots__ = ("answer", "broker", "message", "repeated", "waited_ms")

    def __init__(self, broker: SimulatedBroker, message: Any) -> None:
        self.broker = broker
        self.message = message
        self.answer: object | None = None
        self.waited_ms: int | None = None
        self.repeated = False


class SimulatedBroker:
    """One life of a broker.

    Args:
        broker_id: its id.
        life: how many there were before, and this one.
        config: of the broker.
        images: of the cluster, shared by its brokers.
        scheduler: the clock.
        network: where it listens.
        rng: all its draws.
        eyes: takes what the broker receives and does.
    """

    def __init__(  # noqa: PLR0917  # its identity, and what it runs in
        self,
        broker_id: int,
        life: int,
        config: BrokerConfig,
        images: LogImages,
        scheduler: Scheduler,
        network: Network,
        rng: Random,
        eyes: BrokerEyes,
    ) -> None:
        self.id = broker_id
        self.name = f"{host_of(broker_id)}#{life}"
        self.alive = True
        self.stopping = False
        self._scheduler = scheduler
        self._network = network
        self._eyes = eyes
        self._turn_ms: int | None = None
        self._tap = FetchTap(eyes.fetched, eyes.marked)
        self._dials = 0
        """Connections to a controller so far."""
        self._arrived_ms: dict[int, int] = {}
        """By connection of a client: when the request came that is not answered yet."""
        self._waited_ms: dict[int, int] = {}
        self._granted = 0
        self._refused = 0
        self._openers: dict[int, str] = {}
        """Name of the party that opened each accepted connection."""
        self._from = ""
        """Name of the process that opened the connection of the newest bytes."""
        self.known_us: int | None = None
        """When ZooKeeper had its registration: from then on controllers list it to brokers."""
        self.known: KnownByBroker = (
            KnownInZooKeeperMode(config, network, rng)
            if config.zookeeper
            else KnownInKRaftMode(config, images, network, rng)
        )
        """What it knows, by its mode."""
        around = BrokerSurroundings(network.new_conn, rng, lambda: scheduler.now_ns)
        self._node = BrokerNode(config, self.known.side, around)
        self._controllers = frozenset((one.host, one.port) for one in config.bootstrap)
        self._direct = LeaderCaller(
            f"{self.name}/direct",
            sorted(self._controllers),
            lambda: self.known.leader,
            scheduler,
            network,
        )
        self._client = Caller(
            f"client of {self.name}", address_of(broker_id), CLIENT_MS, scheduler, network
        )

    # ---------------------------------------------------------------- what it knows
    @property
    def epoch(self) -> int:
        """The epoch of its registration with the quorum; -1 before it has one."""
        return self.known.epoch

    @property
    def machine(self) -> BrokerNode:
        """The product's own."""
        return self._node

    @property
    def in_kraft_mode(self) -> bool:
        """Its mode."""
        return self.known.side.mode == "kraft"

    @property
    def replicas(self) -> HostedReplicas:
        """The partitions that it hosts."""
        return self.known.replicas

    # ---------------------------------------------------------------- its process
    def start(self) -> None:
        """Listen, and register where its mode says."""
        self._network.listen(address_of(self.id), self)
        self._after(self._node.start(self._scheduler.now_ms))

    def shut_down(self) -> None:
        """SIGTERM: a controlled shutdown; a second one ends it at once."""
        self.stopping = True
        if self.alive:
            self._after(self._node.shutdown(self._scheduler.now_ms))

    def die(self) -> None:
        """SIGKILL: its connections close, and no client gets an answer any more."""
        self.alive = False
        self._network.abandon(self)
        self._direct.end()
        self._client.end()

    # ---------------------------------------------------------------- its clients
    def ask(self, message: object, version: int, on_answer: OnAnswer) -> None:
        """Ask the controller as a broker does, past this one's own requests."""
        self._direct.ask(message, version, on_answer)

    def ask_as_client(
        self, message: object, version: int, on_answer: Callable[[BrokerAsked], None]
    ) -> None:
        """Ask this broker as a client does, which passes on to the controller what it must."""
        asked, dials = BrokerAsked(self, message), self._dials

        def answered(answer: object | None) -> None:
            conn = self._client.conn
            asked.answer = answer
            asked.waited_ms = None if conn is None else self._waited_ms.get(conn)
            asked.repeated = self._dials > dials
            self._eyes.passed_on(asked)
            on_answer(asked)

        self._client.ask(message, version, answered)

    def hold_back(self, key: Key, behind: Iterable[int]) -> None:
        """Of the followers of a partition that it leads these fall behind, the others catch up."""
        now_ms, behind = self._scheduler.now_ms, set(behind)
        for follower in sorted(self.replicas.held_back(key) - behind):
            self.replicas.let_go(key, follower, now_ms)
        for follower in sorted(behind):
            self.replicas.hold_back(key, follower, now_ms)
        if self.alive:
            self._after(self._node.step([], now_ms))

    # ---------------------------------------------------------------- a network party
    def accepted(self, conn: int) -> None:
        """A controller or a client connected."""
        self._openers[conn] = self._network.opener(conn)
        self._take(Accepted(conn, LISTENER, LOOPBACK))

    def connected(self, conn: int) -> None:
        """A controller or ZooKeeper accepted."""
        self._take(Connected(conn))

    def received(self, conn: int, data: bytes) -> None:
        """A request, or an answer."""
        if not self.alive:
            return
        self._from = self._openers.get(conn, "")
        self._tap.received(conn, data)
        self._arrived_ms.setdefault(conn, self._scheduler.now_ms)
        self._take(Received(conn, data))

    def closed(self, conn: int, why: str) -> None:
        """A connection is gone."""
        self._forget(conn)
        self._take(Closed(conn, why))

    # ---------------------------------------------------------------- the shell
    def _take(self, event: Event) -> None:
        if self.alive:
            self._after(self._node.step([event], self._scheduler.now_ms))

    def _after(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._perform(effect)
        if not self.alive:
            return
        deadline_ms = self._node.deadline_ms
        if deadline_ms is not None and (self._turn_ms is None or deadline_ms < self._turn_ms):
            self._turn_ms = deadline_ms
            self._scheduler.at_ms(deadline_ms, lambda: self._turn(deadline_ms))
        self._look()

    def _turn(self, at_ms: int) -> None:
        if self._turn_ms == at_ms:
            self._turn_ms = None
            if self.alive:
                self._after(self._node.step([], self._scheduler.now_ms))

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send(conn, data):
                self._tap.sent(conn, data)
                came_ms = self._arrived_ms.pop(conn, None)
                if came_ms is not None:
                    self._waited_ms[conn] = self._scheduler.now_ms - came_ms
                self._network.send(self, conn, data)
            case Connect(conn, host, port):
                self._dials += (host, port) in self._controllers
                self._network.connect(self, conn, (host, port))
            case Close(conn):
                self._forget(conn)
                self._network.close(self, conn)
            case Log(level, event, fields):
                if not listed(level, event):
                    raise Violated("log-lines-listed", f"{self.name}: {effect}")
                self._logged(event, fields)
            case Halt(exit_code, why):
                self._halted(exit_code, why)
            case _:
                raise TypeError(f"a broker does not {effect!r}")

    def _forget(self, conn: int) -> None:
        self._tap.closed(conn)
        self._openers.pop(conn, None)
        self._arrived_ms.pop(conn, None)
        self._waited_ms.pop(conn, None)

    # ---------------------------------------------------------------- its log lines and requests
    def _logged(self, event: str, fields: dict[str, object]) -> None:
        if event == "registered":
            self._scheduler.add_line(self.name, f"registered with epoch {fields['broker_epoch']}")
        elif event == FAILED:
            raise Violated("handlers-cope", f"{self.name}: {fields}")
        elif fields.get("why") == FORGOTTEN:
            self._eyes.forgotten(self)

    def _halted(self, exit_code: int, why: str) -> None:
        self.die()
        self._scheduler.add_line(self.name, f"ended with {exit_code}: {why}")
        if "log cannot be applied" in why:
            raise Violated("served-is-durable", f"{self.name}: {why}")
        if not self.stopping and not why.startswith(EXCUSED):
            raise Violated("keeps-running", f"{self.name} ended with {exit_code}: {why}")
        self._eyes.ended(self, exit_code)

    def _look(self) -> None:
        """Show what came with this step."""
        refused = self._node.connections.refused_total
        if refused != self._refused:
            self._refused = refused
            self._eyes.refused(self, self._from)
        for request, response in self.known.take_control_requests():
            self._eyes.control_request_received(self, request)
            if isinstance(response, m.LeaderAndIsrResponse) and _another_topic(response):
                what = f"{self.name} hosts another topic of that name"
                raise Violated("told-in-order", what)
        counts = self.known.counts
        granted = counts.shrinks + counts.expands
        if granted != self._granted:
            self._granted = granted
            self._eyes.granted(self)


def _another_topic(response: m.LeaderAndIsrResponse) -> bool:
    return any(
        one.error_code == ErrorCode.INCONSISTENT_TOPIC_ID
        for topic in response.topics
        for one in topic.partition_errors
    )
