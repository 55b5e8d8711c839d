"""StopReplica (5): the controller tells a ZooKeeper-mode broker to stop, or delete, replicas.

KIP-380 (v1), KIP-482 (v2), KIP-570 (v3), KIP-866 (v4). Source: StopReplicaRequest,
StopReplicaResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from wire.codec import normalised
from wire.errors import EncodeError
from wire.schema import Bool, Int16, Int32, Int64, String, field, group, message, replace

_STATES_FROM: Final = 3
_TOPIC: Final = attrgetter("topic_name")


@message(key=5, versions="0-4", flexible="2+")
class StopReplicaRequest:
    @group
    class StopReplicaPartitionV0:
        topic_name: String = ""
        partition_index: Int32 = 0

    @group
    class StopReplicaTopicV1:
        name: String = ""
        partition_indexes: Sequence[Int32] = ()

    @group
    class StopReplicaTopicState:
        topic_name: String = ""
        partition_states: list[StopReplicaRequest.StopReplicaPartitionState] = []

    @group
    class StopReplicaPartitionState:
        partition_index: Int32 = 0
        leader_epoch: Int32 = -1
        delete_partition: Bool = False

    controller_id: Int32 = 0
    is_kraft_controller: Bool = field(False, versions="4+")
    controller_epoch: Int32 = 0
    broker_epoch: Int64 = field(-1, versions="1+", ignorable=True)
    delete_partitions: Bool = field(False, versions="0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = field([], versions="0")
    topics: list[StopReplicaTopicV1] = field([], versions="1-2")
    topic_states: list[StopReplicaTopicState] = field([], versions="3+")


@message(key=5, versions="0-4", flexible="2+")
class StopReplicaResponse:
    @group
    class StopReplicaPartitionError:
        topic_name: String = ""
        partition_index: Int32 = 0
        error_code: Int16 = 0

    error_code: Int16 = 0
    partition_errors: list[StopReplicaPartitionError] = []


def _to_states(request: StopReplicaRequest, version: int) -> StopReplicaRequest:
    """Handlers see ``topic_states`` alone.

    Before version 3 one flag for the whole request says whether replicas are deleted, and there is
    no leader epoch; version 0 names the topic with each partition. One that is named twice stays
    twice, and the flag of a request without a partition stays: the same bytes are written again.
    """
    if version >= _STATES_FROM:
        return request
    named: list[tuple[str, Iterable[int]]] = [
        (name, [one.partition_index for one in some])
        for name, some in groupby(request.ungrouped_partitions, _TOPIC)
    ]
    named += [(topic.name, topic.partition_indexes) for topic in request.topics]
    request.topic_states = [
        StopReplicaRequest.StopReplicaTopicState(
            topic_name=name,
            partition_states=[
                StopReplicaRequest.StopReplicaPartitionState(
                    partition_index=index, delete_partition=request.delete_partitions
                )
                for index in indexes
            ],
        )
        for name, indexes in named
    ]
    if any(topic.partition_states for topic in request.topic_states):
        request.delete_partitions = False
    request.ungrouped_partitions, request.topics = [], []
    return request


def _to_one_flag(request: StopReplicaRequest, version: int) -> StopReplicaRequest:
    if version >= _STATES_FROM:
        return request
    named = [(topic.topic_name, topic.partition_states) for topic in request.topic_states]
    states = [(name, state) for name, inside in named for state in inside]
    flags = {state.delete_partition for _, state in states}
    if len(flags) > 1:
        why = "some replicas are deleted and some are not, which one request cannot say"
        raise EncodeError("StopReplicaRequest", version, "topic_states", why)
    topics = [
        StopReplicaRequest.StopReplicaTopicV1(
            name=topic.topic_name,
            partition_indexes=tuple(state.partition_index for state in topic.partition_states),
        )
        for topic in request.topic_states
    ]
    ungrouped = [
        StopReplicaRequest.StopReplicaPartitionV0(
            topic_name=name, partition_index=state.partition_index
        )
        for name, state in states
    ]
    return replace(
        request,
        delete_partitions=True in flags if flags else request.delete_partitions,
        ungrouped_partitions=ungrouped if version == 0 else [],
        topics=topics if version > 0 else [],
        topic_states=[],
    )


normalised(StopReplicaRequest, after_decode=_to_states, before_encode=_to_one_flag)
