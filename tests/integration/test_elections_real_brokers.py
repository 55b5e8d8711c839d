"""Leaders and replicas that move in a migration of real 3.9.2 brokers."""

from __future__ import annotations

import pytest

from bench.judge.stores import dump_log, from_log
from tests.integration.elections import ELECTION, MOVING, SWAPPED
from tests.integration.looking import envelopes, zk_ops
from wire import messages as m
from wire.errors import ErrorCode

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

DONE = "Successfully completed leader election (PREFERRED) for partitions"
ALREADY = "Valid replica already elected for partitions"


# --- in ZooKeeper mode


@pytest.mark.requirement("K02")
def test_while_zookeeper_rules_our_tool_asks_by_the_znode(story):
    assert story.seen["leaders_swapped"] == {0: 0, 1: 0, 2: 0}
    code, out, err = story.seen["by_zookeeper"]
    assert code == 0
    assert "Warning: --zookeeper is deprecated" in err
    assert f"{DONE} swapped-0, swapped-1, swapped-2" in out
    assert story.seen["leaders_by_zookeeper"] == {0: 1, 1: 1, 2: 1}


# --- in dual write


@pytest.mark.requirement("K01")
def test_kafkas_tool_elects(story):
    before = story.seen["leaders_reordered"]
    assert 2 not in before.values()
    printed = story.seen["java_elected"]
    assert printed.code == 0, printed
    assert f"{DONE} swapped-0" in printed.out
    assert story.seen["leaders_after_java"] == {**before, 0: 2}


def test_our_tool_says_what_kafkas_says(story):
    code, out, err = story.seen["ours_elected"]
    assert (code, out, err) == (0, f"{DONE} swapped-1\n", "")
    assert story.seen["leaders_after_ours"] == {**story.seen["leaders_reordered"], 0: 2, 1: 2}
    assert story.seen["ours_again"] == (0, f"{ALREADY} swapped-1\n", "")
    again = story.seen["java_again"]
    assert again.code == 0, again
    assert f"{ALREADY} swapped-0" in again.out


@pytest.mark.requirement("K15")
def test_when_the_answer_comes_the_leader_has_moved(story):
    """In the log as it was then; what brokers show trails it by the requests to them."""
    log = from_log(dump_log(story.seen["log_at_the_answer"]))
    leaders = {index: one["leader"] for index, one in log.topics["swapped"]["partitions"].items()}
    before = story.seen["leaders_reordered"]
    assert before[1] != 2
    assert leaders == {0: 2, 1: 2, 2: before[2]}
    assert story.seen["leaders_after_ours"][1] == 2


@pytest.mark.requirement("K06", "K14")
def test_an_unknown_partition_is_told_beside_one_that_needs_no_election(story):
    printed = story.seen["java_unknown"]
    assert printed.code == 1
    lines = (printed.out + printed.err).splitlines()
    assert [line for line in lines if "swapped-99" in line and "UnknownTopicOrPartition" in line]
    assert [line for line in lines if "swapped-0" in line] == [
        "Valid replica already elected for partitions swapped-0"
    ]


