"""AlterPartition (56): a leader asks the controller to change its in-sync set.

KIP-497, KIP-704 (v1), KIP-841 (v2), KIP-903 (v3). Source: AlterPartitionRequest,
AlterPartitionResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

from wire.codec import normalised
from wire.schema import (
    ZERO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Uuid,
    field,
    group,
    message,
    replace,
)

_EPOCHS_FROM: Final = 3
PARTITIONS_PER_SLICE: Final = 500
"""Of a long request, which are converted at once, with their brokers."""


@message(key=56, versions="0-3", flexible="0+")
class AlterPartitionRequest:
    @group
    class TopicData:
        topic_name: String = field("", versions="0-1", ignorable=True)
        topic_id: Uuid = field(ZERO_UUID, versions="2+", ignorable=True)
        partitions: list[AlterPartitionRequest.PartitionData] = []

    @group
    class PartitionData:
        partition_index: Int32 = 0
        leader_epoch: Int32 = 0
        new_isr: Sequence[Int32] = field((), versions="0-2")
        new_isr_with_epochs: list[AlterPartitionRequest.BrokerState] = field([], versions="3+")
        leader_recovery_state: Int8 = field(0, versions="1+")
        partition_epoch: Int32 = 0

    @group
    class BrokerState:
        broker_id: Int32 = 0
        broker_epoch: Int64 = -1

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    topics: list[TopicData] = []


@message(key=56, versions="0-3", flexible="0+")
class AlterPartitionResponse:
    @group
    class TopicData:
        topic_name: String = field("", versions="0-1", ignorable=True)
        topic_id: Uuid = field(ZERO_UUID, versions="2+", ignorable=True)
        partitions: list[AlterPartitionResponse.PartitionData] = []

    @group
    class PartitionData:
        partition_index: Int32 = 0
        error_code: Int16 = 0
        leader_id: Int32 = 0
        leader_epoch: Int32 = 0
        isr: Sequence[Int32] = ()
        leader_recovery_state: Int8 = field(0, versions="1+", ignorable=True)
        partition_epoch: Int32 = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: list[TopicData] = []


def _to_epochs(request: AlterPartitionRequest, version: int) -> AlterPartitionRequest:
    """Handlers see ``new_isr_with_epochs`` alone; epoch -1 means that the broker sent none."""
    for _ in _to_epochs_in_slices(request, version):
        pass
    return request


def _to_epochs_in_slices(
    request: AlterPartitionRequest, version: int
) -> Generator[None, None, AlterPartitionRequest]:
    if version >= _EPOCHS_FROM:
        return request
    state, left = AlterPartitionRequest.BrokerState, PARTITIONS_PER_SLICE
    for topic in request.topics:
        for partition in topic.partitions:
            partition.new_isr_with_epochs = [state(broker_id=i) for i in partition.new_isr]
            left -= 1 + len(partition.new_isr)
            partition.new_isr = ()
            if left <= 0:
                left = PARTITIONS_PER_SLICE
                yield
    return request


def _to_ids(request: AlterPartitionRequest, version: int) -> AlterPartitionRequest:
    if version >= _EPOCHS_FROM:
        return request
    topics = [
        replace(topic, partitions=[_with_ids(partition) for partition in topic.partitions])
        for topic in request.topics
    ]
    return replace(request, topics=topics)


def _with_ids(
    partition: AlterPartitionRequest.PartitionData,
) -> AlterPartitionRequest.PartitionData:
    ids = tuple(state.broker_id for state in partition.new_isr_with_epochs)
    return replace(partition, new_isr=ids or partition.new_isr, new_isr_with_epochs=[])


normalised(
    AlterPartitionRequest,
    after_decode=_to_epochs,
    before_encode=_to_ids,
    in_slices=_to_epochs_in_slices,
)
