"""The APIs that the Raft machine answers (``Raft.request``): permission, error response.

The only place that lists them. Source: RaftManager.handleRequest and ControllerApis, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from wire import messages as m
from wire.errors import UNEXPECTED, ErrorCode
from wire.schema import spec

DESCRIBE: Final = 8
CLUSTER_ACTION: Final = 9
"""Kafka's numbers of these two ACL operations (AclOperation)."""


@dataclass(frozen=True, slots=True)
class RaftRequest:
    """One API.

    ``refused(request, code)`` builds the response with one error and nothing else. ``needs``:
    number of the ACL operation on the cluster that the caller needs.
    """

    request: type
    refused: Callable[[Any, ErrorCode], object]
    needs: int = CLUSTER_ACTION

    @property
    def key(self) -> int:
        """Kafka's API key."""
        key = spec(self.request).key
        assert key is not None, "a request has an API key"
        return key


def _fetch_refused(request: m.FetchRequest, code: ErrorCode) -> m.FetchResponse:
    """Before v13, which still has topic names, every partition carries the error too."""
    response = m.FetchResponse
    return response(
        error_code=code,
        session_id=request.session_id,
        responses=[
            response.FetchableTopicResponse(
                topic=topic.topic,
                partitions=[
                    response.PartitionData(
                        partition_index=partition.partition, error_code=code, high_watermark=-1
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
            if topic.topic
        ],
    )


_DESCRIBE_TEXTS: Final = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.UNKNOWN_SERVER_ERROR: UNEXPECTED,
}


def _describe_refused(_request: object, code: ErrorCode) -> m.DescribeQuorumResponse:
    return m.DescribeQuorumResponse(error_code=code, error_message=_DESCRIBE_TEXTS.get(code))


_ALL: Final = (
    RaftRequest(m.FetchRequest, _fetch_refused),
    RaftRequest(m.VoteRequest, lambda _, code: m.VoteResponse(error_code=code)),
    RaftRequest(
        m.BeginQuorumEpochRequest, lambda _, code: m.BeginQuorumEpochResponse(error_code=code)
    ),
    RaftRequest(m.EndQuorumEpochRequest, lambda _, code: m.EndQuorumEpochResponse(error_code=code)),
    RaftRequest(m.DescribeQuorumRequest, _describe_refused, needs=DESCRIBE),
    RaftRequest(m.FetchSnapshotRequest, lambda _, code: m.FetchSnapshotResponse(error_code=code)),
)
RAFT_REQUESTS: Final[Mapping[int, RaftRequest]] = MappingProxyType({one.key: one for one in _ALL})
"""By API key."""
