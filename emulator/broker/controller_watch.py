"""The holder of ``/controller``: a ZooKeeper-mode broker, a KRaft controller, or none.

A broker learns from its controller whom to serve (``zk_metadata_cache``); this module only
shows operators what ZooKeeper holds. Source: ControllerChangeHandler, ControllerZNode, Kafka 3.9.
"""

from __future__ import annotations

from emulator.broker.watched_znode import Submit, WatchedZnode
from emulator.seam import Effect, Log
from emulator.znodes import controller
from emulator.znodes.controller import ControllerZnode
from emulator.znodes.tree import ZnodeError
from emulator.zookeeper.ops import GetData, NodeData, WatchFired, ZkOutcome, ZkResult


class ControllerWatch:
    """See the module's docstring.

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
