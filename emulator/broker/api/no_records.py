"""The APIs of records, groups and transactions: offered, and refused with one error.

This broker stores no records. It offers these APIs, because clients infer a broker's release from
them, and answers every request with INVALID_REQUEST, which clients do not
count as an error that passes (docs/divergence.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, NoAnswer, Refuse, serves, serves_refused
from emulator.controller.result import one_error
from wire import messages as m
from wire.errors import ErrorCode

CODE: Final = ErrorCode.INVALID_REQUEST
WHY: Final = "This broker stores no records: it emulates the metadata of a cluster only."


class _Made(Sequence[Any]):
    """An entry per item; made as it is encoded, which is in slices: there may be millions."""

    def __init__(self, items: Sequence[Any], make: Callable[[Any], Any]) -> None:
        self._items = items
        self._make = make

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, at: Any) -> Any:
        return self._make(self._items[at])

    def __iter__(self) -> Iterator[Any]:
        return map(self._make, self._items)


def _made(items: Sequence[Any], make: Callable[[Any], Any]) -> Any:
    """See _Made."""
    return _Made(items, make)


def _each(names: Sequence[Any], kind: Callable[..., Any], name: str, **same: Any) -> Any:
    """One entry per name, with the same values."""
    return _made(names, lambda one: kind(**{name: one}, **same))


def _produce(request: m.ProduceRequest, code: ErrorCode, text: str | None) -> m.ProduceResponse:
    kind = m.ProduceResponse

    def part(one: m.ProduceRequest.PartitionProduceData) -> Any:
        # Without records it is six bytes of a request, and no client waits for it.
        why = text if one.records else None
        return kind.PartitionProduceResponse(
            index=one.index, error_code=code, base_offset=-1, error_message=why
        )

    def topic(one: m.ProduceRequest.TopicProduceData) -> Any:
        parts = _made(one.partition_data, part)
        return kind.TopicProduceResponse(name=one.name, partition_responses=parts)

    return kind(responses=_made(request.topic_data, topic))


def _fetch(request: m.FetchRequest, code: ErrorCode, _text: str | None) -> m.FetchResponse:
    kind = m.FetchResponse

    def part(one: m.FetchRequest.FetchPartition) -> Any:
        return kind.PartitionData(partition_index=one.partition, error_code=code, high_watermark=-1)

    def topic(one: m.FetchRequest.FetchTopic) -> Any:
        return kind.FetchableTopicResponse(
            topic=one.topic, topic_id=one.topic_id, partitions=_made(one.partitions, part)
        )

    return kind(responses=_made(request.topics, topic))


def _offset_fetch(
    request: m.OffsetFetchRequest, code: ErrorCode, _text: str | None
) -> m.OffsetFetchResponse:
    kind = m.OffsetFetchResponse
    return kind(
        error_code=code,
        topics=[
            kind.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=_each(
                    topic.partition_indexes,
                    kind.OffsetFetchResponsePartition,
                    "partition_index",
                    committed_offset=-1,
                    error_code=code,
                ),
            )
            for topic in request.topics or []
        ],
        groups=_each(
            [group.group_id for group in request.groups],
            kind.OffsetFetchResponseGroup,
            "group_id",
            error_code=code,
        ),
    )


def _add_partitions(
    request: m.AddPartitionsToTxnRequest, code: ErrorCode, _text: str | None
) -> m.AddPartitionsToTxnResponse:
    kind = m.AddPartitionsToTxnResponse
    return kind(
        error_code=code,
        results_by_topic_v3_and_below=[
            kind.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=_each(
                    topic.partitions,
                    kind.AddPartitionsToTxnPartitionResult,
                    "partition_index",
                    partition_error_code=code,
                ),
            )
            for topic in request.v3_and_below_topics
        ],
    )


def _markers(
    request: m.WriteTxnMarkersRequest, code: ErrorCode, _text: str | None
) -> m.WriteTxnMarkersResponse:
    kind = m.WriteTxnMarkersResponse
    return kind(
        markers=[
            kind.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    kind.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=_each(
                            topic.partition_indexes,
                            kind.WritableTxnMarkerPartitionResult,
                            "partition_index",
                            error_code=code,
                        ),
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _replica_dirs(
    request: m.AlterReplicaLogDirsRequest, code: ErrorCode, _text: str | None
) -> m.AlterReplicaLogDirsResponse:
    kind = m.AlterReplicaLogDirsResponse
    return kind(
        results=[
            kind.AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=_each(
                    topic.partitions,
                    kind.AlterReplicaLogDirPartitionResult,
                    "partition_index",
                    error_code=code,
                ),
            )
            for folder in request.dirs
            for topic in folder.topics
        ]
    )


def _producers(
    request: m.DescribeProducersRequest, code: ErrorCode, text: str | None
) -> m.DescribeProducersResponse:
    kind = m.DescribeProducersResponse

    def topic(asked: m.DescribeProducersRequest.TopicRequest) -> Any:
        indexes = asked.partition_indexes

        def part(at: int) -> Any:
            # The text once: a partition is four bytes of a request.
            return kind.PartitionResponse(
                partition_index=indexes[at], error_code=code, error_message=None if at else text
            )

        return kind.TopicResponse(name=asked.name, partitions=_made(range(len(indexes)), part))

    return kind(topics=_made(request.topics, topic))


def _parts(
    response: Any,
    topic: Callable[..., Any],
    part: Callable[..., Any],
    *,
    name: str = "name",
    index: str = "partition_index",
    **same: Any,
) -> Refuse:
    """One error per partition of the topics that the request lists.

    ``name`` and ``index`` are the fields of a topic and of a partition, alike in request and
    response; ``same`` are further values of each partition's answer.
    """

    def refused(request: Any, code: ErrorCode, _text: str | None) -> Any:
        return response(
            topics=[
                topic(
                    **{name: getattr(one, name)},
                    partitions=_each(
                        [getattr(asked, index) for asked in one.partitions],
                        part,
                        index,
                        error_code=code,
                        **same,
                    ),
                )
                for one in request.topics
            ]
        )

    return refused


def _groups(attribute: str, response: Any, kind: Any, entries: str, name: str) -> Refuse:
    """One error per group or transaction that the request names."""

    def refused(request: Any, code: ErrorCode, _text: str | None) -> Any:
        names = getattr(request, attribute)
        return response(**{entries: _each(names, kind, name, error_code=code)})

    return refused


_Offsets = m.ListOffsetsResponse
_Committed = m.OffsetCommitResponse
_Truncated = m.DeleteRecordsResponse
_Epochs = m.OffsetForLeaderEpochResponse
_InTransaction = m.TxnOffsetCommitResponse
_Described = m.DescribeGroupsResponse
_Deleted = m.DeleteGroupsResponse
_Transactions = m.DescribeTransactionsResponse
_Consumers = m.ConsumerGroupDescribeResponse

offsets_refused: Final = _parts(
    _Offsets, _Offsets.ListOffsetsTopicResponse, _Offsets.ListOffsetsPartitionResponse
)
"""Of ListOffsets, which is answered (``list_offsets``) unless it fails."""
REFUSALS: Final[Mapping[type, Refuse]] = MappingProxyType(
    {
        m.ProduceRequest: _produce,
        m.FetchRequest: _fetch,
        m.OffsetCommitRequest: _parts(
            _Committed,
            _Committed.OffsetCommitResponseTopic,
            _Committed.OffsetCommitResponsePartition,
        ),
        m.OffsetFetchRequest: _offset_fetch,
        m.JoinGroupRequest: one_error(m.JoinGroupResponse),
        m.HeartbeatRequest: one_error(m.HeartbeatResponse),
        m.LeaveGroupRequest: one_error(m.LeaveGroupResponse),
        m.SyncGroupRequest: one_error(m.SyncGroupResponse),
        m.DescribeGroupsRequest: _groups(
            "groups", _Described, _Described.DescribedGroup, "groups", "group_id"
        ),
        m.ListGroupsRequest: one_error(m.ListGroupsResponse),
        m.DeleteRecordsRequest: _parts(
            _Truncated,
            _Truncated.DeleteRecordsTopicResult,
            _Truncated.DeleteRecordsPartitionResult,
            low_watermark=-1,
        ),
        m.OffsetForLeaderEpochRequest: _parts(
            _Epochs,
            _Epochs.OffsetForLeaderTopicResult,
            _Epochs.EpochEndOffset,
            name="topic",
            index="partition",
        ),
        m.AddPartitionsToTxnRequest: _add_partitions,
        m.AddOffsetsToTxnRequest: one_error(m.AddOffsetsToTxnResponse),
        m.EndTxnRequest: one_error(m.EndTxnResponse),
        m.WriteTxnMarkersRequest: _markers,
        m.TxnOffsetCommitRequest: _parts(
            _InTransaction,
            _InTransaction.TxnOffsetCommitResponseTopic,
            _InTransaction.TxnOffsetCommitResponsePartition,
        ),
        m.AlterReplicaLogDirsRequest: _replica_dirs,
        m.DeleteGroupsRequest: _groups(
            "groups_names", _Deleted, _Deleted.DeletableGroupResult, "results", "group_id"
        ),
        m.OffsetDeleteRequest: one_error(m.OffsetDeleteResponse),
        m.DescribeProducersRequest: _producers,
        m.DescribeTransactionsRequest: _groups(
            "transactional_ids",
            _Transactions,
            _Transactions.TransactionState,
            "transaction_states",
            "transactional_id",
        ),
        m.ListTransactionsRequest: one_error(m.ListTransactionsResponse),
        m.ConsumerGroupHeartbeatRequest: one_error(m.ConsumerGroupHeartbeatResponse),
        m.ConsumerGroupDescribeRequest: _groups(
            "group_ids", _Consumers, _Consumers.DescribedGroup, "groups", "group_id"
        ),
    }
)
"""Request -> how it is refused."""


@serves(m.ProduceRequest, refused=_produce)
def produce(
    _cluster: KnownCluster, request: m.ProduceRequest, _asked: Asked
) -> m.ProduceResponse | NoAnswer:
    """Refuse it; the connection of a client that wants no answer is closed, as in Kafka."""
    return NoAnswer() if request.acks == 0 else _produce(request, CODE, WHY)


for _request, _refused in REFUSALS.items():
    if _request is not m.ProduceRequest:
        serves_refused(_request, _refused, CODE, WHY)
