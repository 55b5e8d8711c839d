"""A script at a broker: what its clients see, and what reaches the controller."""

from __future__ import annotations

from emulator.faults.fault import Fault
from emulator.faults.script import FaultScript
from tests.unit.broker.joined_brokers import Stage
from wire import messages as m


def stage(*faults: Fault) -> Stage:
    made = Stage()
    made.faults = FaultScript()
    made.faults.add(*faults)
    made.running(1)
    return made


def topics(*names: str) -> m.CreateTopicsRequest:
    topic = m.CreateTopicsRequest.CreatableTopic
    made = [topic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return m.CreateTopicsRequest(topics=made, timeout_ms=30_000)


def test_a_refused_topic_is_not_forwarded_and_the_others_are_created() -> None:
    brokers = stage(Fault(api="CreateTopics", topic="b", error="POLICY_VIOLATION"))
    created = brokers.client(1).ask(topics("a", "b", "c"), 7)
    assert {one.name: one.error_code for one in created.topics} == {"a": 0, "c": 0, "b": 44}
    brokers.joined.wait(1_000)
    told = brokers.client(1).ask(m.MetadataRequest(topics=None), 12)
    assert sorted(one.name for one in told.topics) == ["a", "c"]


def test_an_answer_of_the_brokers_own_is_struck_by_topic() -> None:
    fault = Fault(api="Metadata", topic="a", error="LEADER_NOT_AVAILABLE", times=1)
    brokers = stage(fault)
    client = brokers.client(1)
    client.ask(topics("a", "b"), 7)
    brokers.joined.wait(1_000)
    wanted = [m.MetadataRequest.MetadataRequestTopic(name=name) for name in ("a", "b")]
    answers = [client.ask(m.MetadataRequest(topics=wanted), 12) for _ in range(2)]
    told = [{one.name: one.error_code for one in answer.topics} for answer in answers]
    assert told == [{"a": 5, "b": 0}, {"a": 0, "b": 0}]
    assert [one.node_id for one in answers[0].brokers] == [1]


def test_metadata_of_struck_topics_only_still_tells_the_brokers() -> None:
    brokers = stage(Fault(api="Metadata", topic="*", error="LEADER_NOT_AVAILABLE"))
    wanted = [m.MetadataRequest.MetadataRequestTopic(name="a")]
    for version in range(1, 13):
        answer = brokers.client(1).ask(m.MetadataRequest(topics=wanted), version)
        assert [(one.name, one.error_code) for one in answer.topics] == [("a", 5)]
        assert [one.node_id for one in answer.brokers] == [1]


def test_a_late_request_is_answered_when_its_time_has_come() -> None:
    brokers = stage(Fault(api="Metadata", delay_ms=5_000, times=1))
    before = brokers.joined.now_ms
    brokers.client(1).ask(m.MetadataRequest(topics=[]), 12)
    assert brokers.joined.now_ms - before >= 5_000
