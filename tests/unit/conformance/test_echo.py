"""An answer names what was asked alone, each once, and a refusal has no values."""

from __future__ import annotations

import pytest

from bench.conformance.case import Violation
from bench.conformance.echo import Named, bare, once, partitions, strangers
from wire import messages as m
from wire.schema import ZERO_UUID

ID = bytes(15) + b"\x07"


def fetch(name: str, topic_id: bytes, *numbers: int) -> m.FetchRequest:
    kind = m.FetchRequest
    parts = [kind.FetchPartition(partition=one) for one in numbers]
    return kind(topics=[kind.FetchTopic(topic=name, topic_id=topic_id, partitions=parts)])


def fetched(name: str, topic_id: bytes, *numbers: int) -> m.FetchResponse:
    kind = m.FetchResponse
    parts = [kind.PartitionData(partition_index=one) for one in numbers]
    topic = kind.FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=parts)
    return kind(responses=[topic])


def test_partitions_are_numbers_or_structs() -> None:
    assert [*partitions(fetch("a", ID, 3, 4))] == [Named("a", ID, 3), Named("a", ID, 4)]
    kind = m.ElectLeadersRequest
    elected = kind(topic_partitions=[kind.TopicPartitions(topic="b", partitions=(1,))])
    assert [*partitions(elected)] == [Named("b", ZERO_UUID, 1)]


def test_a_topic_is_known_by_its_name_or_by_its_id() -> None:
    asked = fetch("a", ID, 3, 4)
    for name, topic_id in (("a", ZERO_UUID), ("", ID), ("", ZERO_UUID)):
        strangers(asked, fetched(name, topic_id, 4))
    strangers(m.FetchRequest(), fetched("a", ID, 1))
    for name, topic_id, number in (("a", ID, 5), ("b", ZERO_UUID, 3), ("", ID[::-1], 3)):
        with pytest.raises(Violation, match="partitions of the answer"):
            strangers(asked, fetched(name, topic_id, number))


def test_groups_and_transactions_are_those_that_were_asked_for() -> None:
    group = m.DescribeGroupsResponse.DescribedGroup
    told = m.DescribeGroupsResponse(groups=[group(group_id="a")])
    strangers(m.DescribeGroupsRequest(groups=("a", "b")), told)
    static = m.OffsetCommitRequest(group_id="b", group_instance_id="a")
    for asked in (m.DescribeGroupsRequest(groups=("b",)), static):
        with pytest.raises(Violation, match="group_id of the answer"):
            strangers(asked, told)
    listed = m.ListGroupsResponse.ListedGroup
    strangers(
        m.ListGroupsRequest(states_filter=("Stable",)),
        m.ListGroupsResponse(groups=[listed(group_id="a")]),
    )
    state = m.DescribeTransactionsResponse.TransactionState
    other = m.DescribeTransactionsResponse(transaction_states=[state(transactional_id="x")])
    with pytest.raises(Violation, match="transactional_id of the answer"):
        strangers(m.DescribeTransactionsRequest(transactional_ids=("t",)), other)


def test_an_entry_is_there_as_often_as_it_was_asked_for() -> None:
    group = m.DeleteGroupsResponse.DeletableGroupResult
    told = m.DeleteGroupsResponse(results=[group(group_id="a", error_code=69)] * 2)
    once(m.DeleteGroupsRequest(groups_names=("a", "a")), told)
    with pytest.raises(Violation, match="an entry of results: expected once, got 2 times"):
        once(m.DeleteGroupsRequest(groups_names=("a", "b")), told)
    # An empty text names nothing.
    described = m.DescribeGroupsResponse.DescribedGroup(group_id="a")
    with pytest.raises(Violation, match="an entry of groups: expected once, got 2 times"):
        once(
            m.DescribeGroupsRequest(groups=("a", "", "")),
            m.DescribeGroupsResponse(groups=[described] * 2),
        )
    # Nor does an id of zeros, which each topic has that is asked for by its name.
    kind = m.MetadataRequest
    named = kind(topics=[kind.MetadataRequestTopic(name=one) for one in "ab"])
    topic = m.MetadataResponse.MetadataResponseTopic(error_code=3, name="a")
    with pytest.raises(Violation, match="an entry of topics: expected once, got 2 times"):
        once(named, m.MetadataResponse(topics=[topic, topic]))
    # Results without a name are told apart by their place.
    result = m.CreateAclsResponse.AclCreationResult
    once(m.CreateAclsRequest(), m.CreateAclsResponse(results=[result(), result()]))


def test_what_is_refused_has_no_values() -> None:
    kind = m.FetchResponse.PartitionData
    asked = fetch("a", ID, 7)

    def told(**values: object) -> m.FetchResponse:
        part = kind(partition_index=7, **{"error_code": 3, "high_watermark": -1, **values})
        topic = m.FetchResponse.FetchableTopicResponse(topic_id=ID, partitions=[part])
        return m.FetchResponse(responses=[topic])

    assert bare(asked, told()) == 1
    assert bare(asked, told(error_code=0, high_watermark=5)) == 0
    bare(asked, told(current_leader=m.FetchResponse.LeaderIdAndEpoch(leader_id=1, leader_epoch=2)))
    snapshot = m.FetchResponse.SnapshotId(end_offset=0)
    for name, value in (
        ("high_watermark", 0),
        ("log_start_offset", 0),
        ("records", b"x"),
        ("snapshot_id", snapshot),
    ):
        with pytest.raises(Violation, match="of what is refused"):
            bare(asked, told(**{name: value}))
    joined = m.JoinGroupResponse(error_code=25, member_id="m")
    bare(m.JoinGroupRequest(member_id="m"), joined)
    with pytest.raises(Violation, match="member_id of what is refused"):
        bare(m.JoinGroupRequest(member_id="other"), joined)
