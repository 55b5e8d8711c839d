"""What the disks of the voters of one quorum prove together.

A record counts as committed when a majority has made durable a record of some epoch, at or behind
it, while ``quorum-state`` on the same disk named that epoch: then every later leader has it. A disk
whose place another one has taken by then does not count. The machines' own marks are not asked.

Source: Ongaro, Ousterhout: In Search of an Understandable Consensus Algorithm, USENIX ATC 2014,
sections 5.2 to 5.4.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from emulator.raft.layout import SnapshotId
from emulator.simulation.committed import SURVIVES, CommittedLog
from emulator.simulation.violation import ensure
from wire import records as r
from wire.batch import Batch, BatchTruncated, batch_header, decode_batches
from wire.errors import DecodeError
from wire.record_serde import decode_control

NO_NODE: Final = -1


class Voters:
    """See the module's docstring.

    Args:
        count: how many there are.
        committed: their log.
    """

    def __init__(self, count: int, committed: CommittedLog) -> None:
        self.committed = committed
        self.leaders: dict[int, int] = {}
        """The leader of each epoch, as any disk has named it."""
        self.on_elected: Callable[[], None] = lambda: None
        """Called when the first record of an epoch is written."""
        self._majority = count // 2 + 1
        self._decoded: dict[tuple[int, int], tuple[bytes, Batch]] = {}
        self._known: dict[tuple[int, int], tuple[Batch, int | None]] = {}
        """By base offset and epoch: the batch, and the epoch of the record before it."""
        self._votes: dict[tuple[int, int], int] = {}
        """The vote of each voter in each epoch."""
        self._states: dict[int, tuple[int, int, int]] = {}
        """Epoch, leader and vote in the ``quorum-state`` of each voter."""
        self._ends: dict[int, dict[int, int]] = {}
        """By epoch and voter: first offset that is not durable there of what it acknowledges."""

    # ---------------------------------------------------------------- what the disks hold
    def take_state(self, node_id: int, quorum_state: bytes) -> int:
        """Take the file of a voter; returns its epoch.

        Raises:
            Violated: it votes for another one than before, or names another leader than others do.
        """
        state = json.loads(quorum_state)
        epoch, leader_id, voted_id = state["leaderEpoch"], state["leaderId"], state["votedId"]
        if voted_id != NO_NODE:
            before = self._votes.setdefault((node_id, epoch), voted_id)
            what = f"node {node_id} votes in epoch {epoch} for {voted_id}, and did for {before}"
            ensure(before == voted_id, "one-vote", what)
        if leader_id != NO_NODE:
            self.leads(leader_id, epoch)
        self._states[node_id] = epoch, leader_id, voted_id
        return int(epoch)

    def leads(self, leader_id: int, epoch: int) -> None:
        """Somebody names a leader.

        Raises:
            Violated: another one leads that epoch.
        """
        known = self.leaders.setdefault(epoch, leader_id)
        ensure(known == leader_id, "one-leader", f"{known} and {leader_id} lead epoch {epoch}")

    def forget(self, node_id: int) -> None:
        """A voter has lost its disk, and with it what it has voted and what only that disk had.

        What is committed already is so for good.
        """
        self._states.pop(node_id, None)
        for ends in self._ends.values():
            ends.pop(node_id, None)
        self._votes = {key: one for key, one in self._votes.items() if key[0] != node_id}

    def wrote(self, node_id: int, batch: Batch, before: int | None, *, held: int) -> None:
        """A batch is in the log of a voter.

        Args:
            node_id: the voter.
            batch: whole.
            before: epoch of the record before it; None if it is not known.
            held: how much of what is committed is in that log.

        Raises:
            Violated: another log has other records there in that epoch, or before; or a new leader
                lacks what is committed.
        """
        key = batch.base_offset, batch.leader_epoch
        if (known := self._known.get(key)) is None:
            self._known[key] = batch, before
            if batch.is_control:
                self._opens(node_id, batch, held)
            return
        where = f"offset {key[0]} of epoch {key[1]} on node {node_id}"
        ensure(known[0] == batch, "log-matches", f"{where} is not what another log has there")
        same = before is None or known[1] is None or before == known[1]
        what = f"{where} follows a record of epoch {before}, in another log one of {known[1]}"
        ensure(same, "log-matches", what)

    def _opens(self, node_id: int, batch: Batch, held: int) -> None:
        for key, value in batch.records:
            message = decode_control(key, value)
            if not isinstance(message, r.LeaderChangeMessage):
                continue
            self.leads(message.leader_id, batch.leader_epoch)
            right = message.leader_id == node_id
            ensure(right, "one-leader", f"{node_id} wrote that {message.leader_id} leads")
            self._elected(message, batch.leader_epoch)
            missing = self.committed.entries.get(held)
            lacks = missing is not None and missing.epoch < batch.leader_epoch
            what = f"{node_id} leads epoch {batch.leader_epoch} without what is committed at {held}"
            ensure(not lacks, "leader-is-complete", what)
            self.on_elected()

    def _elected(self, message: r.LeaderChangeMessage, epoch: int) -> None:
        """A majority has voted for a leader, and the disk of each says so, or has a later epoch."""
        granting = [one.voter_id for one in message.granting_voters]
        right = len(set(granting)) >= self._majority
        ensure(right, "one-vote", f"{message.leader_id} leads epoch {epoch} by {granting}")
        for node_id in granting:
            state = self._states.get(node_id)
            if state is not None and state[0] <= epoch:
                voted = state[0] == epoch and message.leader_id in state[1:]
                what = f"node {node_id} voted for {message.leader_id} in epoch {epoch}"
                ensure(voted, "one-vote", f"{what}, its disk says {state}")

    def wrote_snapshot(self, node_id: int, snapshot: SnapshotId) -> None:
        """A voter has a snapshot.

        Raises:
            Violated: something in it is not committed.
        """
        last = self.committed.entries.get(snapshot.end_offset - 1)
        right = last is not None and last.epoch == snapshot.epoch
        ensure(right, "snapshot-is-committed", f"node {node_id}: {snapshot}, committed is {last}")

    def acknowledged(
        self, node_id: int, epoch: int, end: int, newest_first: Iterable[Batch]
    ) -> None:
        """A voter whose epoch this is has made its log durable up to a record of this epoch.

        Raises:
            Violated: what a majority has now differs from what a majority had.
        """
        ends = self._ends.setdefault(epoch, {})
        if end <= ends.get(node_id, 0):
            return
        ends[node_id] = end
        if len(ends) < self._majority:
            return
        majority_end = sorted(ends.values(), reverse=True)[self._majority - 1]
        committed, fresh = self.committed, []
        for batch in newest_first:
            if batch.last_offset >= majority_end:
                continue
            if batch.last_offset < committed.end_offset:
                what = f"a majority has another record at {batch.last_offset} than it had"
                ensure(committed.holds(batch), SURVIVES, what)
                break
            fresh.append(batch)
        for batch in reversed(fresh):
            committed.commit(batch)

    # ---------------------------------------------------------------- reading
    def sound(self, data: bytes) -> Iterator[tuple[Batch, int]]:
        """Batches with their sizes from the beginning of some bytes, as far as they are sound.

        Three disks have the same bytes: they are decoded once.
        """
        at = 0
        try:
            while at < len(data):
                header = batch_header(data, at)
                raw = data[at : at + header.size]
                key = header.base_offset, header.leader_epoch
                known = self._decoded.get(key)
                if known is None or known[0] != raw:
                    (batch,) = decode_batches(raw)
                    known = self._decoded[key] = raw, batch
                yield known[1], header.size
                at += header.size
        except (DecodeError, BatchTruncated):
            return
