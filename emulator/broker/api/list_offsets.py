"""ListOffsets (2): a partition that this broker leads is an empty log, as it stores no records.

So a consumer goes on to Fetch, whose refusal more clients take for final than one of this API.
Its first and its next offset are 0; nothing is found by a timestamp. Per partition, in order:
INVALID_REQUEST if it is named twice, TOPIC_AUTHORIZATION_FAILED without DESCRIBE,
UNSUPPORTED_VERSION for a special timestamp that the version does not have,
UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH and UNKNOWN_LEADER_EPOCH for another epoch than the
broker knows, NOT_LEADER_OR_FOLLOWER.

Source: KafkaApis.handleListOffsetRequestV1AndAbove, Partition.fetchOffsetForTimestamp, Kafka 3.9.
"""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import Final

from emulator.broker.api.no_records import offsets_refused
from emulator.broker.cluster import KnownCluster, KnownPartition
from emulator.broker.registry import Asked, serves
from emulator.broker.serving.reading import reading
from emulator.metadata.acls import Operation, ResourceType
from emulator.seam import Pace, Slices
from wire import messages as m
from wire.errors import ErrorCode

Response = m.ListOffsetsResponse
Part = Response.ListOffsetsPartitionResponse
LATEST: Final = -1
EARLIEST: Final = -2
EARLIEST_LOCAL: Final = -4
_SINCE: Final = MappingProxyType({LATEST: 0, EARLIEST: 0, -3: 7, EARLIEST_LOCAL: 8, -5: 9})
"""Special timestamp -> its first version; -3: the highest timestamp, -5: the last in a tier."""
_NO_EPOCH: Final = -1
_ONE_OFFSET_SINCE: Final = 1
_EPOCHS_SINCE: Final = 4


@serves(m.ListOffsetsRequest, refused=offsets_refused)
def list_offsets(
    cluster: KnownCluster, request: m.ListOffsetsRequest, asked: Asked
) -> Slices[m.ListOffsetsResponse]:
    """Answer where the empty logs begin and end."""
    caller = reading(cluster, request, asked)
    named = Counter((t.name, p.partition_index) for t in request.topics for p in t.partitions)
    topics = []
    pace = Pace()
    for topic in request.topics:
        if pace.over():
            yield
        allowed = caller.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
        known = cluster.topic(topic.name)
        parts = []
        for wanted in topic.partitions:
            if pace.over():
                yield
            index = wanted.partition_index
            partition = None if known is None else known.partitions.get(index)
            if named[topic.name, index] > 1:
                code = ErrorCode.INVALID_REQUEST
            elif not allowed:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif wanted.timestamp < 0 and _SINCE.get(wanted.timestamp, 99) > asked.api_version:
                code = ErrorCode.UNSUPPORTED_VERSION
            elif partition is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                code = _error(partition, wanted.current_leader_epoch, asked.config.node_id)
            parts.append(_part(index, wanted.timestamp, code, partition, asked.api_version))
        topics.append(Response.ListOffsetsTopicResponse(name=topic.name, partitions=parts))
    return Response(topics=topics)


def _error(partition: KnownPartition, epoch: int, own_id: int) -> ErrorCode:
    if epoch != _NO_EPOCH and epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > partition.leader_epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if partition.leader == own_id else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _part(
    index: int, timestamp: int, code: ErrorCode, partition: KnownPartition | None, version: int
) -> Part:
    if code or partition is None:
        return Part(partition_index=index, error_code=code)
    if timestamp not in {LATEST, EARLIEST, EARLIEST_LOCAL}:
        return Part(partition_index=index)
    if version < _ONE_OFFSET_SINCE:
        return Part(partition_index=index, old_style_offsets=(0,))
    # The first and the next record would be of the present epoch.
    epoch = partition.leader_epoch if version >= _EPOCHS_SINCE else _NO_EPOCH
    return Part(partition_index=index, offset=0, leader_epoch=epoch)
