"""The leader's snapshot: which names are believed, and how it comes to the disk of a follower."""

from __future__ import annotations

import pytest

from emulator.config.quorum import QuorumTimes
from emulator.raft import Raft
from emulator.raft.asking import Ask
from emulator.raft.layout import SnapshotId, snapshot_path
from emulator.raft.member import REFUSED_MS
from tests.unit.raft.test_following import (
    SNAPSHOT,
    SNAPSHOT_NOT_FOUND,
    Follower,
    asked_at,
    batch,
    begin,
    piece,
)
from tests.unit.raft.trio import Node, Trio
from tests.unit.raft.world import topic
from wire import messages as m

SIGN_MS = QuorumTimes().sign_ms


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


def shown(ask: Ask) -> tuple[SnapshotId, int, int]:
    """The snapshot, the position and the number of bytes that a FetchSnapshot asks for."""
    message = ask.message
    assert isinstance(message, m.FetchSnapshotRequest)
    named = message.topics[0].partitions[0]
    snapshot = SnapshotId(named.snapshot_id.end_offset, named.snapshot_id.epoch)
    return snapshot, named.position, message.max_bytes


def test_the_leaders_snapshot_is_written_while_the_voter_goes_on_to_answer():
    """It takes nothing, as its log is about to be another, and does not stand meanwhile."""
    one = writing()
    assert [write.path for write in one.disk.writing] == [snapshot_path(SnapshotId(10, 2))]
    for _ in range(8):
        at = one.now
        ask = one.fetch()
        assert one.now == at + SIGN_MS, "in good time for a leader that hears of nobody else"
        assert shown(ask) == (SnapshotId(10, 2), 0, 1)
        piece(one, ask, SNAPSHOT[:1], len(SNAPSHOT), slow=True)
    assert (one.raft.leader_epoch, one.raft.log_end_offset, one.raft.rewritten) == (3, 2, 0)
    assert one.raft.snapshotting, "no other one is begun"
    begin(one, 4)
    (ask,) = one.asks()
    assert shown(ask) == (SnapshotId(10, 2), 0, 1), "also in a later epoch"
    one.written()
    assert (one.raft.leader_epoch, one.raft.leader_id, one.raft.log_end_offset) == (4, 2, 10)
    assert asked_at(one.fetch()) == (4, 2, 10), "without the answer"
    assert not one.raft.snapshotting


def test_a_leader_that_is_silent_while_its_snapshot_is_written_is_asked_again():
    one = writing()
    for _ in range(8):
        ask = one.fetch()
        one.now += QuorumTimes().request_ms
        one.disk.apply(one.raft.tick(one.now))
        assert one.asks() == [], "one at a time"
        one.disk.apply(one.raft.unanswered(ask, one.now))
    assert (one.raft.leader_epoch, one.raft.leader_id) == (3, 2)


@pytest.mark.parametrize("told", [True, False])
def test_a_leader_that_lacks_the_snapshot_that_is_written_is_asked_for_what_it_has(told):
    """Another one leads, or it has a newer one. Neither that nor records are taken meanwhile."""
    one = writing()
    piece(one, one.fetch(), b"", 0, slow=True, error_code=SNAPSHOT_NOT_FOUND)
    ask = one.fetch()
    assert asked_at(ask) == (3, 1, 2)
    newer = m.FetchResponse.SnapshotId(end_offset=20, epoch=3)
    more = {"snapshot_id": newer} if told else {"records": batch(2, 3, "c")}
    one.answer(ask, high_watermark=20, **more)
    ask = one.fetch()
    if told:
        assert shown(ask) == (SnapshotId(20, 3), 0, 1)
    else:
        assert asked_at(ask) == (3, 1, 2)
    assert (one.raft.log_end_offset, one.raft.committed_end) == (2, 2)
    assert [write.path for write in one.disk.writing] == [snapshot_path(SnapshotId(10, 2))]
    one.written()
    assert asked_at(one.fetch()) == (3, 2, 10)


