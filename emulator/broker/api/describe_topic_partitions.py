"""DescribeTopicPartitions (75): topics, some partitions at a time. KIP-966.

Kafka: DescribeTopicPartitionsRequestHandler, KRaftMetadataCache (3.9).

For everything INVALID_REQUEST if the cursor names a topic that is not asked for, or a partition
below 0. Per topic TOPIC_AUTHORIZATION_FAILED without DESCRIBE, for names that were given;
UNKNOWN_TOPIC_OR_PARTITION, or INVALID_TOPIC_EXCEPTION if no topic can have the name. Topics come by
name; the next request goes on at the cursor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from emulator.broker.api.metadata import INTERNAL
from emulator.broker.cluster import KnownCluster, KnownPartition
from emulator.broker.registry import Asked, serves
from emulator.broker.serving.reading import BrokerReading, reading
from emulator.metadata.acls import Operation, ResourceType
from emulator.metadata.topics import name_error
from emulator.seam import Pace, Slices
from wire import messages as m
from wire.errors import ErrorCode

Response = m.DescribeTopicPartitionsResponse
Topic = m.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
Partition = m.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition
LIMIT_KEY: Final = "max.request.partition.size.limit"
LIMIT: Final = 2_000
_NUMBER: Final = re.compile(r"[0-9]{1,10}")


def refused(
    request: m.DescribeTopicPartitionsRequest, code: ErrorCode, _text: str | None
) -> m.DescribeTopicPartitionsResponse:
    """The response with the error for every topic of the request."""
    return Response(topics=[Topic(error_code=code, name=one.name) for one in request.topics])


@serves(m.DescribeTopicPartitionsRequest, refused=refused)
def describe_topic_partitions(
    cluster: KnownCluster, request: m.DescribeTopicPartitionsRequest, asked: Asked
) -> Slices[m.DescribeTopicPartitionsResponse]:
    """Describe partitions up to the limit, with the cursor for the next request."""
    cursor = request.cursor
    begin = "" if cursor is None else cursor.topic_name
    everything = not request.topics
    names = {topic.name for topic in request.topics}
    if cursor is not None and (
        cursor.partition_index < 0 or (not everything and begin not in names)
    ):
        return refused(request, ErrorCode.INVALID_REQUEST, None)
    caller = reading(cluster, request, asked)
    limit = min(_limit(asked), request.response_partition_limit)
    first = {} if cursor is None else {begin: cursor.partition_index}
    wanted: Iterable[str] = sorted(name for name in names if name >= begin)
    if everything:
        wanted = cluster.image.topic_ids.since(begin)
    response, hidden = yield from _paged(
        cluster, wanted, first, max(limit, 1), caller, everything=everything
    )
    if not everything:
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        response.topics += [Topic(error_code=denied, name=name) for name in hidden]
    return response


def _limit(asked: Asked) -> int:
    text = asked.config.static.get(LIMIT_KEY, "")
    return int(text) if _NUMBER.fullmatch(text) else LIMIT


def _paged(
    cluster: KnownCluster,
    names: Iterable[str],
    first: dict[str, int],
    limit: int,
    caller: BrokerReading,
    *,
    everything: bool,
) -> Slices[tuple[m.DescribeTopicPartitionsResponse, list[str]]]:
    """The topics up to the limit, and the names of all that the caller may not see."""
    response, pace = Response(next_cursor=None), Pace()
    hidden = []
    for name in names:
        if pace.over():
            yield
        if not caller.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            hidden.append(name)
            continue
        if response.next_cursor is not None:
            continue  # only hidden topics are of interest
        if limit == 0:
            response.next_cursor = Response.Cursor(topic_name=name, partition_index=0)
            if everything:
                break
            continue
        topic = cluster.topic(name)
        if topic is None:
            if not everything:
                response.topics.append(_unknown(name, caller))
            continue
        begin = first.get(name, 0)
        end = min(len(topic.partitions), begin + limit)
        partitions = []
        for index in range(begin, end):
            if pace.over():
                yield
            partition = topic.partitions.get(index)
            if partition is not None:
                listener = caller.call.listener
                partitions.append(_described(cluster, index, partition, listener))
        response.topics.append(
            Topic(
                name=name,
                topic_id=topic.id,
                is_internal=name in INTERNAL,
                partitions=partitions,
                topic_authorized_operations=caller.operations_on_topic(name),
            )
        )
        if end < len(topic.partitions):
            response.next_cursor = Response.Cursor(topic_name=name, partition_index=end)
            if everything:
                break
            continue
        limit -= len(partitions)
    return response, hidden


def _unknown(name: str, caller: BrokerReading) -> Topic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if name_error(name) is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return Topic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL,
        topic_authorized_operations=caller.operations_on_topic(name),
    )


def _described(cluster: KnownCluster, index: int, one: KnownPartition, listener: str) -> Partition:
    return Partition(
        partition_index=index,
        leader_id=-1 if cluster.node(one.leader, listener) is None else one.leader,
        leader_epoch=one.leader_epoch,
        replica_nodes=one.replicas,
        isr_nodes=one.isr,
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=[each for each in one.replicas if not cluster.online(each, listener)],
    )
