"""Which process writes to ZooKeeper, and the position that the counters of the chain record."""

from __future__ import annotations

import json
from collections.abc import Sequence

from emulator.migration.dual_write.pipeline import DEPTH_MAX
from emulator.raft import layout
from emulator.seam import AppendFile, Effect
from emulator.simulation.checkers.base import CONTROLLER, EPOCH, MIGRATION, OWN, Checker
from emulator.simulation.models.process import Process
from emulator.simulation.violation import ensure
from emulator.simulation.world import MIGRATION as COPIED
from emulator.simulation.world import World
from wire import records as r
from wire.batch import decode_batches
from wire.record_serde import decode_record

# What a process must have read in ZooKeeper: that its old session is over, and its claim.


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
        return self.world.zookeeper_epoch(-1)


def _ends_copy(effects: Sequence[Effect]) -> bool:
    return any(
        isinstance(record, r.ZkMigrationStateRecord) and record.zk_migration_state == COPIED
        for effect in effects
        if isinstance(effect, AppendFile) and layout.segment_base(effect.path) is not None
        for batch in decode_batches(effect.data, whole_only=False)
        if not batch.is_control
        for record in (decode_record(value)[0] for _, value in batch.records)
    )


PLACE = ("zk_epoch", "sequence", "offset")


class ChainAgrees(Checker):
    """Invariants 2 and 5: both counters move as one and never back; no multi applies twice.

    One write back is right. When another client has moved both counters as multis do, the multi
    that was in flight is refused, and those sent behind it may be applied (``covers_hole``). The
    reconcile that follows begins at the offset that was confirmed before all of them.
    """

    name = "chain-agrees"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._last: dict[str, int] = {}
        self._versions: tuple[int, int] | None = None
        self._confirmed: int | None = None
        """Offset before the multis that may cover a hole; None if there are none."""
        self._behind = 0
        """How many multis may still be applied behind the refused one."""

    def set_back(self) -> None:
        """Both are as they were, and go on from there."""
        self._last, self._versions = self.world.numbers(OWN), None
        self._confirmed, self._behind = None, 0
        self.world.counters_feigned = self.world.covers_hole = False
        self.world.foreign_writes = dict.fromkeys(self.world.foreign_writes, 0)

    def served(self, changed: frozenset[str], client: str) -> None:
        """Look at both counters when one has moved."""
        world = self.world
        if OWN not in changed:
            return
        nodes = world.tree.nodes
        state, covered = world.numbers(OWN), world.kraft_offset
        ensure(
            state["offset"] == covered,
            self.name,
            f"{OWN} covers {state['offset']}, {MIGRATION} {covered}",
        )
        now, before = [state[k] for k in PLACE], [self._last.get(k, -2) for k in PLACE]
        same_epoch = now[0] == before[0]
        lowest = before[2] if self._confirmed is None else self._confirmed
        ensure(now[0] >= before[0] and now[2] >= lowest, self.name, f"{now} after {before}")
        once = now[:2] > before[:2]
        ensure(once, self.name, f"{now} after {before}: a multi was applied twice")
        if world.counters_feigned and same_epoch:
            self._behind = DEPTH_MAX
            self._confirmed = before[2] if self._confirmed is None else self._confirmed
        back = now[2] < before[2]
        world.covers_hole = self._behind > 0 and same_epoch and not back
        self._behind = self._behind - 1 if world.covers_hole else 0
        if not world.covers_hole:
            self._confirmed = None
        world.counters_feigned = False
        foreign = dict(world.foreign_writes)
        world.foreign_writes = dict.fromkeys(foreign, 0)
        other = nodes.get(MIGRATION)  # a restored ensemble may not have it yet
        versions = (nodes[OWN].version, -1 if other is None else other.version)
        if self._versions is not None and same_epoch:
            moved = [a - b for a, b in zip(versions, self._versions, strict=True)]
            right = moved == [1 + foreign[OWN], 1 + foreign[MIGRATION]]
            ensure(right, self.name, f"counters moved {moved[0]}, {moved[1]}")
        self._versions = versions
        self._last = state
        host = world.host_of(client)
        if host is not None:
            several = world.voters is not None
            for one in world.controllers.values() if several else (host,):
                one.written = max(one.written, state["offset"])