class LateVoter:
    """One leads, one was away for long, and of the others just too few are there.

    Args:
        count: how many voters there are.
        has_own: whether one that follows has written a snapshot of its own.
    """

    def __init__(self, count: int, *, has_own: bool = False) -> None:
        ids = tuple(range(1, count + 1))
        self.trio = Trio(7, ids, snapshots_retained=1, segment_bytes=1).start()
        self.trio.run(8_000)
        self.leader = self.trio.leader
        self.late, *others = [each for each in ids if each != self.leader.id]
        self.others = [self.trio.nodes[each] for each in others]
        self.trio.crash(self.late)
        self.change(self.leader)
        self.snapshot(self.leader)
        self.change(self.leader)
        if has_own:
            assert self.snapshot(self.others[-1]) != self.snapshot_of(self.leader)
        dead = count // 2
        for node in self.others[:dead]:
            self.trio.crash(node.id)
        self.others = self.others[dead:]

    def change(self, node: Node) -> None:
        """Something is committed."""
        end = self.trio.append(node, topic("a")) + 1
        self.trio.run(1_000)
        assert node.raft.high_watermark == end

    def snapshot(self, node: Node) -> SnapshotId:
        """Of all that is committed; the log below it is gone."""
        raft = node.raft
        epoch = raft.epoch_at(raft.high_watermark - 1)
        assert epoch is not None
        self.trio.snapshot(node, raft.high_watermark, epoch, [topic("all")])
        found = self.snapshot_of(node)
        assert raft.log_start_offset == found.end_offset
        return found

    def snapshot_of(self, node: Node) -> SnapshotId:
        assert node.raft.latest_snapshot is not None
        return node.raft.latest_snapshot

    def writes_for_long(self) -> None:
        """The late voter is back, and has written the leader's snapshot after 20 s."""
        self.trio.write_ms = 20_000
        self.trio.start(self.late)
        self.trio.run(1_000)
        assert self.raft.snapshotting
        self.trio.run(15_000)
        assert self.raft.snapshotting

    @property
    def raft(self) -> Raft:
        """Of the late voter."""
        found = self.trio.nodes[self.late].raft
        assert found is not None
        return found

    def has_caught_up(self) -> bool:
        """It has written it, perhaps another one then, and has the log up to the leader's end."""
        self.trio.write_ms = 0
        self.trio.run(6_000)
        leads = self.trio.leader.raft
        assert leads is not None
        return not self.raft.snapshotting and self.raft.log_end_offset == leads.log_end_offset


@pytest.mark.parametrize("count", [3, 5])
def test_a_leader_goes_on_while_a_voter_that_it_needs_writes_its_snapshot(count):
    one = LateVoter(count)
    epoch = one.leader.raft.leader_epoch
    one.writes_for_long()
    assert one.trio.leaders == [one.leader]
    assert one.has_caught_up()
    assert (one.trio.leaders, one.raft.leader_epoch) == ([one.leader], epoch)
    one.change(one.leader)


@pytest.mark.parametrize("has_own", [False, True])
def test_so_does_the_next_leader_which_has_another_snapshot_or_none(has_own):
    one = LateVoter(5, has_own=has_own)
    (follower,) = one.others
    one.trio.write_ms = 20_000
    one.trio.start(one.late)
    one.trio.run(1_000)
    one.trio.perform(one.leader, one.leader.raft.resign(one.trio.now, [follower.id]))
    one.trio.run(3_000)
    assert one.trio.leaders == [follower]
    epoch = follower.raft.leader_epoch
    one.trio.run(12_000)
    assert one.raft.snapshotting
    assert one.has_caught_up()
    assert (one.trio.leaders, one.raft.leader_epoch) == ([follower], epoch)
    one.change(follower)


@pytest.mark.parametrize(("epoch", "loaded"), [(1, True), (2, False), (3, False)])
def test_records_that_the_leader_may_have_are_not_dropped_for_a_snapshot(epoch, loaded):
    """Those behind it are of an older epoch than its last one, or the leader is wrong (KIP-595)."""
    one = Follower()
    mine = batch(0, 1, "a") + batch(1, 1, "b") + batch(2, epoch, "c") + batch(3, epoch, "d")
    one.answer(one.fetch(), records=mine, high_watermark=2)
    one.sync()
    told = m.FetchResponse.SnapshotId(end_offset=3, epoch=2)
    one.answer(one.fetch(), snapshot_id=told, high_watermark=3)
    ask = one.fetch()
    if loaded:
        assert shown(ask)[:2] == (SnapshotId(3, 2), 0)
    else:
        assert asked_at(ask) == (3, epoch, 4)
        assert one.disk.log[-1].event == "the leader sent an invalid answer"


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


def test_a_follower_is_caught_up_when_it_has_what_its_leader_said_to_be_committed():
    one = Follower()
    assert not one.raft.caught_up
    one.answer(one.fetch(), records=batch(0, 1, "ab"), high_watermark=4)
    one.sync()
    assert (one.raft.high_watermark, one.raft.caught_up) == (2, False), "more is committed"
    one.answer(one.fetch(), records=batch(2, 1, "cd"), high_watermark=4)
    assert not one.raft.caught_up, "not durable yet"
    one.sync()
    assert one.raft.caught_up
    begin(one, 4)
    assert not one.raft.caught_up, "another leader has said nothing yet"
    assert not one.raft.replica.outrun


def test_a_follower_is_outrun_from_the_name_of_a_snapshot_until_records_follow_it():
    one = writing()
    assert (one.raft.replica.outrun, one.raft.caught_up) == (True, False)
    one.written()
    assert (one.raft.high_watermark, one.raft.replica.outrun) == (10, True), "more may be committed"
    one.answer(one.fetch(), records=batch(10, 3, "c"), high_watermark=12)
    one.sync()
    assert (one.raft.replica.outrun, one.raft.caught_up) == (False, False)
    one.answer(one.fetch(), records=batch(11, 3, "d"), high_watermark=12)
    one.sync()
    assert one.raft.caught_up
