"""How many records ZooKeeper lacks, and what the gauges of the controller show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from emulator.node.introspection import metrics
from emulator.raft import layout
from emulator.seam import AppendFile, Effect
from emulator.simulation.checkers.base import EPOCH, OWN, Checker
from emulator.simulation.models.process import Process
from emulator.simulation.violation import ensure
from emulator.simulation.world import MIGRATION as COPIED
from emulator.simulation.world import World
from emulator.trace import metrics as metric
from wire import records as r
from wire.batch import decode_batches
from wire.record_serde import decode_record

HARD_FACTOR: Final = 2
"""The second bound is so many times the first one: scenarios leave it at its default."""
SHOWN: Final = (
    metric.LAST_APPLIED_RECORD_OFFSET,
    metric.LAST_ZK_ACKED_RECORD_OFFSET,
    metric.ZK_WRITE_BEHIND_LAG,
    metric.ZK_PENDING_RECORDS,
)
UNCOUNTED: Final = (r.NoOpRecord, r.RegisterControllerRecord)
"""What changes nothing, and what a life begins with before the bound binds it."""


class LagBounded(Checker):
    """Invariant 6 (W02): nothing is appended for callers beyond the bound of its kind.

    Counted from outside: what was appended and changes something when a batch begins, less what
    ``/migration`` covered at that moment. A life that has not read ``/migration`` yet counts only
    what it appended itself; that it has, shows in its second multi. For the second bound what a
    life found in a snapshot does not count: a snapshot does not show which were NoOps.
    """

    name = "lag-bounded"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.blocked_steps = 0
        self.urgent = 0
        """Deletions appended beyond the first bound."""
        self._life = ""
        self._led: int | None = None
        """The epoch that this life leads: a life may lead again, without what it had appended."""
        self._known = -1
        """Last offset of what was there when this life began."""
        self._snapshot_end = 0
        self._binds = False
        """The copy is complete, and what was decided before its end has been appended."""
        self._multis = 0
        self._changes: list[int] = []
        """Offsets of records that change something and that ZooKeeper may not have."""
        self._covered = self._forgotten = -1
        """What ``/migration`` covered last; what it covered when ZooKeeper was set back."""

    def set_back(self) -> None:
        """What had been confirmed does not count, though ZooKeeper has forgotten it."""
        self._forgotten = self._covered

    def served(self, changed: frozenset[str], client: str) -> None:
        """Count the multis of this life."""
        self._covered = max(self._covered, self.world.kraft_offset if OWN in changed else -1)
        self._multis += client == self._life and OWN in changed and EPOCH not in changed

    def stepped(self, process: Process, effects: Sequence[Effect]) -> None:
        """Judge what is about to be appended."""
        bound, world = self.world.scenario.bound, self.world
        if process is not world.active.process or not process.node.raft.is_leader:
            return
        if process.node.driver is None:
            # A controller without the migration flag has no ZooKeeper that could be behind.
            return
        if (process.name, process.node.raft.leader_epoch) != (self._life, self._led):
            self._begin_life(process)
        self.blocked_steps += bool(len(process.node.controller.gate))
        if not bound or world.facts.migration_state != COPIED or not world.traffic.begun:
            return
        for data in _appended(effects):
            if self._binds:
                self._judge(data, bound)
            # What was decided before the end of the copy may still wait for the sync before it.
            self._binds = True

    def _begin_life(self, process: Process) -> None:
        self._binds = self.world.facts.migration_state == COPIED
        self._life, self._led, self._multis = process.name, process.node.raft.leader_epoch, 0
        self._changes = [one for one in self._changes if one < self.world.committed.end_offset]
        self._known = self.world.committed.end_offset - 1
        snapshots = map(layout.snapshot_id, process.disk.files)
        self._snapshot_end = max((one.end_offset for one in snapshots if one), default=0)

    def _judge(self, data: bytes, bound: int) -> None:
        base = max(self.world.kraft_offset, self._forgotten)
        if self._multis < 2:  # the first only takes the chain over
            base = max(base, self._known)
        self._changes = [one for one in self._changes if one > base]
        for batch in decode_batches(data, whole_only=False):
            if batch.is_control:
                continue
            records = [decode_record(value)[0] for _, value in batch.records]
            ahead = len(self._changes)
            if ahead >= bound:
                self._refuse([one for one in records if _adds(one)], ahead)
                self.urgent += any(isinstance(one, r.RemoveTopicRecord) for one in records)
            ahead = sum(one >= self._snapshot_end for one in self._changes)
            if ahead >= HARD_FACTOR * bound:
                self._refuse([one for one in records if _waits(one)], ahead)
            self._changes += [
                offset
                for offset, one in enumerate(records, batch.base_offset)
                if not isinstance(one, UNCOUNTED)
            ]

    def _refuse(self, records: list[object], ahead: int) -> None:
        kinds = sorted({type(record).__name__ for record in records})
        ensure(not kinds, self.name, f"{ahead} changes ahead: {kinds}")


def _appended(effects: Sequence[Effect]) -> list[bytes]:
    """What goes to the log."""
    return [
        effect.data
        for effect in effects
        if isinstance(effect, AppendFile) and layout.segment_base(effect.path) is not None
    ]


def _adds(record: object) -> bool:
    """Whether a record is of a change that waits at the first bound."""
    config = isinstance(record, r.ConfigRecord) and record.value is not None
    return config or isinstance(record, r.TopicRecord | r.PartitionRecord)


def _waits(record: object) -> bool:
    """Whether a record is of a change that waits at the second bound."""
    return isinstance(record, r.RemoveTopicRecord | r.ConfigRecord | r.ProducerIdsRecord)


class LagIsTrue(Checker):
    """M06, M12: the gauges show what ZooKeeper lacks, and not zero while it lacks something."""

    name = "lag-gauge"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.records_max = 0
        self.pending_max = 0
        self._last_status: tuple[str, int, int, int, int] | None = None
        self._seen: tuple[str | int, ...] = ()
        """What the gauges depend on, when they were looked at last."""

    def stepped(self, process: Process, effects: Sequence[Effect]) -> None:
        """Hold the gauges against the log and what this host has brought to ZooKeeper."""
        del effects
        follows = self.world.voters is not None and process is not self.world.process
        if process.migration_state != "DUAL_WRITE" or follows:
            return
        host = self.world.host_of(process.name)
        assert host is not None
        driver = process.node.driver
        assert driver is not None
        applied = process.node.controller.stable.offset
        missing, committed = driver.write_behind.lag, host.committed
        moved = (
            *(process.name, applied, missing.confirmed, missing.records, missing.changed_records),
            *(host.written, committed.end_offset),
        )
        if moved == self._seen:
            return
        self._seen = moved
        status = driver.status(self.world.scheduler.now_ms)
        confirmed = status.confirmed_offset
        lag, pending = status.lag_records, status.lag_changed_records
        self._compare_gauges(process, (process.name, applied, confirmed, lag, pending))
        ensure(applied < committed.end_offset, self.name, f"{applied} is said to be committed")
        brought = confirmed <= host.written
        ensure(brought, self.name, f"{confirmed} is said to be in ZooKeeper, {host.written} is")
        ensure(lag == applied - confirmed, self.name, f"{lag} of {applied - confirmed} records")
        changes = committed.changed_records(confirmed, applied)
        ensure(pending == changes, self.name, f"{pending} records pending, {changes} are")
        self.records_max = max(self.records_max, lag)
        self.pending_max = max(self.pending_max, pending)

    def _compare_gauges(self, process: Process, status: tuple[str, int, int, int, int]) -> None:
        """The gauges equal ``/status``; they are read when the status has changed."""
        if status == self._last_status:
            return
        self._last_status = status
        gauges = metrics(process.node, self.world.scheduler.now_ms)
        shown = (process.name, *(gauges[one] for one in SHOWN))
        ensure(shown == status, self.name, f"the gauges say {shown}, the status says {status}")

    def unrest(self) -> str:
        """The gauge shows that nothing is missing."""
        gauges = metrics(self.world.process.node, self.world.scheduler.now_ms)
        pending = gauges.get(metric.ZK_PENDING_RECORDS, 0)
        return f"the gauge says that {pending} records are pending" if pending else ""
