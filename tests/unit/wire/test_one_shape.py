"""Messages whose shape moved between versions look the same to handlers in all of them."""

from typing import Any

import pytest

from wire import messages as m
from wire.codec import decode, encode, raw_decode, raw_encode
from wire.errors import EncodeError


def topics(request: Any, state: Any, topic: Any) -> list[Any]:
    """Two topics, three partitions."""
    made = [("a", (0, 1)), ("b", (7,))]
    return [
        topic(topic_name=name, partition_states=[state(partition_index=i) for i in indexes])
        for name, indexes in made
    ]


@pytest.mark.parametrize("version", range(8))
def test_leader_and_isr_names_topics_once(version: int) -> None:
    cls = m.LeaderAndIsrRequest
    sent = cls(
        controller_id=1,
        topic_states=topics(cls, cls.LeaderAndIsrPartitionState, cls.LeaderAndIsrTopicState),
    )
    before = repr(sent)
    data = encode(sent, version)
    assert repr(sent) == before
    assert decode(cls, version, data) == sent
    assert len(raw_decode(cls, version, data).ungrouped_partition_states) == (
        3 if version < 2 else 0
    )


@pytest.mark.parametrize("version", range(9))
def test_update_metadata_names_topics_once_and_listeners_always(version: int) -> None:
    cls = m.UpdateMetadataRequest
    endpoint = cls.UpdateMetadataEndpoint(host="h", port=9092, listener="PLAINTEXT")
    sent = cls(
        topic_states=topics(cls, cls.UpdateMetadataPartitionState, cls.UpdateMetadataTopicState),
        live_brokers=[cls.UpdateMetadataBroker(id=1, endpoints=[endpoint])],
    )
    before = repr(sent)
    data = encode(sent, version)
    assert repr(sent) == before
    assert decode(cls, version, data) == sent
    plain = raw_decode(cls, version, data)
    assert plain.live_brokers[0].v0_host == ("h" if version == 0 else "")
    assert len(plain.ungrouped_partition_states) == (3 if version < 5 else 0)


def test_a_listener_without_a_name_is_called_as_its_protocol() -> None:
    cls = m.UpdateMetadataRequest
    endpoint = cls.UpdateMetadataEndpoint(host="h", port=1, security_protocol=2)
    sent = cls(live_brokers=[cls.UpdateMetadataBroker(id=1, endpoints=[endpoint])])
    again = decode(cls, 1, encode(sent, 1))
    assert again.live_brokers[0].endpoints[0].listener == "SASL_PLAINTEXT"


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("delete", [False, True])
def test_stop_replica_has_a_flag_for_each_partition(version: int, *, delete: bool) -> None:
    cls = m.StopReplicaRequest
    sent = cls(topic_states=topics(cls, cls.StopReplicaPartitionState, cls.StopReplicaTopicState))
    for topic in sent.topic_states:
        for state in topic.partition_states:
            state.delete_partition = delete
    before = repr(sent)
    data = encode(sent, version)
    assert repr(sent) == before
    assert decode(cls, version, data) == sent
    plain = raw_decode(cls, version, data)
    assert plain.delete_partitions is (delete and version < 3)
    assert (len(plain.ungrouped_partitions), len(plain.topics), len(plain.topic_states)) == (
        3 if version == 0 else 0,
        2 if version in {1, 2} else 0,
        2 if version > 2 else 0,
    )


def test_a_request_with_one_flag_cannot_say_two_things() -> None:
    cls = m.StopReplicaRequest
    states = [cls.StopReplicaPartitionState(delete_partition=flag) for flag in (False, True)]
    sent = cls(topic_states=[cls.StopReplicaTopicState(topic_name="a", partition_states=states)])
    with pytest.raises(EncodeError, match="some replicas are deleted"):
        encode(sent, 2)
    assert decode(cls, 3, encode(sent, 3)) == sent


def named_twice(version: int) -> list[Any]:
    """Requests and answers that name a topic again after another one, and others at their edge."""
    isr, stop, told, answer = (
        m.LeaderAndIsrRequest,
        m.StopReplicaRequest,
        m.UpdateMetadataRequest,
        m.LeaderAndIsrResponse,
    )
    order = ["a", "a", "b", "a", "b"]
    found: list[Any] = [
        stop(delete_partitions=True),
        stop(delete_partitions=True, topics=[stop.StopReplicaTopicV1("a", ())]),
        stop(topics=[stop.StopReplicaTopicV1(name, (0, 1)) for name in order]),
    ]
    if version == 0:
        found = [stop(ungrouped_partitions=[stop.StopReplicaPartitionV0(t, 0) for t in order])]
        found.append(stop(delete_partitions=True))
    states = [isr.LeaderAndIsrPartitionState(topic_name=t, partition_index=1) for t in order]
    heard = [told.UpdateMetadataPartitionState(topic_name=t, partition_index=1) for t in order]
    errors = [answer.LeaderAndIsrPartitionError(topic_name=t, error_code=9) for t in order]
    found += [isr(ungrouped_partition_states=states)] if version < 2 else []
    found += [told(ungrouped_partition_states=heard)]
    return [*found, answer(partition_errors=errors)]


@pytest.mark.parametrize("version", range(3))
def test_what_names_a_topic_twice_is_written_again_byte_by_byte(version: int) -> None:
    """As Kafka's own tests build it; a recording of it passes the check."""
    for message in named_twice(version):
        sent = raw_encode(message, version)
        assert encode(decode(type(message), version, sent), version) == sent, message
