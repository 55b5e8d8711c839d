"""LeaderAndIsr (4): the controller tells a ZooKeeper-mode broker who leads and who follows.

KIP-380 (v2), KIP-455 (v3), KIP-482 (v4), KIP-516 (v5), KIP-704 (v6), KIP-866 (v7). Source:
LeaderAndIsrRequest, LeaderAndIsrResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from wire.codec import normalised
from wire.schema import (
    ZERO_UUID,
    Bool,
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

_TOPICS_FROM: Final = 2
_TOPIC: Final = attrgetter("topic_name")
_TOPIC_ERRORS_FROM: Final = 5


@message(key=4, versions="0-7", flexible="4+")
class LeaderAndIsrRequest:
    @group
    class LeaderAndIsrPartitionState:
        topic_name: String = field("", versions="0-1", ignorable=True)
        partition_index: Int32 = 0
        controller_epoch: Int32 = 0
        leader: Int32 = 0
        leader_epoch: Int32 = 0
        isr: Sequence[Int32] = ()
        partition_epoch: Int32 = 0
        replicas: Sequence[Int32] = ()
        adding_replicas: Sequence[Int32] = field((), versions="3+", ignorable=True)
        removing_replicas: Sequence[Int32] = field((), versions="3+", ignorable=True)
        is_new: Bool = field(False, versions="1+", ignorable=True)
        leader_recovery_state: Int8 = field(0, versions="6+")

    @group
    class LeaderAndIsrTopicState:
        topic_name: String = ""
        topic_id: Uuid = field(ZERO_UUID, versions="5+", ignorable=True)
        partition_states: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState] = []

    @group
    class LeaderAndIsrLiveLeader:
        broker_id: Int32 = 0
        host_name: String = ""
        port: Int32 = 0

    controller_id: Int32 = 0
    is_kraft_controller: Bool = field(False, versions="7+")
    controller_epoch: Int32 = 0
    broker_epoch: Int64 = field(-1, versions="2+", ignorable=True)
    type: Int8 = field(0, versions="5+")
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = field([], versions="0-1")
    topic_states: list[LeaderAndIsrTopicState] = field([], versions="2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = []


@message(key=4, versions="0-7", flexible="4+")
class LeaderAndIsrResponse:
    @group
    class LeaderAndIsrPartitionError:
        topic_name: String = field("", versions="0-4", ignorable=True)
        partition_index: Int32 = 0
        error_code: Int16 = 0

    @group
    class LeaderAndIsrTopicError:
        topic_id: Uuid = ZERO_UUID
        partition_errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError] = []

    error_code: Int16 = 0
    partition_errors: list[LeaderAndIsrPartitionError] = field([], versions="0-4")
    topics: list[LeaderAndIsrTopicError] = field([], versions="5+")


def _to_topics(request: LeaderAndIsrRequest, version: int) -> LeaderAndIsrRequest:
    """Handlers see ``topic_states`` alone; versions 0 and 1 name the topic in each partition.

    A topic that is named again after another one is there again, so that the order stays.
    """
    if version < _TOPICS_FROM:
        request.topic_states = [
            LeaderAndIsrRequest.LeaderAndIsrTopicState(
                topic_name=name,
                partition_states=[replace(state, topic_name="") for state in states],
            )
            for name, states in groupby(request.ungrouped_partition_states, _TOPIC)
        ]
        request.ungrouped_partition_states = []
    return request


def _to_partitions(request: LeaderAndIsrRequest, version: int) -> LeaderAndIsrRequest:
    if version >= _TOPICS_FROM:
        return request
    states = [
        replace(state, topic_name=topic.topic_name)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    return replace(request, ungrouped_partition_states=states, topic_states=[])


normalised(LeaderAndIsrRequest, after_decode=_to_topics, before_encode=_to_partitions)


def _from_partitions(response: LeaderAndIsrResponse, version: int) -> LeaderAndIsrResponse:
    """Handlers see ``topics`` alone; before version 5 each answer names its topic, without id."""
    if version >= _TOPIC_ERRORS_FROM:
        return response
    kind = LeaderAndIsrResponse.LeaderAndIsrTopicError
    response.topics = [
        kind(partition_errors=list(answers))
        for _, answers in groupby(response.partition_errors, _TOPIC)
    ]
    response.partition_errors = []
    return response


def _to_partition_errors(response: LeaderAndIsrResponse, version: int) -> LeaderAndIsrResponse:
    if version >= _TOPIC_ERRORS_FROM:
        return response
    answers = [one for topic in response.topics for one in topic.partition_errors]
    return replace(response, partition_errors=answers, topics=[])


normalised(LeaderAndIsrResponse, after_decode=_from_partitions, before_encode=_to_partition_errors)
