"""The life of one voter: epochs, group commit, the high watermark, restarts."""

from __future__ import annotations

from random import Random

import pytest

from emulator.raft import AppendRefusedError, Raft, RaftConfig, RecoveryError
from emulator.seam import AppendFile, Log, ReplaceFile, SyncFile
from tests.unit.raft.world import (
    CLUSTER,
    EPOCHS,
    NODE,
    NOW,
    QUORUM_STATE,
    SEGMENT,
    World,
    config,
    no_op,
    topic,
)
from wire import records as r
from wire.record_serde import decode_control


def test_the_epoch_is_on_disk_before_the_first_byte_of_it():
    effects = Raft(config(), {}, Random(1), NOW).start(NOW)
    kinds = [(type(e), getattr(e, "path", None)) for e in effects if not isinstance(e, Log)]
    assert kinds == [
        (ReplaceFile, "__cluster_metadata-0/partition.metadata"),
        (ReplaceFile, QUORUM_STATE),
        (ReplaceFile, EPOCHS),
        (ReplaceFile, SEGMENT),
        (AppendFile, SEGMENT),
        (SyncFile, SEGMENT),
    ]


def test_an_epoch_begins_with_a_leader_change_as_kafka_writes_it():
    world = World().start()
    (batch,) = world.raft.read(0, 0)
    assert batch.is_control
    assert batch.leader_epoch == 1
    key, value = batch.records[0]
    assert key == bytes.fromhex("00000002")
    assert value.hex() == "000000000bb80200000bb8000200000bb80000"
    voters = [r.LeaderChangeMessage.Voter(voter_id=NODE)]
    assert decode_control(key, value) == r.LeaderChangeMessage(
        leader_id=NODE, voters=voters, granting_voters=voters
    )
    assert len(world.disk.files[SEGMENT]) == 91, "the size of Kafka's own first batch"


def test_each_start_takes_the_next_epoch_and_notes_where_it_begins():
    world = World().start()
    world.append(no_op(), no_op())
    world = world.restarted().start()
    world = world.restarted().start()
    assert world.raft.leader_epoch == 3
    assert world.raft.epoch_start_offset == 4
    assert world.disk.files[EPOCHS] == b"0\n3\n1 0\n2 3\n3 4\n"
    assert world.disk.files[QUORUM_STATE] == (
        b'{"clusterId":"","leaderId":3000,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":3000}],"data_version":0}'
    )


def test_a_start_that_dies_after_its_epoch_file_still_used_the_epoch_up():
    world = World()
    epoch_only = [e for e in world.raft.start(NOW) if getattr(e, "path", "") == QUORUM_STATE]
    world.disk.apply(epoch_only)
    assert world.restarted().start().raft.leader_epoch == 2


def test_a_log_with_a_later_epoch_than_the_epoch_file_wins():
    world = World().start().restarted().start()
    del world.disk.files[QUORUM_STATE]
    assert world.restarted().start().raft.leader_epoch == 3


def test_nothing_is_committed_until_the_epochs_first_record_is_durable():
    world = World().start()
    world.append(no_op())
    world = world.restarted()
    world.disk.apply(world.raft.start(world.now))
    assert world.raft.log_end_offset == 3
    assert world.raft.high_watermark == -1
    world.sync()
    assert world.raft.high_watermark == 3


def test_appends_during_a_sync_leave_as_one_group_after_it():
    world = World().start()
    assert world.raft.append([no_op()], NOW) == 1
    first = world.raft.flush(NOW)
    assert world.raft.append([topic("a"), topic("b")], NOW) == 2
    assert world.raft.append([no_op()], NOW) == 4
    assert world.raft.flush(NOW) == []
    world.disk.apply(first)
    assert world.raft.high_watermark == 1
    second = world.raft.synced(world.disk.sync(), NOW)
    assert world.raft.high_watermark == 2
    assert [type(e) for e in second] == [AppendFile, SyncFile]
    world.disk.apply(second)
    assert world.raft.synced(world.disk.sync(), NOW) == []
    assert world.raft.high_watermark == world.raft.log_end_offset == 5
    assert not world.raft.dirty


