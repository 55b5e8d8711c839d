"""FetchSnapshot, and the fetches that lead to it."""

from __future__ import annotations

import pytest

from emulator.raft import replica
from emulator.raft.election import Progress
from emulator.raft.layout import SnapshotId, snapshot_path
from tests.unit.raft.world import CLUSTER, NOW, World, no_op, topic
from wire import messages as m
from wire.frame import encode_response


def world_with_snapshots() -> World:
    """Snapshots at 2 and 3 of epoch 1; the log holds 2 to 4, epoch 2 begins at 4."""
    world = World(fetch_bytes_max=100).start()
    world.append(no_op())
    world.snapshot(2, [topic("a")])
    world.append(no_op())
    world.snapshot(3, [topic("a"), topic("b")])
    world.append(no_op())
    return world.restarted(fetch_bytes_max=100).start()


def request(
    end_offset: int = 3, epoch: int = 1, position: int = 0, leader_epoch: int = 2, **changes: object
) -> m.FetchSnapshotRequest:
    partition = m.FetchSnapshotRequest.PartitionSnapshot(
        partition=int(str(changes.pop("partition", 0))),
        current_leader_epoch=leader_epoch,
        snapshot_id=m.FetchSnapshotRequest.SnapshotId(end_offset=end_offset, epoch=epoch),
        position=position,
    )
    name = str(changes.pop("name", "__cluster_metadata"))
    topics = [m.FetchSnapshotRequest.TopicSnapshot(name=name, partitions=[partition])]
    return m.FetchSnapshotRequest(
        **{"cluster_id": CLUSTER, "max_bytes": 8 << 20, "topics": topics, **changes}
    )


@pytest.mark.parametrize(
    ("offset", "last", "snapshot"),
    [
        (0, 0, (3, 1)),
        (0, 1, (3, 1)),
        (1, 1, (3, 1)),
        (2, 0, (3, 1)),
        (4, 0, (3, 1)),
        (2, 1, None),
        (4, 1, None),
    ],
)
def test_whoever_is_behind_the_log_is_sent_to_the_newest_snapshot(offset, last, snapshot):
    world = world_with_snapshots()
    assert world.raft.log_start_offset == 2
    world.fetch(offset, last=last, max_wait_ms=0)
    partition = world.partition()
    found = (partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
    assert found == (snapshot or (-1, -1))
    assert partition.diverging_epoch == m.FetchResponse.EpochEndOffset()
    assert bool(partition.records) == (snapshot is None)
    assert partition.log_start_offset == 2


def test_a_snapshot_leads_even_while_the_log_begins_at_zero():
    world = World().start()
    world.append(no_op())
    world.snapshot(2, [topic("a")])
    assert world.raft.log_start_offset == 0
    world.fetch(0, last=0)
    assert world.partition().snapshot_id == m.FetchResponse.SnapshotId(end_offset=2, epoch=1)


@pytest.mark.parametrize("version", [0, 1])
def test_the_pieces_put_together_are_the_file(version):
    world = world_with_snapshots()
    whole = b""
    while True:
        world.raft.request(request(position=len(whole)), version, NOW, "t")
        (response,) = world.replies()
        assert encode_response(59, version, 1, response)
        assert [e.port for e in response.node_endpoints] == ([23000] if version else [])
        (partition,) = response.topics[0].partitions
        assert partition.error_code == 0
        assert partition.position == len(whole)
        assert (partition.snapshot_id.end_offset, partition.snapshot_id.epoch) == (3, 1)
        assert partition.current_leader.leader_epoch == 2
        assert 0 < len(partition.unaligned_records) <= 100
        whole += partition.unaligned_records
        if len(whole) >= partition.size:
            break
    assert whole == world.disk.files[snapshot_path(SnapshotId(3, 1))]


def test_max_bytes_is_kept():
    world = world_with_snapshots()
    world.raft.request(request(max_bytes=7), 1, NOW, "t")
    (response,) = world.replies()
    assert len(response.topics[0].partitions[0].unaligned_records) == 7


@pytest.mark.parametrize(
    ("changes", "top", "partition"),
    [
        ({"cluster_id": "another"}, 104, None),
        ({"topics": []}, 42, None),
        ({"name": "another"}, 0, 3),
        ({"partition": 1}, 0, 3),
        ({"leader_epoch": 1}, 0, 74),
        ({"leader_epoch": 3}, 0, 75),
        ({"end_offset": 4}, 0, 98),
        ({"epoch": 2}, 0, 98),
        ({"end_offset": 0, "epoch": 0}, 0, 98),
        ({"position": -1}, 0, 99),
        ({"position": 10_000}, 0, 99),
        ({}, 0, 0),
    ],
)
def test_checks_in_order_of_precedence(changes, top, partition):
    world = world_with_snapshots()
    world.raft.request(request(**changes), 1, NOW, "t")
    (response,) = world.replies()
    assert response.error_code == top
    found = [p.error_code for t in response.topics for p in t.partitions]
    assert found == ([] if partition is None else [partition])


def test_observers_share_what_they_get_of_a_snapshot_and_a_voter_does_not(monkeypatch):
    monkeypatch.setattr(replica, "OBSERVERS_BYTES_MAX", 30)
    monkeypatch.setattr(replica, "OBSERVER_BYTES_MIN", 10)
    world = world_with_snapshots()
    monkeypatch.setattr(replica.Replica, "other_voter", lambda _self, replica_id: replica_id == 7)
    lengths = []
    for each in (1, 7):
        world.raft.request(request(replica_id=each), 1, NOW, "t")
        lengths.append(len(world.replies()[-1].topics[0].partitions[0].unaligned_records))
    assert lengths == [30, 100]


def test_a_node_that_shuts_down_serves_no_snapshot():
    world = world_with_snapshots()
    world.raft.shutdown(NOW)
    world.raft.request(request(), 1, NOW, "t")
    assert world.replies()[-1].topics[0].partitions[0].error_code == 8


def test_only_a_voter_that_is_given_a_piece_is_heard():
    """Whoever asks for a snapshot that is not here brings nobody on."""
    world = world_with_snapshots()
    progress = Progress([7], NOW)
    world.raft._member.election.progress = progress
    for position, code, heard_ms in ((9_999, 99, NOW), (0, 0, NOW + 5)):
        world.raft.request(request(position=position, replica_id=7), 1, NOW + 5, "t")
        assert world.replies()[0].topics[0].partitions[0].error_code == code
        assert progress.silent_since_ms(7) == heard_ms
