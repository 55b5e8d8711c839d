"""What must hold, as named objects that look on and change nothing.

Each looks after every step of a controller process, after every request ZooKeeper has served, and
at the end, when nothing is on its way any more. The names are explained in ``docs/simulation.md``;
the numbers are those of the invariants in ``ARCHITECTURE.md``.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from emulator.metadata.migration_state import MigrationState
from emulator.migration.dual_write.modes import Mode
from emulator.migration.states import State
from emulator.net.control import TYPE_FULL, ControlRequest
from emulator.node.introspection import metrics
from emulator.simulation import tree_check
from emulator.simulation.broker import SimulatedBroker
from emulator.simulation.process import Process
from emulator.simulation.violation import Violated, ensure
from emulator.trace import metrics as metric
from wire import messages as m
from wire import records as r
from wire.batch import Batch
from wire.record_serde import decode_record

if TYPE_CHECKING:
    from emulator.simulation.world import World

OWN: Final = "/kraft_bridge"
MIGRATION: Final = "/migration"
EPOCH: Final = "/controller_epoch"
CONTROLLER: Final = "/controller"
UNBOUNDED_SLACK_RECORDS: Final = 10
"""Fencings and NoOps that one step may append beside what the bound has room for."""
HARD_FACTOR: Final = 2
"""The second bound is so many times the first one: scenarios leave it at its default."""


class Checker:
    """Looks on; every method may raise :class:`Violated`."""

    name = ""

    def __init__(self, world: World) -> None:
        self.world = world

    def stepped(self, process: Process, appended: list[Batch]) -> None:
        """A controller process has taken a step and appended these batches."""

    def served(self, changed: set[str]) -> None:
        """ZooKeeper has served a request, which changed these znodes."""

    def told(self, broker: SimulatedBroker, request: ControlRequest) -> None:
        """A broker has received a control request."""

    def ended(self) -> None:
        """Everything is quiet."""

    def json(self, path: str) -> dict[str, int]:
        """A znode of numbers; empty when it is absent."""
        node = self.world.tree.nodes.get(path)
        return {} if node is None or not node.data else dict(json.loads(node.data))

    @property
    def offset(self) -> int:
        """What ``/migration`` covers."""
        return self.json(MIGRATION).get("kraft_metadata_offset", -1)


class ShowsCommitted(Checker):
    """Invariant 1 (G06): a znode never shows what is not committed in the log."""

    name = "zookeeper-shows-committed"

    def served(self, changed: set[str]) -> None:
        """Look at what changed."""
        ledger = self.world.ledger
        ensure(self.offset < ledger.end_offset, self.name, f"{MIGRATION} covers {self.offset}")
        for path in changed:
            if not tree_check.covered(path):
                continue
            node = self.world.tree.nodes.get(path)
            means = None if node is None else tree_check.meaning(path, node.data)
            if means == self.world.before.get(path):
                continue
            if means is None and path.split("/")[3] in self.world.doomed:
                continue
            allowed = ledger.legit.get(path, set())
            ensure(means in allowed, self.name, f"{path} says {means}, never committed")


class TreeIsImage(Checker):
    """Invariant 2: the tree is the image at ``/migration``'s offset, whenever a unit is closed."""

    name = "tree-is-image"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._closed = -1

    def served(self, changed: set[str]) -> None:
        """Compare the whole tree when the offset has moved."""
        if OWN not in changed and MIGRATION not in changed:
            return
        state = self.json(OWN)
        if state.get("part") == 0 and state.get("offset", -1) > self._closed:
            self._closed = state["offset"]
            self._compare(self._closed)

    def ended(self) -> None:
        """The tree is what the newest image says, and nothing is missing."""
        self._compare(self.world.ledger.image.offset)

    def _compare(self, offset: int) -> None:
        image = self.world.ledger.image_at(offset)
        found = next(tree_check.differences(self.world.tree.nodes, image), None)
        ensure(found is None, self.name, f"offset {offset}: {found}")


