"""One znode of ZooKeeper that is read again whenever it changes.

Source: ZNodeChangeHandler, KafkaZkClient.registerZNodeChangeHandlerAndCheckExistence, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from emulator.zookeeper.errors import ZkCode, code_name
from emulator.zookeeper.ops import (
    Exists,
    GetData,
    NodeData,
    WatchFired,
    ZkLost,
    ZkOutcome,
    ZkRequest,
    ZkResult,
)

Then: TypeAlias = Callable[[ZkOutcome, int], None]
"""Takes the outcome of a request, and the time; it is the request's tag."""
Submit: TypeAlias = Callable[[Then, ZkRequest], None]


class WatchedZnode:
    """See the module's docstring.

    Args:
        path: of the znode.
        submit: sends a request.
        changed: takes what was read; None: the znode is absent.
        failed: takes the reason why it cannot be read; it is read again after the next connection.
    """

    def __init__(
        self,
        path: str,
        submit: Submit,
        changed: Callable[[NodeData | None], None],
        failed: Callable[[str], None],
    ) -> None:
        self._path = path
        self._submit = submit
        self._changed = changed
        self._failed = failed

    def look(self) -> None:
        """Read the znode and watch it for the next change: after every new connection."""
        self._submit(self._read, GetData(self._path, watch=True))

    def fired(self, fired: WatchFired) -> None:
        """A watch was triggered, of this znode or of another."""
        if fired.path == self._path:
            self.look()

    def _read(self, outcome: ZkOutcome, _now_ms: int) -> None:
        if isinstance(outcome, ZkLost):
            return
        if isinstance(outcome, ZkResult):
            assert isinstance(outcome.value, NodeData)
            self._changed(outcome.value)
        elif outcome.code == ZkCode.NO_NODE:
            self._changed(None)
            self._submit(self._awaited, Exists(self._path, watch=True))
        else:
            self._failed(code_name(outcome.code))

    def _awaited(self, outcome: ZkOutcome, _now_ms: int) -> None:
        if isinstance(outcome, ZkResult):
            # It was created between the two requests.
            self.look()
