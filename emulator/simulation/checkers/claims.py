"""What a process must have read in ZooKeeper: that its old session is over, and its claim."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.raft import layout
from emulator.seam import AppendFile, Effect
from emulator.simulation.checkers.base import EPOCH, Checker
from emulator.simulation.process import Process
from emulator.simulation.violation import ensure
from emulator.simulation.world import MIGRATION as COPIED
from emulator.simulation.world import World
from wire import records as r
from wire.batch import decode_batches
from wire.record_serde import decode_record


class OldSessionEnded(Checker):
    """No request of an earlier session is served once a later one of the same process has read.

    What was in doubt is judged by that read: whatever is applied afterwards was judged wrongly.
    Most such writes are refused by their versions; they are noticed here, applied or not.
    """

    name = "old-session-ended"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._sessions: dict[str, list[int]] = {}
        """The sessions of each process that have read, in this order."""

    def read(self, paths: frozenset[str], client: str) -> None:
        """Hold the session against those that have read."""
        session, known = self.world.zookeeper.model.session_served, self._sessions.get(client, [])
        ensure(session not in known[:-1], self.name, f"{client} has read in a later session")
        if paths and session and client and session not in known:
            self._sessions[client] = [*known, session]


class CopyIsClaimed(Checker):
    """U01: the log says that all is copied only if the claim stood after the last page was read."""

    name = "copy-is-claimed"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._claims: dict[str, int] = {}
        self._read_own_claim: set[str] = set()
        """Processes that have read their own claim, and nothing else since."""

    def served(self, changed: frozenset[str], client: str) -> None:
        """Note the claims."""
        if EPOCH in changed:
            self._claims[client] = self._epoch

    def read(self, paths: frozenset[str], client: str) -> None:
        """Note what a process could see."""
        if paths:
            self._read_own_claim.discard(client)
        if EPOCH in paths and self._claims.get(client) == self._epoch:
            self._read_own_claim.add(client)

    def stepped(self, process: Process, effects: Sequence[Effect]) -> None:
        """Look for the record that ends the copy; a follower only has what the leader wrote."""
        if (
            process.node.raft.is_leader
            and process.ledger.committed.facts.migration_state != COPIED
            and _ends_copy(effects)
        ):
            right = process.name in self._read_own_claim
            ensure(right, self.name, f"{process.name} ends the copy and has not read its claim")

    @property
    def _epoch(self) -> int:
        return int(self.world.tree.nodes[EPOCH].data or b"-1")


def _ends_copy(effects: Sequence[Effect]) -> bool:
    return any(
        isinstance(record, r.ZkMigrationStateRecord) and record.zk_migration_state == COPIED
        for effect in effects
        if isinstance(effect, AppendFile) and layout.segment_base(effect.path) is not None
        for batch in decode_batches(effect.data, whole_only=False)
        if not batch.is_control
        for record in (decode_record(value)[0] for _, value in batch.records)
    )