class ChainAgrees(Checker):
    """Invariants 2 and 5: both counters move as one, by whoever holds the claim, never back."""

    name = "chain-agrees"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._last: dict[str, int] = {}
        self._versions: tuple[int, int] | None = None

    def served(self, changed: set[str]) -> None:
        """Look at both counters when one has moved."""
        if OWN not in changed:
            return
        nodes = self.world.tree.nodes
        state, migration, holder = self.json(OWN), self.json(MIGRATION), self.json(CONTROLLER)
        if not state or nodes[OWN].mzxid != self.world.tree.zxid:
            return
        ensure(
            state["offset"] == migration["kraft_metadata_offset"],
            self.name,
            f"{OWN} covers {state['offset']}, {MIGRATION} {migration['kraft_metadata_offset']}",
        )
        writer = (state["node_id"], state["kraft_epoch"])
        claimed = (holder.get("brokerid"), holder.get("kraftControllerEpoch"))
        ensure(writer == claimed, self.name, f"{writer} wrote while {claimed} holds the claim")
        place = ("zk_epoch", "offset", "sequence")
        now, before = [state[k] for k in place], [self._last.get(k, -2) for k in place]
        ensure(now[0] >= before[0] and now[1] >= before[1], self.name, f"{now} after {before}")
        ensure(now > before, self.name, f"{now} after {before}: a multi was applied twice")
        versions = (nodes[OWN].version, nodes[MIGRATION].version)
        if self._versions is not None and before[0] == now[0]:
            own, other = (a - b for a, b in zip(versions, self._versions, strict=True))
            foreign = self.world.foreign_writes_taken()
            ensure(own == 1 and other == 1 + foreign, self.name, f"counters moved {own}, {other}")
        else:
            self.world.foreign_writes_taken()
        self._versions = versions
        self._last = state


class EpochsGrow(Checker):
    """Invariant 4 (E07): a claim rewrites both znodes at once; every epoch only grows."""

    name = "epochs-grow"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.claims: list[tuple[int, int]] = []

    def served(self, changed: set[str]) -> None:
        """Look at the claim when it has moved."""
        if EPOCH not in changed and CONTROLLER not in changed:
            return
        nodes = self.world.tree.nodes
        epoch, holder = nodes[EPOCH], nodes.get(CONTROLLER)
        if epoch.mzxid != self.world.tree.zxid:
            return
        assert epoch.data is not None
        together = holder is not None and holder.czxid == epoch.mzxid
        ensure(together, self.name, "the epoch was raised without the registration")
        assert holder is not None
        ensure(holder.ephemeral_owner == 0, self.name, f"{CONTROLLER} is ephemeral")
        claim = (int(epoch.data), self.json(CONTROLLER)["kraftControllerEpoch"])
        last = self.claims[-1] if self.claims else (self.world.first_zk_epoch, -1)
        right = claim[0] == last[0] + 1 and claim[1] > last[1]
        ensure(right, self.name, f"{claim} after {last}")
        self.claims.append(claim)


class LagBounded(Checker):
    """Invariant 6 (W02): nothing is appended for callers beyond the bound of its kind."""

    name = "lag-bounded"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.blocked_steps = 0
        self._term_tip = -1
        self._from_the_start = False
        """The term began in dual write, so the bound binds at once."""
        self._epoch = -1
        self._idle: list[int] = []
        """Offsets of NoOps and control records, ascending."""

    def stepped(self, process: Process, appended: list[Batch]) -> None:
        """Judge what was appended by how far ZooKeeper really is."""
        node = process.node
        self._note_idle(appended)
        driver, bound = node.driver, self.world.scenario.bound
        assert driver is not None
        if node.raft.leader_epoch != self._epoch:
            self._epoch = node.raft.leader_epoch
            self._term_tip = node.raft.log_end_offset - 1
            state = self.world.ledger.image.migration_state
            self._from_the_start = state is MigrationState.MIGRATION
        if not bound or not (self._from_the_start or driver.bound.active):
            ensure(driver.state is not State.DUAL_WRITE or not bound, self.name, "not bounded")
            return
        self.blocked_steps += driver.bound.blocked
        # Until the claim has shown where /migration stands, only what this term appends counts.
        claimed = driver.write_behind.mode is not Mode.STOPPED
        base = self.offset if claimed else max(self.offset, self._term_tip)
        for batch in appended:
            if batch.is_control or batch.base_offset <= self._term_tip:
                continue
            ahead = self._changes(base, batch.base_offset)
            if ahead < bound + UNBOUNDED_SLACK_RECORDS:
                continue
            records = [decode_record(value)[0] for _, value in batch.records]
            kinds = {type(record).__name__ for record in records}
            ensure(not any(map(_adds, records)), self.name, f"{ahead} records ahead: {kinds}")
            snapshot = node.raft.latest_snapshot
            known = base if snapshot is None else max(base, snapshot.end_offset - 1)
            ahead = self._changes(known, batch.base_offset)
            if ahead >= HARD_FACTOR * bound + UNBOUNDED_SLACK_RECORDS:
                ensure(not any(map(_waits, records)), self.name, f"{ahead} records ahead: {kinds}")

    def _note_idle(self, appended: list[Batch]) -> None:
        for batch in appended:
            del self._idle[bisect_left(self._idle, batch.base_offset) :]
            if batch.is_control or all(
                isinstance(decode_record(value)[0], r.NoOpRecord) for _, value in batch.records
            ):
                self._idle += range(batch.base_offset, batch.last_offset + 1)

    def _changes(self, after: int, before: int) -> int:
        """Records between two offsets that change something."""
        idle = bisect_left(self._idle, before) - bisect_right(self._idle, after)
        return before - 1 - after - idle


