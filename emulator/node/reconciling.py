"""A comparison of ZooKeeper with the metadata that an operator asks a running node for."""

from __future__ import annotations

from typing import Any, Final

from emulator.migration.dual_write.comparison import Comparison, why_not
from emulator.node.machine import Node

UNDER_WAY: Final = "another comparison is under way"


class RefusedComparisonError(Exception):
    """The node cannot compare now; the text says why.

    ``leader_id``: who leads instead, if that is known.
    """

    def __init__(self, why: str, leader_id: int | None = None) -> None:
        super().__init__(why)
        self.leader_id = leader_id


class Reconciling:
    """Asks the write-behind of a node; one comparison at a time.

    Args:
        node: with a migration or without.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._last: Comparison | None = None

    def ask(self, *, dry_run: bool) -> Comparison:
        """Begin a comparison; it goes on in the node's next steps.

        Args:
            dry_run: write nothing.

        Raises:
            RefusedComparisonError: another node leads, or there is nothing to compare now.
        """
        node, driver = self._node, self._node.driver
        if driver is None:
            raise RefusedComparisonError("this node has no migration configured")
        if not node.raft.is_leader:
            leader = node.raft.leader_id
            who = f"controller {leader} leads" if leader >= 0 else "no controller leads now"
            raise RefusedComparisonError(
                f"this node does not lead: {who}", leader if leader >= 0 else None
            )
        behind = driver.write_behind
        why = node.role.silent_because or why_not(
            behind.mode, reconciled=behind.confirmations.reconciled
        )
        current = behind.comparing.now
        if not why and current is not None and not current.ended:
            why = UNDER_WAY
        if why:
            raise RefusedComparisonError(why)
        self._last = Comparison(dry_run=dry_run)
        behind.comparing.ask(self._last)
        return self._last

    def status(self) -> dict[str, Any]:
        """How far the last one is, and what it has found; paths alone, as values may be secret."""
        one, driver = self._last, self._node.driver
        if one is None or driver is None:
            return {"state": "none"}
        poison = {each.path: each.cause for each in driver.write_behind.poison.znodes}
        found = [{"path": each.path, "kind": each.kind} for each in one.differences]
        return {
            "state": one.progress.value,
            "why": one.why,
            "dry_run": one.dry_run,
            "offset": one.offset,
            "counts": {kind: count for kind, count in sorted(one.counts.items()) if count},
            "differences": found,
            "refused": [{"path": path, "cause": poison[path]} for path in sorted(poison)],
        }
