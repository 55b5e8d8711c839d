"""Requests of a voter to the other voters, as messages that another layer sends.

Source: RaftUtil and KafkaRaftClient, Kafka 3.9; KIP-595, KIP-630.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from emulator.raft.config import RaftConfig
from emulator.raft.layout import TOPIC, TOPIC_ID, SnapshotId
from wire import messages as m

FETCH_WAIT_MS: Final = 500
FETCH_BYTES_MAX: Final = 128 * 1024
"""Of the log in one answer, but at least one batch: all of it is replayed in one step, a record of
60 to 100 bytes in 5 to 10 us."""
SNAPSHOT_PIECE_BYTES: Final = 1024 * 1024
"""Of a snapshot in one answer; it is replayed in slices."""


class LogEnd(NamedTuple):
    """The end of a log; compared as votes compare it: the epoch first."""

    epoch: int
    """Leader epoch of the last record, 0 for an empty log."""
    offset: int
    """Offset of the next record."""


class Ask(NamedTuple):
    """A request to another voter. Its answer, or that there is none, comes back with it."""

    node_id: int
    epoch: int
    """The asking node's epoch when it asked."""
    message: object


def vote(config: RaftConfig, node_id: int, epoch: int, end: LogEnd) -> Ask:
    """Vote (52): ask for this epoch's vote; directory ids are zeros in a static quorum."""
    kind = m.VoteRequest
    partition = kind.PartitionData(
        candidate_epoch=epoch,
        candidate_id=config.node_id,
        candidate_directory_id=config.directory_id,
        last_offset_epoch=end.epoch,
        last_offset=end.offset,
    )
    topics = [kind.TopicData(topic_name=TOPIC, partitions=[partition])]
    message = kind(cluster_id=config.cluster_id, voter_id=node_id, topics=topics)
    return Ask(node_id, epoch, message)


def begin_quorum_epoch(config: RaftConfig, node_id: int, epoch: int) -> Ask:
    """BeginQuorumEpoch (53): the asking node leads ``epoch``."""
    kind = m.BeginQuorumEpochRequest
    partition = kind.PartitionData(leader_id=config.node_id, leader_epoch=epoch)
    host, port = config.voters[config.node_id]
    endpoint = kind.LeaderEndpoint(name=config.listener_name, host=host, port=port)
    message = kind(
        cluster_id=config.cluster_id,
        voter_id=node_id,
        topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[endpoint],
    )
    return Ask(node_id, epoch, message)


def end_quorum_epoch(
    config: RaftConfig, node_id: int, epoch: int, successors: Sequence[int]
) -> Ask:
    """EndQuorumEpoch (54): the asking node leads ``epoch`` no more; the best successor first."""
    kind = m.EndQuorumEpochRequest
    partition = kind.PartitionData(
        leader_id=config.node_id,
        leader_epoch=epoch,
        preferred_successors=tuple(successors),
        preferred_candidates=[kind.ReplicaInfo(candidate_id=each) for each in successors],
    )
    host, port = config.voters[config.node_id]
    endpoint = kind.LeaderEndpoint(name=config.listener_name, host=host, port=port)
    message = kind(
        cluster_id=config.cluster_id,
        topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[endpoint],
    )
    return Ask(node_id, epoch, message)


def fetch(config: RaftConfig, node_id: int, epoch: int, end: LogEnd) -> Ask:
    """Fetch (1) at the end of the own log, all of which is durable."""
    kind = m.FetchRequest
    partition = kind.FetchPartition(
        current_leader_epoch=epoch,
        fetch_offset=end.offset,
        last_fetched_epoch=end.epoch,
        replica_directory_id=config.directory_id,
    )
    message = kind(
        cluster_id=config.cluster_id,
        replica_state=kind.ReplicaState(replica_id=config.node_id),
        max_wait_ms=FETCH_WAIT_MS,
        max_bytes=FETCH_BYTES_MAX,
        topics=[kind.FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])],
    )
    return Ask(node_id, epoch, message)


def fetch_snapshot(
    config: RaftConfig,
    node_id: int,
    epoch: int,
    snapshot: SnapshotId,
    position: int,
    *,
    bytes_max: int = SNAPSHOT_PIECE_BYTES,
) -> Ask:
    """FetchSnapshot (59): the bytes of a snapshot from ``position`` on."""
    kind = m.FetchSnapshotRequest
    partition = kind.PartitionSnapshot(
        current_leader_epoch=epoch,
        snapshot_id=kind.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
        position=position,
        replica_directory_id=config.directory_id,
    )
    message = kind(
        cluster_id=config.cluster_id,
        replica_id=config.node_id,
        max_bytes=bytes_max,
        topics=[kind.TopicSnapshot(name=TOPIC, partitions=[partition])],
    )
    return Ask(node_id, epoch, message)


def sign_of_life(
    config: RaftConfig, node_id: int, epoch: int, end: LogEnd, snapshot: SnapshotId | None
) -> Ask:
    """What a voter asks that can take nothing: the leader counts it as in contact.

    The first byte of a snapshot that the leader has; None: a Fetch, which names it.
    """
    if snapshot is None:
        return fetch(config, node_id, epoch, end)
    return fetch_snapshot(config, node_id, epoch, snapshot, 0, bytes_max=1)
