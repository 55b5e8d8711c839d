"""The words of a declaration, and what they refuse."""

import pytest

from wire import messages as m
from wire import records as r
from wire.errors import DeclarationError
from wire.plain import from_plain, to_plain
from wire.schema import Int32, declared_messages, group, layout, lookup, message, replace, spec


def test_what_a_message_is() -> None:
    fetch = spec(m.FetchRequest)
    assert (fetch.name, fetch.key, fetch.kind) == ("FetchRequest", 1, "request")
    assert (fetch.versions, fetch.flexible_from) == (range(18), 12)
    assert spec(r.TopicRecord).kind == "record"
    assert spec(r.SnapshotHeaderRecord).kind == "control"
    assert spec(m.DefaultPrincipalData).kind == "data"
    assert lookup("response", 1) is m.FetchResponse
    assert lookup("request", 78) is None


def test_a_number_is_declared_once() -> None:
    before = declared_messages()
    with pytest.raises(DeclarationError, match="request 1: FetchRequest and AgainRequest"):

        @message(key=1, versions="0", flexible="none")
        class AgainRequest:
            x: Int32 = 0

    assert declared_messages() == before


def test_every_field_has_a_default() -> None:
    with pytest.raises(DeclarationError, match=r"Bare\.x has no default"):

        @group
        class Bare:
            x: Int32


def test_defaults_are_kafkas_and_never_shared() -> None:
    a, b = m.FetchRequest(), m.FetchRequest()
    assert a.topics == []
    assert a.topics is not b.topics
    assert a.replica_state is not b.replica_state
    assert a.replica_state == m.FetchRequest.ReplicaState(replica_id=-1, replica_epoch=-1)
    assert m.ElectLeadersRequest().timeout_ms == 60_000
    assert r.PartitionChangeRecord().leader == -2
    assert r.PartitionChangeRecord().isr is None


def test_a_copy_with_changes_leaves_the_original() -> None:
    topic = r.TopicRecord(name="a")
    assert replace(topic, name="b") == r.TopicRecord(name="b")
    assert topic.name == "a"


def test_messages_are_plain_values_and_back() -> None:
    form = layout(m.DescribeQuorumRequest, 0)
    partition = m.DescribeQuorumRequest.PartitionData(partition_index=3)
    topic = m.DescribeQuorumRequest.TopicData(topic_name="t", partitions=[partition])
    message = m.DescribeQuorumRequest(topics=[topic])
    plain = to_plain(form, message)
    assert plain["topics"][0]["partitions"] == [{"partition_index": 3, "unknown_tags": []}]
    again = from_plain(form, plain)
    assert again == message
    assert again.topics[0] is not topic
