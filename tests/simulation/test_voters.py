"""What the disks of several voters prove: planted contradictions are seen on the disks alone."""

import json

import pytest

from emulator.raft import layout
from emulator.raft.layout import SnapshotId
from emulator.simulation.committed import CommittedLog
from emulator.simulation.models.disk_ledger import DiskLedger
from emulator.simulation.models.voters import Voters
from emulator.simulation.violation import Violated
from wire import records as r
from wire.batch import CONTROL, Batch, encode_batch
from wire.record_serde import encode_control, encode_record

IDS = (1, 2, 3)
SEGMENT = layout.segment_path(0)


class Disks:
    """Three disks without a process."""

    def __init__(self):
        self.committed = CommittedLog(znodes=False)
        voters = Voters(3, self.committed)
        self.of = {each: DiskLedger(self.committed, voters, each) for each in IDS}
        self.files = dict.fromkeys(IDS, b"")
        for each in IDS:
            self.of[each].begins({})

    def says(self, node_id, epoch, leader=-1, voted=-1):
        said = {"leaderEpoch": epoch, "leaderId": leader, "votedId": voted}
        self.of[node_id].replaced(layout.QUORUM_STATE, json.dumps(said).encode())

    def append(self, node_id, *batches, sync=True):
        data = b"".join(map(encode_batch, batches))
        self.files[node_id] += data
        self.of[node_id].appended(SEGMENT, data)
        if sync:
            self.sync(node_id)

    def sync(self, node_id):
        self.of[node_id].synced(SEGMENT, len(self.files[node_id]))

    def elect(self, leader, epoch, offset, granting=IDS[:2]):
        """All learn who leads; the leader writes the first record."""
        for each in IDS:
            self.says(each, epoch, leader=leader)
        first = leads(leader, epoch, offset, granting)
        self.append(leader, first)
        return first


def leads(leader, epoch, offset, granting=IDS[:2]):
    kind = r.LeaderChangeMessage
    message = kind(
        version=0,
        leader_id=leader,
        voters=[kind.Voter(voter_id=each) for each in IDS],
        granting_voters=[kind.Voter(voter_id=each) for each in granting],
    )
    return Batch(offset, epoch, CONTROL, 0, [encode_control(message)])


def batch(offset, epoch, name="a"):
    record = r.FeatureLevelRecord(name=name, feature_level=1)
    return Batch(offset, epoch, 0, 0, [(None, encode_record(record, 0))])


@pytest.fixture
def disks():
    found = Disks()
    first = found.elect(1, 1, 0)
    found.append(2, first)
    assert found.committed.end_offset == 1
    return found


def violated(name):
    return pytest.raises(Violated, match=f"^{name}: ")


def test_what_a_majority_has_synced_is_committed_and_nothing_else(disks):
    more = batch(1, 1)
    disks.append(1, more)
    disks.append(2, more, sync=False)
    assert disks.committed.end_offset == 1
    disks.sync(2)
    assert disks.committed.end_offset == 2


def test_a_record_of_an_older_epoch_counts_only_with_one_of_the_newer(disks):
    """Figure 8 of the paper: a majority has it, and another leader may still lack it."""
    old = batch(1, 1)
    disks.append(1, old)
    for each in IDS:
        disks.says(each, 2, leader=1)
    disks.append(2, old)
    assert disks.committed.end_offset == 1
    first = leads(1, 2, 2)
    disks.append(1, first)
    disks.append(2, first)
    assert disks.committed.end_offset == 3


def test_what_only_a_disk_had_whose_place_another_has_taken_counts_no_more(disks):
    """A leader's last record reaches one follower when the leader's folder is a backup's already:
    one disk has it then, and nobody was told that it is committed."""
    more = batch(1, 1)
    disks.append(1, more)
    disks.of[1].is_another()
    disks.append(2, more)
    assert disks.committed.end_offset == 1
    disks.append(3, leads(1, 1, 0), more)
    assert disks.committed.end_offset == 2