class OneWriter(Checker):
    """Invariant 4: of one ZooKeeper epoch one process writes, the one that made the claim."""

    name = "one-writer"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._claims: dict[int, str] = {}

    def served(self, changed: frozenset[str], client: str) -> None:
        """Remember the claims; look which client writes."""
        if not client:
            return
        self._look_at_states(changed, client)
        if not (OWN in changed or EPOCH in changed):
            return
        epoch = self.world.zookeeper_epoch(-1)
        if EPOCH in changed:
            self._claims[epoch] = client
        if OWN in changed:
            holder = self._claims.get(epoch, "nobody")
            ensure(client == holder, self.name, f"{client} writes in epoch {epoch} of {holder}")
            zk_epoch = self.world.numbers(OWN)["zk_epoch"]
            ensure(zk_epoch == epoch, self.name, f"{client} says epoch {zk_epoch}, it is {epoch}")

    def _look_at_states(self, changed: frozenset[str], client: str) -> None:
        """The state of a partition names the KRaft epoch of the claim under which it is written."""
        for path in changed:
            node = self.world.tree.nodes.get(path)
            state = path.startswith("/brokers/topics/") and path.endswith("/state")
            if state and node is not None and node.mzxid == self.world.tree.zxid:
                named = json.loads(node.data or b"{}").get("controller_epoch")
                right = named == self.world.numbers(OWN)["kraft_epoch"]
                ensure(right, self.name, f"{client} writes controller epoch {named} to {path}")


class EpochsGrow(Checker):
    """Invariant 4 (E07): a claim rewrites both znodes at once; every epoch only grows."""

    name = "epochs-grow"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.claims: list[tuple[int, int]] = []
        self._last = (world.zookeeper_epoch(0), -1)
        self._set_back: tuple[int, int, int] | None = None
        """What ZooKeeper, set back, shows of the last claim; None after the next claim."""

    def set_back(self) -> None:
        """The next claim is above all that were made, and a term counts once since the one shown.

        Where none is shown, no broker has got an epoch from the log yet, or the claim is refused.
        """
        own = self.world.numbers(OWN)
        # What others have raised it by since the last claim is added when the next one is judged.
        epoch = self.world.zookeeper_epoch(0) - self.world.epochs_raised
        self._set_back = epoch, own.get("zk_epoch", -1), own.get("kraft_epoch", -1)

    def served(self, changed: frozenset[str], client: str) -> None:
        """Look at the claim when it has moved."""
        if not client or (EPOCH not in changed and CONTROLLER not in changed):
            return
        nodes = self.world.tree.nodes
        epoch, holder = nodes[EPOCH], nodes.get(CONTROLLER)
        together = holder is not None and holder.czxid == epoch.mzxid == self.world.tree.zxid
        ensure(together, self.name, f"{EPOCH} and {CONTROLLER} were not rewritten together")
        assert holder is not None
        ensure(holder.ephemeral_owner == 0, self.name, f"{CONTROLLER} is ephemeral")
        claim = (int(epoch.data or b""), self.world.claimed_kraft_epoch)
        raised = self.world.epochs_raised
        # Without /controller a claim whose answer was lost cannot be recognised: it is made anew.
        newer = claim[1] > self._last[1] - self.world.controller_deleted
        # A term that did not claim may be skipped: brokers may know its epoch.
        least, terms = self._last[0] + 1 + raised, claim[1] - self._last[1]
        most = least if self._last[1] < 0 else max(least, self._last[0] + raised + terms)
        if self._set_back is not None:
            there, shown, kraft_epoch = self._set_back
            least = there + 1 + raised if shown < 0 else least
            if claim[1] == self._last[1]:
                # The claim of this term is forgotten before its process has seen it.
                newer, least = True, min(least, self._last[0])
            most = max(
                most, there + 1 + raised, max(there, shown) + raised + claim[1] - kraft_epoch
            )
            self._set_back = None
        right = least <= claim[0] <= most and newer
        ensure(right, self.name, f"{claim} after {self._last}, raised {raised} times by others")
        self.world.epochs_raised, self.world.controller_deleted = 0, False
        self._last = claim
        self.claims.append(claim)
