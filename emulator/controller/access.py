"""Whether a call is looked at at all: what its caller must be allowed to do to the cluster.

Comes before everything else, on a standby too, and is judged on the committed ACLs. What an API
asks for topics or other resources is its own business (``Context.allowed``).

Source: ControllerApis, AuthHelper.authorizeClusterOperation, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from emulator.controller.authorizer import not_authorized
from emulator.controller.context import CLUSTER_NAME, Authorizer, Call
from emulator.controller.registry import RAFT_REQUESTS, handlers
from emulator.metadata.acls import Operation, ResourceType
from emulator.metadata.image import Image
from wire import messages as m
from wire.errors import ErrorCode
from wire.schema import spec

NOT_READY: Final = "The authorizer has not loaded the ACLs yet."


class Committed(Protocol):
    """Where the ACLs come from."""

    @property
    def stable(self) -> Image:
        """Everything that may be shown."""

    @property
    def loaded(self) -> bool:
        """Whether that holds what was committed before this node started."""


def refusal(call: Call, metadata: Committed, authorizer: Authorizer | None) -> object | None:
    """The answer to a caller who may not make this call; None if there is no reason to refuse.

    The listener opens before the ACLs are loaded (``early.start.listeners`` has it by default).
    Until then only super users are served; everybody else is answered UNKNOWN_SERVER_ERROR, what
    AuthorizerNotReadyException is on the wire.

    Args:
        call: not opened, if it is an Envelope.
        metadata: whose ACLs count.
        authorizer: None allows everything.
    """
    if authorizer is None or isinstance(call.message, m.ApiVersionsRequest):
        return None
    if not metadata.loaded and not authorizer.is_super_user(call.principal):
        return _refused(call, ErrorCode.UNKNOWN_SERVER_ERROR, NOT_READY)
    needs = needed(call.message)
    cluster = ResourceType.CLUSTER
    if needs is None or authorizer.allows(metadata.stable, call, needs, cluster, CLUSTER_NAME):
        return None
    return _refused(call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, not_authorized(call))


def needed(message: object) -> Operation | None:
    """What the caller of an API must be allowed to do to the cluster; None: it depends."""
    operation = RAFT_REQUESTS.get(type(message))
    if operation is not None:
        return operation
    key = spec(type(message)).key
    handler = None if key is None else handlers().get(key)
    return None if handler is None else handler.needs


def _refused(call: Call, code: ErrorCode, text: str) -> object:
    raft = _RAFT_REFUSALS.get(type(call.message))
    if raft is not None:
        return raft(call.message, code)
    return handlers()[call.header.api_key].refused(call.message, code, text)


def _fetch_refused(request: m.FetchRequest, code: ErrorCode) -> m.FetchResponse:
    """Before v13, when topics had names, every partition carries the error as well."""
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


_RAFT_REFUSALS: Final[Mapping[type, Callable[[Any, ErrorCode], object]]] = MappingProxyType(
    {
        m.FetchRequest: _fetch_refused,
        m.VoteRequest: lambda _, code: m.VoteResponse(error_code=code),
        m.BeginQuorumEpochRequest: lambda _, code: m.BeginQuorumEpochResponse(error_code=code),
        m.EndQuorumEpochRequest: lambda _, code: m.EndQuorumEpochResponse(error_code=code),
        m.FetchSnapshotRequest: lambda _, code: m.FetchSnapshotResponse(error_code=code),
        m.DescribeQuorumRequest: lambda _, code: m.DescribeQuorumResponse(
            error_code=code, error_message="Cluster authorization failed."
        ),
    }
)
