"""Vote, BeginQuorumEpoch and EndQuorumEpoch at the only voter there is."""

from __future__ import annotations

import pytest

from tests.unit.raft.trio import Trio
from tests.unit.raft.world import CLUSTER, World
from wire import messages as m
from wire.frame import encode_response

TOPIC = "__cluster_metadata"
OURS = bytes(range(16))


def ask(kind: str, version: int = 1, **changes: object):
    """One request to a leader of epoch 2; the answer, which encodes at its version."""
    world = World(directory_id=OURS).start().restarted(directory_id=OURS).start()
    key, request_type = {
        "vote": (52, m.VoteRequest),
        "begin": (53, m.BeginQuorumEpochRequest),
        "end": (54, m.EndQuorumEpochRequest),
    }[kind]
    default = {
        "vote": {"candidate_epoch": 3, "candidate_id": 7, "last_offset_epoch": 2, "last_offset": 9},
        "begin": {"leader_id": 3000, "leader_epoch": 2},
        "end": {"leader_id": 7, "leader_epoch": 2},
    }[kind]
    names = ("cluster_id", "voter_id", "topics", "topic_name")
    outer = {name: changes.pop(name) for name in names if name in changes}
    partition = request_type.PartitionData(**{**default, **changes})
    topic = request_type.TopicData(
        topic_name=str(outer.pop("topic_name", TOPIC)), partitions=[partition]
    )
    request = request_type(**{"cluster_id": CLUSTER, "topics": [topic], **outer})
    world.raft.request(request, version, world.now, "t")
    (response,) = world.replies()
    assert encode_response(key, version, 1, response)
    assert world.raft.leader_epoch == 2
    assert world.raft.is_leader
    return response


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("kind", ["vote", "begin", "end"])
def test_the_answer_names_the_leader_and_nothing_moves(kind, version):
    response = ask(kind, version)
    (partition,) = response.topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 3000, 2)
    assert [e.port for e in response.node_endpoints] == ([23000] if version else [])
    assert not getattr(partition, "vote_granted", False)


@pytest.mark.parametrize(
    ("kind", "changes", "top", "partition"),
    [
        ("vote", {"cluster_id": "x"}, 104, None),
        ("vote", {"topics": []}, 42, None),
        ("vote", {"topic_name": "x"}, 42, None),
        ("vote", {"partition_index": 1}, 42, None),
        ("vote", {"candidate_epoch": 1, "last_offset_epoch": 0}, 0, 74),
        ("vote", {"last_offset": -1}, 0, 42),
        ("vote", {"last_offset_epoch": -1}, 0, 42),
        ("vote", {"last_offset_epoch": 3}, 0, 42),
        ("vote", {"candidate_id": -1}, 0, 42),
        ("vote", {"voter_id": 3001}, 0, 125),
        ("vote", {"voter_id": 3000, "voter_directory_id": b"x" * 16}, 0, 125),
        ("vote", {"voter_id": 3000, "voter_directory_id": OURS}, 0, 0),
        ("vote", {"voter_id": 3000}, 0, 0),
        ("begin", {"cluster_id": "x"}, 104, None),
        ("begin", {"leader_epoch": 1}, 0, 74),
        ("begin", {"leader_id": 7, "leader_epoch": 9}, 0, 42),
        ("begin", {"leader_id": 3000, "leader_epoch": 3}, 0, 42),
        ("begin", {"leader_id": 3000, "leader_epoch": 2**30}, 0, 42),
        ("begin", {"leader_id": -1}, 0, 42),
        ("begin", {"voter_id": 3001}, 0, 125),
        ("end", {"cluster_id": "x"}, 104, None),
        ("end", {"leader_epoch": 1}, 0, 74),
        ("end", {"leader_epoch": 3}, 0, 42),
        ("end", {"leader_id": 3000, "leader_epoch": 3}, 0, 42),
        ("end", {"leader_id": -1}, 0, 42),
    ],
)
def test_checks_in_order_of_precedence(kind, changes, top, partition):
    response = ask(kind, **changes)
    assert response.error_code == top
    found = [p.error_code for t in response.topics for p in t.partitions]
    assert found == ([] if partition is None else [partition])


@pytest.mark.parametrize("ahead", [0, 1, 7, 2**20])
@pytest.mark.parametrize("kind", ["begin_quorum_epoch", "end_quorum_epoch"])
def test_no_request_can_say_to_one_of_three_that_it_leads(kind, ahead):
    """Nobody but itself knows; the epoch of the leader, and that of its followers, stays."""
    trio = Trio(3).start()
    trio.run(5_000)
    before = [(node.id, epoch_of(node), leader_of(node)) for node in trio.up()]
    request_type = {
        "begin_quorum_epoch": m.BeginQuorumEpochRequest,
        "end_quorum_epoch": m.EndQuorumEpochRequest,
    }[kind]
    for node in trio.up():
        asked = request_type.PartitionData(leader_id=node.id, leader_epoch=epoch_of(node) + ahead)
        topic = request_type.TopicData(topic_name=TOPIC, partitions=[asked])
        node.raft.request(request_type(topics=[topic]), 1, trio.now, (node, -1, None))
        (reply,) = node.raft.take_replies()
        (partition,) = reply.message.topics[0].partitions
        assert partition.error_code in ({42} if ahead else {0, 42})
        assert (partition.leader_id, partition.leader_epoch) == (leader_of(node), epoch_of(node))
        trio.perform(node, [])
    trio.run(5_000)
    assert [(node.id, epoch_of(node), leader_of(node)) for node in trio.up()] == before


def epoch_of(node) -> int:
    return node.raft.leader_epoch


def leader_of(node) -> int:
    return node.raft.leader_id