def _adds(record: object) -> bool:
    """Whether a record is of a change that waits at the first bound."""
    config = isinstance(record, r.ConfigRecord) and record.value is not None
    return config or isinstance(record, r.TopicRecord | r.PartitionRecord)


def _waits(record: object) -> bool:
    """Whether a record is of a change that waits at the second bound."""
    return isinstance(record, r.RemoveTopicRecord | r.ConfigRecord | r.ProducerIdsRecord)


class LagIsTrue(Checker):
    """M06, M12: the gauges say what is missing in ZooKeeper, and never zero while it is."""

    name = "lag-gauge"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.records_max = 0
        self.pending_max = 0

    def stepped(self, process: Process, appended: list[Batch]) -> None:
        """Hold the gauges against the log and ``/migration``."""
        del appended
        driver = process.node.driver
        if driver is None or driver.state is not State.DUAL_WRITE:
            return
        gauges = metrics(process.node, self.world.scheduler.now_ms)
        confirmed = gauges[metric.LAST_ZK_ACKED_RECORD_OFFSET]
        lag, pending = gauges[metric.ZK_WRITE_BEHIND_LAG], gauges[metric.ZK_PENDING_RECORDS]
        ensure(confirmed <= self.offset, self.name, f"{confirmed} is said to be confirmed")
        ledger = self.world.ledger
        wanted = ledger.image.offset - confirmed
        ensure(lag == wanted, self.name, f"a lag of {lag} records, {wanted} are missing")
        changes = ledger.changed_records(confirmed)
        ensure(pending == changes, self.name, f"{pending} records pending, {changes} are")
        self.records_max = max(self.records_max, lag)
        self.pending_max = max(self.pending_max, pending)

    def ended(self) -> None:
        """No change is missing."""
        driver = self.world.process.node.driver
        assert driver is not None
        lag = driver.write_behind.lag
        ensure(lag.changed_records == 0, self.name, f"{lag.changed_records} changes are missing")


class ToldOnlyRegistered(Checker):
    """Invariant 7: control requests go to registered, migrating brokers; a FULL one lists all."""

    name = "told-only-registered"

    def told(self, broker: SimulatedBroker, request: ControlRequest) -> None:
        """Judge a request as it arrives."""
        images = self.world.ledger.images
        known = self.world.registrations.get((broker.id, request.broker_epoch))
        ensure(known is True, self.name, f"{broker.name} with epoch {request.broker_epoch}")
        ensure(request.is_kraft_controller, self.name, "not marked as from KRaft")
        if isinstance(request, m.StopReplicaRequest) or request.type != TYPE_FULL:
            return
        listed = {
            (topic.topic_id, p.partition_index)
            for topic in request.topic_states
            for p in topic.partition_states
        }
        for image in reversed(images):
            all_there = {
                (topic.id, index)
                for topic in image.topics.values()
                for index, p in topic.partitions.items()
                if isinstance(request, m.UpdateMetadataRequest) or broker.id in p.replicas
            }
            if all_there == listed:
                return
        raise Violated("full-lists-all", f"{type(request).__name__} to {broker.name}: {listed}")


class BrokersAgree(Checker):
    """At the end every broker believes what the image says."""

    name = "brokers-agree"

    def ended(self) -> None:
        """Compare every broker's view."""
        for broker in self.world.brokers.values():
            found = broker.view.differences(self.world.ledger.image)
            ensure(not found, self.name, f"{broker.name}: {found[:3]}")


class AnsweredIsCommitted(Checker):
    """Invariant 5: every change that was acknowledged is in the image; later answers hold too."""

    name = "answered-is-committed"

    def ended(self) -> None:
        """Compare what clients were promised."""
        self.world.load.compare()


class HandlersCope(Checker):
    """No handler raises, and every answer fits its version: such a caller is told nothing."""

    name = "handlers-cope"

    def stepped(self, process: Process, appended: list[Batch]) -> None:  # noqa: ARG002
        """Every request was answered by its handler."""
        failed = process.node.controller.answers.failures.total
        ensure(not failed, self.name, f"{dict(failed)}")


ALL: Final = (
    ShowsCommitted,
    ChainAgrees,
    EpochsGrow,
    TreeIsImage,
    LagBounded,
    LagIsTrue,
    ToldOnlyRegistered,
    BrokersAgree,
    AnsweredIsCommitted,
    HandlersCope,
)