def test_what_is_not_durable_becomes_so_by_no_deletion_of_what_came_before(disks):
    more = batch(1, 1), batch(2, 1)
    for each in (1, 2):
        disks.append(each, *more)
    follower, segment, data = disks.of[3], layout.segment_path(1), [*map(encode_batch, more)]
    follower.appended(SEGMENT, encode_batch(leads(1, 1, 0)))
    follower.appended(segment, b"".join(data))
    follower.synced(segment, len(data[0]))
    assert (disks.committed.end_offset, follower.held_end) == (3, 2)
    follower.deleted(SEGMENT)
    assert follower.held_end == 2


def test_two_logs_that_differ_in_one_epoch(disks):
    disks.append(1, batch(1, 1, "a"))
    with violated("log-matches"):
        disks.append(2, batch(1, 1, "b"))


def test_two_logs_that_differ_before_a_record_that_both_have(disks):
    disks.append(1, batch(1, 1))
    for each in IDS:
        disks.says(each, 2, leader=2)
    disks.append(2, leads(2, 2, 1), batch(2, 2))
    disks.append(3, leads(1, 1, 0))
    disks.append(3, batch(1, 1))
    with violated("log-matches"):
        disks.append(3, batch(2, 2))


def test_two_leaders_of_one_epoch(disks):
    disks.says(1, 2, leader=1)
    with violated("one-leader"):
        disks.says(3, 2, leader=3)


def test_two_votes_of_one_voter(disks):
    disks.says(3, 2, voted=1)
    with violated("one-vote"):
        disks.says(3, 2, voted=2)


def test_an_epoch_that_goes_back(disks):
    disks.says(3, 5)
    with violated("one-vote"):
        disks.says(3, 4)


def test_a_leader_by_the_vote_of_one_whose_disk_does_not_say_so(disks):
    disks.says(1, 2, leader=1)
    disks.says(2, 2)
    with violated("one-vote"):
        disks.append(1, leads(1, 2, 1))


def test_a_leader_by_too_few_votes(disks):
    disks.says(1, 2, leader=1)
    with violated("one-vote"):
        disks.append(1, leads(1, 2, 1, granting=(1,)))


def test_a_leader_that_lacks_what_is_committed(disks):
    for each in IDS:
        disks.says(each, 2, leader=3)
    with violated("leader-is-complete"):
        disks.append(3, leads(3, 2, 0, granting=(2, 3)))


def test_a_follower_that_drops_what_is_committed(disks):
    disks.append(2, batch(1, 1), sync=False)
    disks.of[2].truncated(SEGMENT, len(encode_batch(leads(1, 1, 0))))
    with violated("committed-survives"):
        disks.of[2].truncated(SEGMENT, 0)


def test_a_log_that_is_deleted_before_the_snapshot_that_replaces_it_is_there(disks):
    disks.of[1].replaced(layout.snapshot_path(SnapshotId(1, 1)), b"")
    disks.of[1].deleted(SEGMENT)
    with violated("committed-survives"):
        disks.of[2].deleted(SEGMENT)


def test_a_start_without_what_was_acknowledged(disks):
    state = {layout.QUORUM_STATE: b'{"leaderEpoch": 1, "leaderId": 1, "votedId": -1}'}
    disks.of[2].begins({**state, SEGMENT: disks.files[2]})
    with violated("committed-survives"):
        disks.of[2].begins({**state, SEGMENT: b""})


def test_a_disk_that_was_lost_promises_nothing(disks):
    disks.says(2, 2, voted=1)
    disks.of[2].is_another()
    disks.of[2].begins({})
    assert disks.of[2].held_end == 0
    disks.says(2, 2, voted=3)


def test_a_snapshot_of_what_is_not_committed(disks):
    with violated("snapshot-is-committed"):
        disks.of[3].replaced(layout.snapshot_path(SnapshotId(2, 1)), b"")


def test_a_majority_that_replaces_what_was_committed(disks):
    """All that stops it earlier is left out: nobody wrote who leads, and both began empty."""
    for each in (2, 3):
        disks.of[each].is_another()
        disks.of[each].begins({})
        disks.files[each] = b""
        disks.says(each, 2, leader=3)
    disks.append(3, batch(0, 2))
    with violated("committed-survives"):
        disks.append(2, batch(0, 2))
