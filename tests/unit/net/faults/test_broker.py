"""A script at a broker: what its clients see, and what reaches the controller."""

from __future__ import annotations

from emulator.net.faults.fault import Fault
from emulator.net.faults.script import FaultScript
from tests.kit.requests import create_topics, metadata
from tests.unit.broker.joined_brokers import Stage
from wire import messages as m


def stage(*faults: Fault) -> Stage:
    made = Stage()
    made.faults = FaultScript()
    made.faults.add(*faults)
    made.running(1)
    return made


def test_a_refused_topic_is_not_forwarded_and_the_others_are_created() -> None:
    brokers = stage(Fault(api="CreateTopics", topic="b", error="POLICY_VIOLATION"))
    created = brokers.client(1).ask(create_topics("a", "b", "c"), 7)
    assert {one.name: one.error_code for one in created.topics} == {"a": 0, "c": 0, "b": 44}
    brokers.joined.wait(1_000)
    told = brokers.client(1).ask(m.MetadataRequest(topics=None), 12)
    assert sorted(one.name for one in told.topics) == ["a", "c"]


def test_an_answer_of_the_brokers_own_is_struck_by_topic() -> None:
    fault = Fault(api="Metadata", topic="a", error="LEADER_NOT_AVAILABLE", times=1)
    brokers = stage(fault)
    client = brokers.client(1)
    client.ask(create_topics("a", "b"), 7)
    brokers.joined.wait(1_000)
    answers = [client.ask(metadata("a", "b"), 12) for _ in range(2)]
    told = [{one.name: one.error_code for one in answer.topics} for answer in answers]
    assert told == [{"a": 5, "b": 0}, {"a": 0, "b": 0}]
    assert [one.node_id for one in answers[0].brokers] == [1]


def test_metadata_of_struck_topics_only_still_tells_the_brokers() -> None:
    brokers = stage(Fault(api="Metadata", topic="*", error="LEADER_NOT_AVAILABLE"))
    wanted = metadata("a", allow_auto_topic_creation=True)  # as below version 4
    for version in range(1, 13):
        answer = brokers.client(1).ask(wanted, version)
        assert [(one.name, one.error_code) for one in answer.topics] == [("a", 5)]
        assert [one.node_id for one in answer.brokers] == [1]


def test_one_partition_of_a_producers_request_gets_the_error() -> None:
    fault = Fault(api="Produce", topic="a", partition=1, error="NOT_LEADER_OR_FOLLOWER")
    brokers = stage(fault)
    data, part = m.ProduceRequest.TopicProduceData, m.ProduceRequest.PartitionProduceData
    parts = [part(index=index, records=b"") for index in range(2)]
    request = m.ProduceRequest(acks=1, topic_data=[data(name="a", partition_data=parts)])
    answer = brokers.client(1).ask(request, 9)
    (told,) = answer.responses
    # The other is refused by the broker itself: it stores no records.
    assert {one.index: one.error_code for one in told.partition_responses} == {0: 42, 1: 6}


def test_a_producer_that_wants_no_answer_is_cut_off_as_kafka_does() -> None:
    brokers = stage(Fault(api="Produce", error="NOT_LEADER_OR_FOLLOWER"))
    data, part = m.ProduceRequest.TopicProduceData, m.ProduceRequest.PartitionProduceData
    topic = data(name="a", partition_data=[part(index=0, records=b"")])
    client = brokers.client(1)
    client.send(m.ProduceRequest(acks=0, topic_data=[topic]), 9)
    brokers.joined.wait(100)
    assert (client.open, client.frames) == (False, [])
    assert brokers.faults.status()[0]["fired"] == 1


def test_a_client_whose_answer_is_lost_is_not_counted_any_more() -> None:
    brokers = stage(Fault(api="CreateTopics", drop=True, executed=True))
    client = brokers.client(1)
    client.ask(m.ApiVersionsRequest("a", "1"), 3)
    (broker,) = [one.machine for name, one in brokers.parties.items() if name == 1]
    assert ("a", "1") in broker.clients.counted(1)
    client.send(create_topics("a"), 7)
    brokers.joined.wait(1_000)
    assert not client.open
    assert broker.clients.counted(0) == {}


def test_a_late_request_is_answered_when_its_time_has_come() -> None:
    brokers = stage(Fault(api="Metadata", delay_ms=5_000, times=1))
    before = brokers.joined.now_ms
    brokers.client(1).ask(m.MetadataRequest(topics=[]), 12)
    assert brokers.joined.now_ms - before >= 5_000