def test_a_batch_is_read_back_whole_with_its_time_and_epoch():
    world = World().start()
    world.append(topic("a"), topic("b"))
    (batch,) = world.raft.read(2, 2)
    assert (batch.base_offset, batch.last_offset, batch.leader_epoch) == (1, 2, 1)
    assert batch.base_timestamp == NOW
    assert [value for _, value in batch.records] == [topic("a"), topic("b")]
    assert [b.base_offset for b in world.raft.read(0, 99)] == [0, 1]


def test_timestamps_never_go_back():
    world = World().start()
    world.raft.append([no_op()], NOW + 5)
    world.raft.append([no_op()], NOW + 3)
    assert [b.base_timestamp - NOW for b in world.raft.read(1, 2)] == [5, 5]


@pytest.mark.parametrize(
    "value",
    [b"\x01\x14\x00", no_op() + b"\x00", b"\x00\x14\x00\x00", b"\x01\x7f\x00\x00", b""],
    ids=["cut", "trailing byte", "frame 0", "unknown type", "empty"],
)
def test_a_record_our_decoder_does_not_read_to_the_end_is_not_appended(value):
    world = World().start()
    with pytest.raises(AppendRefusedError, match="our own decoder refuses"):
        world.raft.append([no_op(), value], NOW)
    assert world.raft.log_end_offset == 1
    assert world.raft.flush(NOW) == []
    assert world.append(no_op()) == 1


def test_a_batch_that_is_empty_or_too_large_is_not_appended():
    world = World(batch_bytes_max=200).start()
    with pytest.raises(AppendRefusedError, match="at least one record"):
        world.raft.append([], NOW)
    with pytest.raises(AppendRefusedError, match="at most 200 are allowed"):
        world.raft.append([topic("t" * 200)], NOW)
    assert world.raft.log_end_offset == 1


def test_a_full_segment_is_followed_by_one_named_after_its_first_offset():
    world = World(segment_bytes=300).start()
    for _ in range(6):
        world.append(no_op())
    names = sorted(path for path in world.disk.files if path.endswith(".log"))
    assert names[:2] == [SEGMENT, "__cluster_metadata-0/00000000000000000003.log"]
    again = world.restarted(segment_bytes=300)
    assert again.raft.log_end_offset == 7
    assert list(again.raft.read(0, 6)) == list(world.raft.read(0, 6))


def test_a_segment_has_its_size_after_a_restart():
    world = World(segment_bytes=300).start()
    world = world.restarted(segment_bytes=300).start()
    assert sorted(path for path in world.disk.files if path.endswith(".log")) == [SEGMENT]
    world.append(topic("a"))
    assert len(world.disk.files[SEGMENT]) > 182, "two LeaderChanges of 91 bytes, and one more"


def test_a_quorum_without_this_node_is_refused():
    RaftConfig(NODE, CLUSTER, {NODE: ("a", 1), 3001: ("b", 1)})
    with pytest.raises(ValueError, match="must be a voter"):
        RaftConfig(NODE, CLUSTER, {3001: ("b", 1)})


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"directory_id": b"short"}, "5 bytes"),
        ({"segment_bytes": 0}, "must be positive"),
        ({"snapshots_retained": 0}, "must be positive"),
    ],
)
def test_a_configuration_out_of_bounds_is_refused(changes, why):
    with pytest.raises(ValueError, match=why):
        config(**changes)


def test_a_folder_of_other_voters_is_refused():
    world = World().start()
    text = world.disk.files[QUORUM_STATE].replace(b'"voterId":3000', b'"voterId":3001')
    with pytest.raises(RecoveryError, match=r"quorum-state: written for voters \[3001\]"):
        World({**world.disk.files, QUORUM_STATE: text})


def test_shutdown_flushes_and_refuses_fetches():
    world = World().start()
    world.fetch(1)
    assert world.raft.deadline_ms == NOW + 500
    world.raft.append([no_op()], NOW)
    effects = world.raft.shutdown(NOW)
    assert [type(e) for e in effects] == [AppendFile, SyncFile]
    assert world.partition().error_code == 8
    world.fetch(1)
    assert world.partition().error_code == 8
    assert world.raft.deadline_ms is None
