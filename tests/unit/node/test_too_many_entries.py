"""A request may not have any number of entries: it ends before they are made."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.controller.registry import (
    ENTRIES_MAX,
    PARTITIONS_MAX,
    advertised,
    entries_max,
    refused,
)
from tests.kit.requests import elect
from tests.unit.controller.envelopes import enveloped
from tests.unit.node.test_no_request_ends_the_node import ENVELOPE, Peers, header
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import decode_response, encode_request


def deletions(count: int) -> tuple[int, int, Any]:
    entry = m.DeleteTopicsRequest.DeleteTopicState(name="")
    return 20, 6, m.DeleteTopicsRequest(topics=[entry] * count)


def told_of(answer: Any) -> list[tuple[str, int, int]]:
    return [
        (topic.topic, one.partition_id, one.error_code)
        for topic in answer.replica_election_results
        for one in topic.partition_result
    ]


@pytest.mark.parametrize("more", [0, 1])
def test_a_connection_with_more_is_closed(more: int) -> None:
    peers = Peers()
    key, version, message = deletions(ENTRIES_MAX + more)
    answer = peers.frame(encode_request(header(key, version), message))
    assert (answer is None) == bool(more)
    said = [one.fields["why"] for one in peers.logs if "invalid request" in one.event]
    assert len(said) == more
    assert all("over 50000 entries" in str(why) for why in said)
    peers.still_sound()


@pytest.mark.parametrize("more", [0, 1])
def test_an_envelope_with_more_is_refused(more: int) -> None:
    """The connection is the broker's, and others' requests come by it."""
    peers = Peers()
    key, version, message = deletions(ENTRIES_MAX + more)
    inner = encode_request(header(key, version), message)
    answer = peers.ask(enveloped(inner), ENVELOPE, 0)
    code = ErrorCode.INVALID_REQUEST if more else ErrorCode.NONE
    assert answer.error_code == code
    assert (answer.response_data is None) == bool(more)
    peers.still_sound()


@pytest.mark.parametrize(("key", "version"), [(43, 2), (43, 0), (46, 0)])
def test_more_partitions_than_a_cluster_has_are_not_looked_at(key: int, version: int) -> None:
    """Numbers are no entries: a frame holds four million."""
    peers = Peers()
    many = tuple(range(PARTITIONS_MAX + 1))
    if key == 43:
        answer = peers.ask(elect("t", *many), key, version)
        assert told_of(answer) == [("t", 0, ErrorCode.POLICY_VIOLATION)]
    else:
        kinds = m.ListPartitionReassignmentsRequest
        named = kinds.ListPartitionReassignmentsTopics(name="t", partition_indexes=many)
        answer = peers.ask(kinds(topics=[named]), key, version)
        assert answer.topics == []
    assert (key, version) == (43, 0) or answer.error_code == ErrorCode.POLICY_VIOLATION
    peers.still_sound()


@pytest.mark.parametrize("key", [43, 46])
@pytest.mark.parametrize("more", [0, 1])
def test_a_refusal_does_not_name_millions_of_partitions(key: int, more: int) -> None:
    """Whoever may not elect may ask, and every controller answers that it is not the active one."""
    some = tuple(range(PARTITIONS_MAX + more))
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if key == 43:
        answer = refused(key, elect("t", *some), code, None)
        assert {told for _, _, told in told_of(answer)} == {code}
        assert len(told_of(answer)) == (1 if more else PARTITIONS_MAX)
    else:
        kinds = m.ListPartitionReassignmentsRequest
        named = kinds.ListPartitionReassignmentsTopics(name="t", partition_indexes=some)
        answer = refused(key, kinds(topics=[named]), code, None)
        listed = sum(len(topic.partitions) for topic in answer.topics)
        assert listed == (0 if more else PARTITIONS_MAX)
    assert answer.error_code == code


def test_a_broker_may_ask_for_any_number_of_isrs() -> None:
    assert advertised("3.9").keys() - entries_max("3.9").keys() == {56}
    peers = Peers()
    kinds = m.AlterPartitionRequest
    wanted = [kinds.PartitionData(partition_index=n) for n in range(ENTRIES_MAX + 1)]
    request = kinds(
        broker_id=1,
        broker_epoch=peers.image.brokers[1].epoch,
        topics=[kinds.TopicData(topic_id=bytes(15) + b"x", partitions=wanted)],
    )
    data = peers.frame(encode_request(header(56, 3), request))
    assert data is not None
    told = decode_response(56, 3, data)[1].topics[0].partitions
    assert {one.error_code for one in told} == {ErrorCode.UNKNOWN_TOPIC_ID}
