"""The walk that names the place of an error reads what the generated code reads."""

from __future__ import annotations

from wire import messages as m
from wire.codec import encode
from wire.schema import layout
from wire.walk import Walker

Partition = m.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition
Topic = m.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic


def test_a_null_array_takes_its_length_and_nothing_else() -> None:
    partition = Partition(isr_nodes=(-1,), eligible_leader_replicas=None, last_known_elr=(7, 8))
    answer = m.DescribeTopicPartitionsResponse(topics=[Topic(name="t", partitions=[partition])])
    data = encode(answer, 0)
    walker = Walker(layout(type(answer), 0), data)
    walker.walk()
    assert walker.position == len(data)
