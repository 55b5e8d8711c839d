"""The leader's snapshot: which names are believed, and how it comes to the disk of a follower."""

from __future__ import annotations

import pytest

from emulator.raft.follower import REFUSED_MS
from emulator.raft.layout import SnapshotId, snapshot_path
from tests.unit.raft.test_following import (
    SNAPSHOT,
    Follower,
    asked_at,
    batch,
    begin,
    piece,
)
from wire import messages as m


@pytest.mark.parametrize(
    ("end_offset", "epoch", "committed"),
    [(10, 4, -1), (10, 2**31 - 1, 10), (10, 0, -1), (10, 3, 9), (2**63 - 1, 3, 10)],
)
def test_a_snapshot_that_no_leader_can_have_is_not_loaded(end_offset, epoch, committed):
    """The log would go on from its epoch and offset, and this voter could never be elected."""
    one = Follower()
    one.answer(one.fetch(), records=batch(0, 1, "ab"), high_watermark=2)
    one.sync()
    one.answer(one.fetch(), high_watermark=2)
    told = m.FetchResponse.SnapshotId(end_offset=end_offset, epoch=epoch)
    one.answer(one.fetch(), snapshot_id=told, high_watermark=committed)
    at = one.now
    assert asked_at(one.fetch()) == (3, 1, 2)
    assert one.now == at + REFUSED_MS
    assert one.disk.halt is None
    assert one.disk.log[-1].event == "the leader sent an invalid answer"


def writing() -> Follower:
    """Two records are here, and all of the leader's snapshot, which is on its way to the disk."""
    one = Follower()
    one.answer(one.fetch(), records=batch(0, 1, "ab"), high_watermark=2)
    one.sync()
    told = m.FetchResponse.SnapshotId(end_offset=10, epoch=2)
    one.answer(one.fetch(), snapshot_id=told, high_watermark=10)
    piece(one, one.fetch(), SNAPSHOT, len(SNAPSHOT), slow=True)
    return one


def test_the_leaders_snapshot_is_written_while_the_voter_goes_on_to_answer():
    """It asks nothing, as its log is about to be another, and does not stand meanwhile."""
    one = writing()
    assert [write.path for write in one.disk.writing] == [snapshot_path(SnapshotId(10, 2))]
    for _ in range(4):
        deadline_ms = one.raft.deadline_ms
        assert deadline_ms is not None
        one.now = max(one.now, deadline_ms)
        one.disk.apply(one.raft.tick(one.now))
        assert one.asks() == []
    assert (one.raft.leader_epoch, one.raft.log_end_offset, one.raft.rewritten) == (3, 2, 0)
    assert one.raft.snapshotting, "no other one is begun"
    begin(one, 4)
    assert one.asks() == [], "also in a later epoch"
    one.written()
    assert (one.raft.leader_epoch, one.raft.leader_id, one.raft.log_end_offset) == (4, 2, 10)
    assert asked_at(one.fetch()) == (4, 2, 10)
    assert not one.raft.snapshotting


@pytest.mark.parametrize("done", [False, True])
def test_a_process_that_ends_while_it_writes_the_leaders_snapshot_goes_on(done):
    """With the log that it had, or with the snapshot if that was complete."""
    one = writing()
    one.disk.apply(one.raft.shutdown(one.now))
    if done:
        one.disk.write()
    again = Follower(one.disk.files)
    assert again.raft.log_end_offset == (10 if done else 2)
    assert again.raft.committed_end == (10 if done else 2)
