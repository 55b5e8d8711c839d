"""Which partitions a message names, and that an answer names none but those that were asked."""

from __future__ import annotations

import pytest

from bench.conformance.case import Violation
from bench.conformance.echo import Named, partitions, strangers
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