@pytest.mark.requirement("K18")
def test_why_nobody_was_elected_is_told_by_code(story):
    def code(answer):
        ((told,),) = [one.partition_result for one in answer.replica_election_results]
        return answer.error_code, told.error_code

    assert code(story.seen["preferred_away"]) == (0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    assert code(story.seen["unclean_needless"]) == (0, ErrorCode.ELECTION_NOT_NEEDED)


@pytest.mark.requirement("K05")
@pytest.mark.parametrize("when", ["all_elected", "elected_after_pause"])
def test_no_list_elects_every_partition_whose_preferred_replica_does_not_lead(story, when):
    """By librdkafka, which then saw every preferred replica lead; what led already is left out."""
    results = story.seen[when]
    assert (SWAPPED, 2) in results
    assert {error for error in results.values() if error is not None} == set()


@pytest.mark.requirement("K03", "K20")
def test_nobody_reads_the_election_znode_once_kraft_rules(story):
    """A foreign hand made it for swapped-2: not moved by it, and it is there at the end."""
    left = story.seen["election_znode_at_the_end"]
    assert left["partitions"] == [{"topic": SWAPPED, "partition": 2}]
    assert story.seen["leaders_after_ours"][2] == story.seen["leaders_reordered"][2] != 2
    read = [at for at, _, ops in zk_ops(story.zk_tap) for op in ops if op.path == ELECTION]
    assert max(read) < story.seen["tampered"], "until the copy it may hold up the migration"
    code, out, err = story.seen["refused_by_zookeeper"]
    assert (code, out) == (1, "")
    assert "a KRaft controller (node 3000) leads this cluster" in err


# --- replicas


def test_a_reassignment_under_way_is_copied_and_listed(story):
    ((asked,),) = [
        {one.error_code for one in topic.partitions}
        for topic in story.seen["moving_asked"].responses
    ]
    assert asked == 0
    znode = story.seen["moving_at_dual_write"]
    assert znode["adding_replicas"] == {"0": [2], "1": [2]}
    assert znode["removing_replicas"] == {"0": [0], "1": [0]}
    printed = story.seen["reassignments_listed"]
    assert printed.code == 0, printed
    for index in (0, 1):
        line = f"{MOVING}-{index}: replicas: 2,1,0. adding: 2. removing: 0."
        assert line in printed.out


def test_it_can_be_cancelled_and_completes_where_it_is_not(story):
    cancelled = story.seen["moving_cancelled"]
    assert cancelled.code == 0, cancelled
    assert "Successfully cancelled partition reassignment" in cancelled.out
    verified = story.seen["moving_verified"]
    assert verified.code == 0, verified
    assert "Reassignment of partition moving-0 is completed." in verified.out
    assert story.seen["reordered"].code == 0, story.seen["reordered"]


def stops(story):
    """Broker -> (partition, leader epoch, delete) of ``moving`` in StopReplica requests."""
    return {
        broker: [
            (one.partition_index, one.leader_epoch, one.delete_partition)
            for request in tap.of(m.StopReplicaRequest)
            if request.is_kraft_controller
            for topic in request.topic_states
            if topic.topic_name == MOVING
            for one in topic.partition_states
        ]
        for broker, tap in enumerate(story.broker_taps)
    }


@pytest.mark.requirement("L03")
def test_a_replica_that_was_moved_away_is_deleted_on_its_broker(story):
    """KIP-866 "Controller RPCs": StopReplica to the brokers that lost a replica, to no others."""
    epochs = {}
    changes = [
        one["data"]
        for one in story.records
        if one["type"] == "PARTITION_CHANGE_RECORD" and "removingReplicas" in one["data"]
    ]
    assert changes
    found = stops(story)
    assert [(index, delete) for index, _, delete in found[0]] == [(0, True)]
    assert [(index, delete) for index, _, delete in found[2]] == [(1, True)]
    assert found[1] == []
    for tap in story.broker_taps:
        for request in tap.of(m.LeaderAndIsrRequest):
            for topic in request.topic_states:
                for one in topic.partition_states:
                    if topic.topic_name == MOVING and request.is_kraft_controller:
                        key = one.partition_index
                        epochs[key] = max(epochs.get(key, -1), one.leader_epoch)
    assert found[0][0][1] <= epochs[0]
    assert found[2][0][1] <= epochs[1]
    assert min(found[0][0][1], found[2][0][1]) > 0
    assert story.seen["moving_held"] == {0: {1}, 1: {0, 1}, 2: {0}}


def test_brokers_forward_elections_and_reassignments(story):
    """KIP-590: brokers in ZooKeeper mode hand them to the controller in Envelopes."""
    kinds = {type(message) for _, message, _ in envelopes(story)}
    assert {
        m.ElectLeadersRequest,
        m.AlterPartitionReassignmentsRequest,
        m.ListPartitionReassignmentsRequest,
    } <= kinds
