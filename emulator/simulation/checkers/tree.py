"""The content of ZooKeeper's tree, compared with the log."""

from __future__ import annotations

from emulator.simulation import tree_check
from emulator.simulation.checkers.base import CONTROLLER, EPOCH, MIGRATION, OWN, Checker
from emulator.simulation.committed import CommittedLog
from emulator.simulation.violation import ensure
from emulator.simulation.world import FINALISED, World
from emulator.simulation.world import MIGRATION as COPIED

CLAIMS = frozenset({CONTROLLER, EPOCH, MIGRATION, OWN})


class ShowsCommitted(Checker):
    """Invariant 1 (G06): a znode never shows what is not committed in the log of its writer.

    And none is removed but what that log has removed.
    """

    name = "zookeeper-shows-committed"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._present = {path for path in world.tree.nodes if tree_check.covered(path)}

    def set_back(self) -> None:
        """Znodes of the backup may be removed again, and others may come again."""
        self._present = {path for path in self.world.tree.nodes if tree_check.covered(path)}

    def served(self, changed: frozenset[str], client: str) -> None:
        """Look at what changed."""
        host = self.world.host_of(client)
        if host is not None and (host.never_writes or self.world.rolled_back):
            ours = {path for path in changed if tree_check.covered(path) or path in CLAIMS}
            ensure(not ours, self.name, f"{client}, whose log lacks them, changes {sorted(ours)}")
        log = self._log(client)
        offset = self.world.kraft_offset if MIGRATION in changed else -1
        ensure(offset < log.end_offset, self.name, f"{MIGRATION} covers {offset}")
        for path in changed:
            if tree_check.covered(path) and path not in self.world.foreign:
                self._look(path, log)

    def _log(self, client: str) -> CommittedLog:
        host = self.world.host_of(client)
        return self.world.committed if host is None else host.committed

    def _look(self, path: str, log: CommittedLog) -> None:
        node = self.world.tree.nodes.get(path)
        allowed = log.legit.get(path, set())
        if node is None:
            was_there = path in self._present
            self._present.discard(path)
            doomed = path.split("/")[3] in self.world.doomed if path.count("/") > 2 else False
            right = None in allowed or doomed or not was_there
            ensure(right, self.name, f"{path} is removed, which nobody asked for")
            return
        self._present.add(path)
        means = tree_check.meaning(path, node.data)
        if means != self.world.before.get(path):
            ensure(means in allowed, self.name, f"{path} says {means}, never committed")


class TreeIsLog(Checker):
    """Invariant 2: the tree is what the log says at ``/migration``'s offset, at every unit's end.

    At the end it is what the whole log says.
    """

    name = "tree-is-image"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._closed = -1

    def set_back(self) -> None:
        """The tree equals the log at an earlier offset."""
        self._closed = self.world.numbers(OWN).get("offset", -1)

    def served(self, changed: frozenset[str], client: str) -> None:
        """Compare the whole tree when the offset has moved."""
        if OWN not in changed and MIGRATION not in changed:
            return
        state = self.world.numbers(OWN)
        offset = state.get("offset", -1)
        self._closed = min(self._closed, offset)
        if state.get("part") == 0 and offset > self._closed:
            self._closed = offset
            if self.world.covers_hole:
                return
            host = self.world.host_of(client) or self.world.active
            found = self._difference(host.committed, self._closed)
            ensure(not found, self.name, f"offset {self._closed}: {found}")

    def unrest(self) -> str:
        """The tree equals the state at the newest record, and nothing is missing."""
        state, log = self.world.numbers(OWN), self.world.committed
        if state.get("part"):
            return f"{OWN} tells of work in progress: {state}"
        offset = self.world.kraft_offset
        if log.facts.migration_state == FINALISED:
            # The tree stays as it was at the last offset in ``/migration``.
            return self._difference(log, offset)
        if log.changed_records(offset, log.facts.offset):
            return f"{MIGRATION} covers {offset}, the log has changes after it"
        late = sorted(self.world.tree.nodes["/admin/delete_topics"].children)
        if late and log.facts.migration_state == COPIED:
            return f"ZooKeeper's controller would delete {late} after a rollback"
        return self._difference(log, log.facts.offset)

    def _difference(self, log: CommittedLog, offset: int) -> str:
        foreign = frozenset(self.world.foreign)
        found = tree_check.differences(self.world.tree.nodes, log.at(offset), foreign)
        return next(found, "")
