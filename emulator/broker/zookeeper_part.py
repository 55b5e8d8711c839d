"""A broker's session with ZooKeeper, and all that uses it: a ``Part`` of the broker.

The session is kept over lost connections, as the broker's znode is ephemeral. Source: KafkaServer,
KafkaZkClient, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping

from emulator.broker.controller_watch import ControllerWatch
from emulator.broker.feature_watch import FeatureWatch
from emulator.broker.watched_znode import Then
from emulator.broker.znode import BrokerZnode, ZnodeOf
from emulator.broker.zookeeper_mirror import ZooKeeperMirror
from emulator.seam import Closed, Connected, Effect, Event, Log, Received, ReplaceFile, earliest
from emulator.zookeeper.client import ZkClient
from emulator.zookeeper.ops import ZkRequest
from emulator.zookeeper.states import ZkState


class ZooKeeperPart:
    """See the module's docstring.

    Args:
        zk: a client that keeps its session.
        about: the broker that registers.
    """

    def __init__(self, zk: ZkClient, about: ZnodeOf) -> None:
        self.zk = zk
        self.znode = BrokerZnode(about, self._submit)
        self.controller = ControllerWatch(self._submit)
        self.features = FeatureWatch(self._submit)
        self.mirror = ZooKeeperMirror(self._submit)
        self._watches = (self.controller, self.features, self.mirror)
        self._now_ms = 0
        self._generation = 0
        self._warned: set[str] = set()
        self._effects: list[Effect] = []

    @property
    def deadline_ms(self) -> int | None:
        """When :meth:`tick` has something to do."""
        times = (self.zk.deadline_ms, self.znode.deadline_ms)
        return earliest(times)

    @property
    def gone(self) -> bool:
        """Whether the session has ended by our :meth:`leave`."""
        return self.zk.state is ZkState.CLOSED

    def start(self, now_ms: int) -> None:
        """Connect."""
        self._now_ms = now_ms
        self._effects += self.zk.start(now_ms)

    def handle(self, event: Event, now_ms: int) -> None:
        """Take an event of our connection; others are ignored."""
        if isinstance(event, Received | Closed | Connected) and self.zk.owns(event.conn):
            self._now_ms = now_ms
            self._effects += self.zk.handle(event, now_ms)
            self._exchange(now_ms)

    def tick(self, now_ms: int) -> None:
        """Do what is due."""
        self._now_ms = now_ms
        due_ms = self.zk.deadline_ms
        if due_ms is not None and due_ms <= now_ms:
            self._effects += self.zk.tick(now_ms)
        self.znode.tick(now_ms)
        self._exchange(now_ms)

    def effects(self, now_ms: int) -> list[Effect]:  # noqa: ARG002  # of the protocol
        """All effects since the last call."""
        effects, self._effects = self._effects, []
        for one in (self.znode, *self._watches):
            effects += one.take_effects()
        return effects

    def write(self, files: Mapping[str, bytes]) -> None:
        """Write files of the broker's folder: path -> content."""
        self._effects += [ReplaceFile(path, data) for path, data in files.items()]

    def warn(self, texts: list[str]) -> None:
        """Log what cannot be read in ZooKeeper; each text once while it stays true."""
        new = [text for text in texts if text not in self._warned]
        self._warned = set(texts)
        self._effects += [Log("warning", "znode left out", {"why": text}) for text in new]

    def topics_changed(self, gone: list[str], new: list[str]) -> None:
        """Topics were deleted, then others created; what is lost is read with the next session."""
        if gone or new:
            self.mirror.topics_changed(gone, new)

    def leave(self, now_ms: int) -> None:
        """End the session: the znode goes at once; :attr:`gone` follows."""
        self._effects += self.zk.close(now_ms)

    def close(self) -> None:
        """End the session without waiting for the answer."""
        self.leave(self._now_ms)

    def _submit(self, then: Then, request: ZkRequest) -> None:
        self._effects += self.zk.submit(then, request, self._now_ms)

    def _exchange(self, now_ms: int) -> None:
        """Hand out outcomes and watches; a new connection begins with the registration."""
        while outcomes := self.zk.take_results():
            for outcome in outcomes:
                then: Then = outcome.tag  # type: ignore[assignment]  # what _submit gave
                then(outcome, now_ms)
        if self.zk.connected and self.zk.generation != self._generation:
            self._generation = self.zk.generation
            self.znode.connected(self.zk.session_id, now_ms)
            for watch in self._watches:
                watch.look()
        for fired in self.zk.take_fired():
            for watch in self._watches:
                watch.fired(fired)
