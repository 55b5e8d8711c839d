"""One reading of the whole tree, over the ZooKeeper client."""

from __future__ import annotations

from collections.abc import Iterable

from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.migration.zk import Zk
from emulator.migration.zk_tree.reader import Tree, TreeReader
from emulator.seam import Effect
from emulator.zookeeper.errors import code_name
from emulator.zookeeper.ops import ZkFailed, ZkLost, ZkOutcome, ZkResult


class Reading:
    """Reads the tree; ends with ``tree``, ``failure`` (a znode cannot be read), or ``lost``.

    Args:
        zk: submits requests.
        below: see ``TreeReader``.
    """

    def __init__(self, zk: Zk, below: Iterable[str] = ()) -> None:
        self._zk = zk
        self._reader = TreeReader(below=below, limit=zk.limit)
        self.lost = False
        self.failure: Reason | None = None

    @property
    def tree(self) -> Tree | None:
        """The tree once all of it has been read."""
        whole = self._reader.complete and self.failure is None and not self.lost
        return self._reader.tree if whole else None

    def owns(self, tag: object) -> bool:
        """Whether an outcome is for this reading."""
        return self._reader.owns(tag)

    def begin(self, now_ms: int) -> list[Effect]:
        """Send the first requests."""
        return self._ask(now_ms)

    def outcome(self, outcome: ZkOutcome, now_ms: int) -> list[Effect]:
        """Take one answer and send the next requests."""
        match outcome:
            case ZkResult():
                self._reader.outcome(outcome)
            case ZkFailed(code=code):
                text = f"reading the tree: ZooKeeper answers {code_name(code)}"
                self.failure = Reason(Why.UNREADABLE, "/", text)
                return []
            case ZkLost():
                self.lost = True
                return []
        for path, code in self._reader.tree.unreadable.items():
            text = f"{path}: ZooKeeper answers {code_name(code)}"
            self.failure = Reason(Why.UNREADABLE, path, text)
            return []
        return self._ask(now_ms)

    def _ask(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for tag, request in self._reader.requests():
            effects += self._zk.submit(tag, request, now_ms)
        return effects
