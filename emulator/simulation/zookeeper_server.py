"""The ZooKeeper model as a server on the simulated network."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from emulator.seam import Close, Effect, Send
from emulator.simulation.aftermath import What, Where
from emulator.simulation.network import Address, Network
from emulator.simulation.scheduler import MS, Scheduler
from emulator.simulation.zookeeper_answers import AnswerJudge
from emulator.simulation.zookeeper_watches import Backup, WatchedZooKeeper

ADDRESS: Address = ("zookeeper", 2181)
SERVICE_US = (100, 2 * MS)


class ZooKeeperServer:
    """Serves one request after the other; can be frozen (SIGSTOP), killed and started again.

    ``watch`` is called after each request served, with the name of its client; ``happened`` when
    a request is lost, is refused or comes again.
    """

    name = "zookeeper"

    def __init__(  # noqa: PLR0917  # what a server is, and what it runs in
        self,
        model: WatchedZooKeeper,
        scheduler: Scheduler,
        network: Network,
        rng: Random,
        watch: Callable[[str], None],
        happened: Callable[[What, Where], None],
    ) -> None:
        self.model = model
        self.frozen = False
        self._scheduler = scheduler
        self._network = network
        self._rng = rng
        self._watch = watch
        self._happened = happened
        self._judge = AnswerJudge(happened)
        self._waiting: list[Callable[[], None]] = []
        self._clients: dict[int, str] = {}
        self._owners: dict[int, str] = {}
        """The name of the client of each session."""
        self._serving = False
        self._expiry_ms: int | None = None
        self.swallow_replies = 0
        """So many replies to come are lost, with the connection they would have used."""
        network.listen(ADDRESS, self)

    # ---------------------------------------------------------------- a network party
    def accepted(self, conn: int) -> None:
        """A client connected; its system accepts even while the server is frozen."""
        self._clients[conn] = self._network.opener(conn)
        self._do(lambda: self.model.accepted(conn))

    def connected(self, conn: int) -> None:
        """Never happens: the server opens no connection."""
        raise AssertionError(conn)

    def received(self, conn: int, data: bytes) -> None:
        """A client's bytes."""
        self._do(lambda: self.model.received(conn, data, self._scheduler.now_ms))

    def closed(self, conn: int, why: str) -> None:
        """A client's connection is gone."""
        del why
        self._do(lambda: self.model.disconnected(conn))

    # ---------------------------------------------------------------- what faults do
    def freeze(self) -> None:
        """Stop serving; what arrives waits."""
        self.frozen = True
        self._scheduler.add_line(self.name, "frozen")

    def thaw(self) -> None:
        """Serve on; sessions whose time ran out meanwhile may live or not, as in the real one."""
        self.frozen = False
        self._scheduler.add_line(self.name, "thawed")
        if self._rng.random() < 0.5:
            self._perform(self.model.tick(self._scheduler.now_ms))
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()
        self._wake()

    def restart(self) -> None:
        """Kill and start again: what was received and not served is lost."""
        self._scheduler.add_line(self.name, "killed and started again")
        if self._waiting or self.model.pending_count:
            self._happened("lost", "zookeeper")
        self._waiting.clear()
        self._perform(self.model.restart(self._scheduler.now_ms))

    def restore(self, backup: Backup) -> None:
        """All servers begin again from a backup; what was received and not served is lost.

        Sessions of brokers are over. One that lived on from before its znode was made would leave a
        broker of Kafka without it until somebody restarts the broker.
        """
        self._scheduler.add_line(self.name, "restored from a backup")
        self._waiting.clear()
        self._happened("lost", "zookeeper")
        self._perform(self.model.restore(backup, self._scheduler.now_ms))
        for session_id in self.model.session_ids:
            if _is_broker(self._owners.get(session_id, "")):
                self._perform(self.model.expire(session_id))
        self.model.tree.changed.clear()
        self._wake()

    def expire_sessions(self, *, brokers: bool) -> None:
        """End every session; ``brokers``: also those of brokers."""
        for session_id in self.model.session_ids:
            if brokers or not _is_broker(self._owners.get(session_id, "")):
                self._scheduler.add_line(self.name, "session expired")
                self._perform(self.model.expire(session_id))

    def expire_sessions_of(self, client: str) -> None:
        """End the sessions of a client that is dead, as soon as the server runs."""

        def expire() -> None:
            for session_id in self.model.session_ids:
                if self._owners.get(session_id) == client:
                    self._perform(self.model.expire(session_id))

        self._do(expire)

    @property
    def has_request_of_a_controller(self) -> bool:
        """Whether a controller's request waits to be served."""
        conns = self.model.waiting_conns
        return any(not _is_broker(self._clients.get(conn, "")) for conn in conns)

    # ---------------------------------------------------------------- serving
    def _do(self, action: Callable[[], None]) -> None:
        if self.frozen:
            self._waiting.append(action)
            return
        action()
        self._wake()

    def _wake(self) -> None:
        if self.frozen:
            return
        if not self._serving and self.model.pending_count:
            self._serving = True
            self._scheduler.after(self._rng.randint(*SERVICE_US), self._serve)
        deadline_ms = self.model.deadline_ms
        if deadline_ms is not None and (self._expiry_ms is None or deadline_ms < self._expiry_ms):
            self._expiry_ms = deadline_ms
            self._scheduler.at_ms(deadline_ms, self._expire)

    def _serve(self) -> None:
        self._serving = False
        if self.frozen:
            return
        client = self._clients.get(self.model.next_conn, "")
        frame = self.model.next_frame
        effects = self.model.step(self._scheduler.now_ms)
        if not _is_broker(client):
            self._judge.judge(frame, effects)
        if self.model.session_served:
            self._owners.setdefault(self.model.session_served, client)
        self._perform(effects)
        self._watch(client)
        self._wake()

    def _expire(self) -> None:
        self._expiry_ms = None
        if not self.frozen:
            self._perform(self.model.tick(self._scheduler.now_ms))
        self._wake()

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(conn, _) if self.swallow_replies and not self._of_broker(conn):
                    self.swallow_replies -= 1
                    self._happened("lost", "zookeeper")
                    self._scheduler.add_line(self.name, "a reply is lost with its connection")
                    self.model.disconnected(conn)
                    self._network.close(self, conn)
                case Send(conn, data):
                    self._network.send(self, conn, data)
                case Close(conn):
                    self._network.close(self, conn)
                case _:
                    raise TypeError(f"unknown effect {effect!r}")

    def _of_broker(self, conn: int) -> bool:
        return _is_broker(self._clients.get(conn, ""))


def _is_broker(client: str) -> bool:
    return client.startswith("broker")
