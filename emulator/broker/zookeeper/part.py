"""A broker's session with ZooKeeper, and all that uses it: a ``BrokerPart`` of the broker.

The session is kept over lost connections, as the broker's znode is ephemeral. Source: KafkaServer,
KafkaZkClient, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from emulator.broker.zookeeper.mirror import ZooKeeperMirror
from emulator.broker.zookeeper.watched_znode import Submit, Then, WatchedZnode
from emulator.broker.zookeeper.znode import BrokerZnode, ZnodeOf
from emulator.seam import Closed, Connected, Effect, Event, Log, Received, ReplaceFile, earliest
from emulator.znodes import controller
from emulator.znodes.controller import ControllerZnode
from emulator.znodes.tree import ZnodeError
from emulator.znodes.znode_json import decode
from emulator.zookeeper.client import ZkClient
from emulator.zookeeper.ops import GetData, NodeData, WatchFired, ZkOutcome, ZkRequest, ZkResult
from emulator.zookeeper.states import ZkState

FEATURE: Final = "/feature"
NO_EPOCH: Final = -1
_ENABLED: Final = 1


class _LevelJson(msgspec.Struct):
    max_version_level: int


class _FeatureJson(msgspec.Struct):
    version: int
    status: int
    features: dict[str, _LevelJson] = {}


class _Watch:
    """One znode that is watched, and what is to be logged of it."""

    _znode: WatchedZnode
    _effects: list[Effect]

    def take_effects(self) -> list[Effect]:
        """Effects since the last call."""
        effects, self._effects = self._effects, []
        return effects

    def look(self) -> None:
        """Read: after every new connection."""
        self._znode.look()

    def fired(self, fired: WatchFired) -> None:
        """A watch was triggered."""
        self._znode.fired(fired)


class FeatureWatch(_Watch):
    """``/feature``: the finalised features of a cluster in ZooKeeper mode.

    The ZooKeeper controller writes it; a migration neither reads nor changes it. Source:
    FeatureZNode, FinalizedFeatureChangeListener, Kafka 3.9.

    Args:
        submit: sends a request.
    """

    def __init__(self, submit: Submit) -> None:
        self.epoch = NO_EPOCH
        """Version of the znode; -1 if it is absent, disabled, or cannot be read."""
        self.levels: Mapping[str, int] = {}
        self._znode = WatchedZnode(FEATURE, submit, self._changed, self._unreadable)
        self._effects: list[Effect] = []

    def _changed(self, node: NodeData | None) -> None:
        self.epoch, self.levels = NO_EPOCH, {}
        if node is None:
            return
        try:
            found = decode(FEATURE, node.data, _FeatureJson)
        except ZnodeError as error:
            self._unreadable(str(error))
            return
        if found.status == _ENABLED:
            self.epoch = node.stat.version
            self.levels = {
                name: one.max_version_level
                for name, one in found.features.items()
                if one.max_version_level > 0
            }

    def _unreadable(self, why: str) -> None:
        self.epoch, self.levels = NO_EPOCH, {}
        self._effects.append(Log("warning", "cannot read /feature in zookeeper", {"why": why}))


class ControllerWatch(_Watch):
    """The holder of ``/controller``: a ZooKeeper-mode broker, a KRaft controller, or none.

    A broker learns from its controller whom to serve (``metadata_cache``); this only shows
    operators what ZooKeeper holds. Source: ControllerChangeHandler, ControllerZNode, Kafka 3.9.

    Args:
        submit: sends a request.
    """

    def __init__(self, submit: Submit) -> None:
        self.holder: ControllerZnode | None = None
        """The holder of ``/controller``; None: there is none, or it cannot be read."""
        self.epoch: int | None = None
        """``/controller_epoch`` when the holder was read; None: absent or not read."""
        self._logged = False
        """Whether the holder was logged; at first also that there is none."""
        self._submit = submit
        self._znode = WatchedZnode(controller.PATH, submit, self._changed, self._unreadable)
        self._effects: list[Effect] = []

    @property
    def kraft(self) -> bool:
        """Whether a KRaft controller holds it."""
        return self.holder is not None and self.holder.kraft_epoch != controller.NO_KRAFT_EPOCH

    def _changed(self, node: NodeData | None) -> None:
        self._submit(self._take_epoch, GetData(controller.EPOCH_PATH))
        try:
            self._is(None if node is None else controller.parse(node.data))
        except ZnodeError as error:
            self._unreadable(str(error))

    def _take_epoch(self, outcome: ZkOutcome, _now_ms: int) -> None:
        self.epoch = None
        if isinstance(outcome, ZkResult) and isinstance(outcome.value, NodeData):
            try:
                self.epoch = controller.parse_epoch(outcome.value.data)
            except ZnodeError as error:
                self._effects.append(Log("warning", "controller epoch", {"why": str(error)}))

    def _unreadable(self, why: str) -> None:
        self.holder = None
        self._effects.append(Log("warning", "cannot read /controller in zookeeper", {"why": why}))

    def _is(self, holder: ControllerZnode | None) -> None:
        if self._logged and holder == self.holder:
            return
        self._logged, self.holder = True, holder
        fields: dict[str, object] = {"broker_id": holder.broker_id if holder else -1}
        if holder is None:
            fields["note"] = "this broker never becomes a ZooKeeper controller"
        elif self.kraft:
            fields["kraft_epoch"] = holder.kraft_epoch
        self._effects.append(Log("info", "controller in zookeeper", fields))


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
