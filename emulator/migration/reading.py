"""One reading of the whole tree, over the ZooKeeper client."""

from __future__ import annotations

from collections.abc import Iterable

from emulator.migration.rounds import Zk
from emulator.migration.taking_over.preconditions import Reason, Why
from emulator.seam import Effect, Log
from emulator.znodes.reader import Tree, TreeReader
from emulator.zookeeper.errors import code_name
from emulator.zookeeper.ops import ZkFailed, ZkLost, ZkOutcome, ZkResult


class Reading:
    """Reads the tree; ends with ``tree``, or ``failure`` (a znode cannot be read).

    ``lost``: the connection was lost; :meth:`resume` goes on in a new session with what was not
    answered. What was read before holds as long as no controller has written since, which the owner
    shows: by the claim, or else by the age.

    Args:
        zk: submits requests.
        below: see ``TreeReader``.
    """

    def __init__(self, zk: Zk, below: Iterable[str] = ()) -> None:
        self._zk = zk
        self._reader = TreeReader(below=below, limit=zk.limit)
        self.lost = False
        self.failure: Reason | None = None
        self.began_ms = 0
        self.interruptions = 0
        """Connections lost while it read."""

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
        self.began_ms = now_ms
        return self._ask(now_ms)

    def resume(self, now_ms: int) -> list[Effect]:
        """Go on after a lost connection, in a new session."""
        assert self.lost
        self.lost = False
        self.interruptions += 1
        self._reader.again()
        fields: dict[str, object] = {
            "znodes": len(self._reader.tree.nodes),
            "interruptions": self.interruptions,
        }
        return [Log("info", "reading the tree goes on", fields), *self._ask(now_ms)]

    def outcome(self, outcome: ZkOutcome, now_ms: int) -> list[Effect]:
        """Take one answer and send the next requests."""
        if self.lost:
            return []  # of a request in flight, which is sent again
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
