"""``/feature``: the finalised features of a cluster in ZooKeeper mode.

The ZooKeeper controller writes it; a migration neither reads nor changes it. Source:
FeatureZNode, FinalizedFeatureChangeListener, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from emulator.broker.watched_znode import Submit, WatchedZnode
from emulator.seam import Effect, Log
from emulator.znodes.tree import ZnodeError
from emulator.znodes.znode_json import decode
from emulator.zookeeper.ops import NodeData, WatchFired

PATH: Final = "/feature"
NO_EPOCH: Final = -1
_ENABLED: Final = 1


class _LevelJson(msgspec.Struct):
    max_version_level: int


class _FeatureJson(msgspec.Struct):
    version: int
    status: int
    features: dict[str, _LevelJson] = {}


class FeatureWatch:
    """See the module's docstring.

    Args:
        submit: sends a request.
    """

    def __init__(self, submit: Submit) -> None:
        self.epoch = NO_EPOCH
        """Version of the znode; -1 if it is absent, disabled, or cannot be read."""
        self.levels: Mapping[str, int] = {}
        self._znode = WatchedZnode(PATH, submit, self._changed, self._unreadable)
        self._effects: list[Effect] = []

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
        self.epoch, self.levels = NO_EPOCH, {}
        if node is None:
            return
        try:
            found = decode(PATH, node.data, _FeatureJson)
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
