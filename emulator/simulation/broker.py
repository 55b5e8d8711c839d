"""A broker in the simulated cluster: its machine on the simulated network, and its znode.

What it sees it is asked to judge: a controller that forgets a registration, tells it out of order,
or serves what must be taken back, breaks an invariant.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

from emulator.broker.stand_in.machine import BrokerMachine
from emulator.broker.stand_in.notices import (
    BrokerNotice,
    ClientAnswered,
    Diverged,
    LifecycleRefused,
    RecordFetched,
    RegisteredAs,
    SentNonsense,
    ToldByController,
)
from emulator.broker.stand_in.observer import FollowedLog
from emulator.broker.stand_in.settings import BrokerListener, BrokerPace, BrokerSettings
from emulator.broker.view import View
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
from emulator.simulation.network import Address, Network
from emulator.simulation.scheduler import Scheduler
from emulator.simulation.violation import Violated
from emulator.simulation.zookeeper_tree import ServerTree
from emulator.zookeeper.ops import EPHEMERAL, Create
from wire import messages as m
from wire.errors import ErrorCode

PORT: Final = 9092
LISTENER: Final = "PLAINTEXT"
LOOPBACK: Final = bytes((127, 0, 0, 1))
SESSION_BASE: Final = 1_000_000
PRINCIPAL: Final = b"\x00\x00\x05User\x0aANONYMOUS\x00\x00"
METADATA_VERSIONS: Final = (1, 25)
PACE: Final = BrokerPace(
    heartbeat_ms=700,
    hasty_ms=100,
    register_ms=100,
    retry_ms=50,
    connect_ms=10_000,
    reply_ms=8_000,
)

OnAnswer: TypeAlias = Callable[[object | None], None]
"""Takes the response; None when nobody will ever know what became of the request."""


def host_of(broker_id: int) -> str:
    """Where a broker listens."""
    return f"broker-{broker_id}"


class SimulatedBroker:
    """One life of a broker.

    ``told`` is called with every control request; ``fetched`` with every record of the metadata
    log; ``forgotten`` when the controller does not know its registration any more.
    """

    def __init__(  # noqa: PLR0917  # who it is, and what it runs in
        self,
        broker_id: int,
        life: int,
        cluster_id: str,
        controller: Address,
        log: FollowedLog,
        tree: ServerTree,
        scheduler: Scheduler,
        network: Network,
        rng: Random,
        *,
        told: Callable[[SimulatedBroker, ControlRequest], None],
        fetched: Callable[[int, int, bytes], None],
        forgotten: Callable[[SimulatedBroker], None],
    ) -> None:
        self.id = broker_id
        self.name = f"{host_of(broker_id)}#{life}"
        self.alive = True
        self.session_id = SESSION_BASE + broker_id * 1_000 + life
        self._tree = tree
        self._scheduler = scheduler
        self._network = network
        self._told = told
        self._fetched = fetched
        self._forgotten = forgotten
        self._turn_ms: int | None = None
        settings = BrokerSettings(
            broker_id=broker_id,
            cluster_id=cluster_id,
            incarnation_id=rng.randbytes(16),
            directory=(broker_id + 1_000).to_bytes(16, "big"),
            client_id=self.name,
            controller=controller,
            listener=BrokerListener(LISTENER, host_of(broker_id), PORT),
            metadata_versions=METADATA_VERSIONS,
            pace=PACE,
        )
        self._machine = BrokerMachine(settings, network.new_conn, log)

    @property
    def epoch(self) -> int:
        """Of its registration; -1 before it has one."""
        return self._machine.epoch

    @property
    def fenced(self) -> bool:
        """As the last heartbeat was answered."""
        return self._machine.lifecycle.fenced

    @property
    def view(self) -> View:
        """What it was told."""
        return self._machine.view

    def start(self) -> None:
        """Listen, appear in ZooKeeper, follow the log, register."""
        self._network.listen((host_of(self.id), PORT), self)
        self._tree.write(
            Create(f"/brokers/ids/{self.id}", znode(self.id), flags=EPHEMERAL),
            self.session_id,
            self._scheduler.now_ms,
        )
        self._after(self._machine.start(self._scheduler.now_ms))

    def die(self) -> None:
        """Killed; the znode goes when its session does."""
        self.alive = False
        self._network.abandon(self)
        self._machine.shutdown(self._scheduler.now_ms)
        self._notice()

    def ask(self, message: object, version: int, on_answer: OnAnswer) -> None:
        """Send a request to the controller on behalf of a client or of itself."""
        if not self.alive:
            on_answer(None)
            return
        self._machine.ask(message, on_answer, version)
        self._step([])

    # ---------------------------------------------------------------- a network party
    def accepted(self, conn: int) -> None:
        """The controller connected."""
        self._step([Accepted(conn, LISTENER, LOOPBACK)])

    def connected(self, conn: int) -> None:
        """The controller accepted."""
        self._step([Connected(conn)])

    def received(self, conn: int, data: bytes) -> None:
        """A control request, or an answer."""
        self._step([Received(conn, data)])

    def closed(self, conn: int, why: str) -> None:
        """A connection is gone."""
        self._step([Closed(conn, why)])

    # ---------------------------------------------------------------- the shell
    def _step(self, events: list[Event]) -> None:
        if self.alive:
            self._after(self._machine.step(events, self._scheduler.now_ms))

    def _after(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._perform(effect)
        deadline_ms = self._machine.deadline_ms
        if deadline_ms is not None and (self._turn_ms is None or deadline_ms < self._turn_ms):
            self._turn_ms = deadline_ms
            self._scheduler.at_ms(deadline_ms, lambda: self._turn(deadline_ms))
        self._notice()

    def _turn(self, at_ms: int) -> None:
        if self._turn_ms == at_ms:
            self._turn_ms = None
            self._step([])

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send(conn, data):
                self._network.send(self, conn, data)
            case Connect(conn, host, port):
                self._network.connect(self, conn, (host, port))
            case Close(conn):
                self._network.close(self, conn)
            case Log() | Halt():
                """What matters of it is a notice."""
            case _:
                raise TypeError(f"a broker does not {effect!r}")

    def _notice(self) -> None:
        for notice in self._machine.take_notices():
            self._judge(notice)

    def _judge(self, notice: BrokerNotice) -> None:
        match notice:
            case ToldByController(request, response):
                self._told(self, request)
                if isinstance(response, m.LeaderAndIsrResponse) and response.topics:
                    what = f"{self.name} hosts another topic of that name"
                    raise Violated("told-in-order", what)
            case SentNonsense(why):
                raise Violated("told-in-order", f"{self.name} was sent nonsense: {why}")
            case RegisteredAs(epoch):
                self._scheduler.tell(self.name, f"registered with epoch {epoch}")
            case LifecycleRefused("heartbeat", ErrorCode.STALE_BROKER_EPOCH):
                self._forgotten(self)
            case RecordFetched(offset, leader_epoch, value):
                self._fetched(offset, leader_epoch, value)
            case Diverged(end_offset, epoch, to_offset):
                where = f"epoch {epoch} at {to_offset}"
                what = f"{self.name} at offset {end_offset} must go back to {where}"
                raise Violated("served-is-durable", what)
            case ClientAnswered(on_answer, message):
                on_answer(message)
            case _:
                """A connection that is lost, or a refusal that a broker gets over."""


def znode(broker_id: int) -> bytes:
    """What a broker writes to ``/brokers/ids``."""
    return json.dumps(
        {
            "version": 5,
            "host": host_of(broker_id),
            "port": PORT,
            "endpoints": [f"PLAINTEXT://{host_of(broker_id)}:{PORT}"],
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "jmx_port": -1,
            "timestamp": "1",
            "features": {},
        },
        separators=(",", ":"),
    ).encode()
