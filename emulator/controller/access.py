"""Authorization of a call on the cluster resource, before any handler runs.

This check comes first, on a standby controller too, and uses the committed ACLs. Handlers check
access to topics and other resources themselves (``Context.allowed``).

Source: ControllerApis, AuthHelper.authorizeClusterOperation, Kafka 3.9.
"""

from __future__ import annotations

from typing import Final, Protocol

from emulator.controller.authorizer import not_authorized
from emulator.controller.context import CLUSTER_NAME, Authorizer, Call
from emulator.controller.registry import handlers
from emulator.controller.result import ApiError
from emulator.metadata.acls import Operation, ResourceType
from emulator.metadata.image import Image
from emulator.net.raft_requests import RAFT_REQUESTS
from wire import messages as m
from wire.errors import ErrorCode
from wire.schema import spec

NOT_READY: Final = "The authorizer has not loaded the ACLs yet."


class Committed(Protocol):
    """The committed metadata, which holds the ACLs."""

    @property
    def stable(self) -> Image:
        """The image of everything that may be shown."""

    @property
    def loaded(self) -> bool:
        """Whether the image holds everything that was committed before this node started."""


def refusal(call: Call, metadata: Committed, authorizer: Authorizer | None) -> ApiError | None:
    """The error for a caller who is not authorized to make this call; None if the caller is.

    The listener opens before the ACLs are loaded (``early.start.listeners`` has it by default).
    Until then only super users are served. All other callers get UNKNOWN_SERVER_ERROR, the code
    that AuthorizerNotReadyException has on the wire.

    Args:
        call: the request; an Envelope is not opened yet.
        metadata: holds the ACLs.
        authorizer: None allows everything.
    """
    if authorizer is None or isinstance(call.message, m.ApiVersionsRequest):
        return None
    if not metadata.loaded and not authorizer.is_super_user(call.principal):
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, NOT_READY)
    needs = needed(call.message)
    cluster = ResourceType.CLUSTER
    if needs is None or authorizer.allows(metadata.stable, call, needs, cluster, CLUSTER_NAME):
        return None
    return ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, not_authorized(call))


def needed(message: object) -> Operation | None:
    """The operation on the cluster that the caller of an API needs; None if the handler decides."""
    key = spec(type(message)).key
    assert key is not None, "a request has an API key"
    raft = RAFT_REQUESTS.get(key)
    if raft is not None:
        return Operation(raft.needs)
    handler = handlers().get(key)
    return None if handler is None else handler.needs
