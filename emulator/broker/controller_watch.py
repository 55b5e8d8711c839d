"""Who holds ``/controller``: a ZooKeeper-mode broker, a KRaft controller, or nobody.

A broker learns from its controller whom to serve (``view``); this only tells operators what
ZooKeeper says. Source: ControllerChangeHandler, ControllerZNode, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from emulator.migration.zk_tree import controller
from emulator.migration.zk_tree.controller import ControllerZnode
from emulator.migration.zk_tree.errors import ZnodeError
from emulator.seam import Effect, Log
from emulator.zookeeper.errors import ZkCode, code_name
from emulator.zookeeper.ops import (
    Exists,
    GetData,
    NodeData,
    WatchFired,
    ZkFailed,
    ZkLost,
    ZkOutcome,
    ZkRequest,
    ZkResult,
)


class WatchStep(Enum):
    """What was asked of ZooKeeper."""

    READ = auto()  # /controller, with a watch
    AWAIT = auto()  # the creation of /controller
    READ_EPOCH = auto()


class ControllerWatch:
    """See the module's docstring.

    Args:
        submit: sends a request; its outcome comes to :meth:`take` with the same step.
    """

    def __init__(self, submit: Callable[[WatchStep, ZkRequest], None]) -> None:
        self.holder: ControllerZnode | None = None
        """Who holds ``/controller``; None: nobody, or nothing readable."""
        self.epoch: int | None = None
        """``/controller_epoch`` when the holder was read; None: absent or not read."""
        self._submit = submit
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
        """Read, and be told of the next change."""
        self._submit(WatchStep.READ, GetData(controller.PATH, watch=True))
        self._submit(WatchStep.READ_EPOCH, GetData(controller.EPOCH_PATH))

    def fired(self, fired: WatchFired) -> None:
        """A watch was triggered."""
        if fired.path == controller.PATH:
            self.look()

    def take(self, step: WatchStep, outcome: ZkOutcome) -> None:
        """Take the outcome of a request; what was lost is read again after the next connection."""
        if isinstance(outcome, ZkLost):
            return
        if step is WatchStep.READ_EPOCH:
            self._take_epoch(outcome)
        elif isinstance(outcome, ZkResult):
            if step is WatchStep.AWAIT:
                # It was created between the two requests.
                self.look()
            else:
                assert isinstance(outcome.value, NodeData)
                self._found(outcome.value.data)
        elif outcome.code == ZkCode.NO_NODE:
            if step is WatchStep.READ:
                self._is(None)
                self._submit(WatchStep.AWAIT, Exists(controller.PATH, watch=True))
        else:
            self._unreadable(code_name(outcome.code))

    def _found(self, data: bytes | None) -> None:
        try:
            self._is(controller.parse(data))
        except ZnodeError as error:
            self._unreadable(str(error))

    def _take_epoch(self, outcome: ZkResult | ZkFailed) -> None:
        self.epoch = None
        if isinstance(outcome, ZkResult) and isinstance(outcome.value, NodeData):
            try:
                self.epoch = controller.parse_epoch(outcome.value.data)
            except ZnodeError as error:
                self._effects.append(Log("warning", "controller epoch", {"why": str(error)}))

    def _unreadable(self, why: str) -> None:
        self.holder = None
        self._effects.append(Log("warning", "controller in zookeeper unreadable", {"why": why}))

    def _is(self, holder: ControllerZnode | None) -> None:
        if holder == self.holder:
            return
        self.holder = holder
        fields: dict[str, object] = {"broker_id": holder.broker_id if holder else -1}
        if holder is None:
            fields["note"] = "this broker never becomes a ZooKeeper controller"
        elif self.kraft:
            fields["kraft_epoch"] = holder.kraft_epoch
        self._effects.append(Log("info", "controller in zookeeper", fields))
