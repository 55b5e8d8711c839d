"""Whether a call is looked at at all: what its caller must be allowed to do to the cluster.

Comes before everything else, on a standby too, and is judged on the committed ACLs. What an API
asks for topics or other resources is its own business (``Context.allowed``).

Source: ControllerApis, AuthHelper.authorizeClusterOperation, Kafka 3.9.
"""

from __future__ import annotations

from typing import Final, Protocol

from emulator.controller.authorizer import not_authorized
from emulator.controller.context import CLUSTER_NAME, Authorizer, Call
from emulator.controller.registry import handlers, refused
from emulator.metadata.acls import Operation, ResourceType
from emulator.metadata.image import Image
from emulator.raft.requests import RAFT_REQUESTS
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
        return refused(call.header.api_key, call.message, ErrorCode.UNKNOWN_SERVER_ERROR, NOT_READY)
    needs = needed(call.message)
    cluster = ResourceType.CLUSTER
    if needs is None or authorizer.allows(metadata.stable, call, needs, cluster, CLUSTER_NAME):
        return None
    return refused(
        call.header.api_key,
        call.message,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        not_authorized(call),
    )


def needed(message: object) -> Operation | None:
    """What the caller of an API must be allowed to do to the cluster; None: it depends."""
    key = spec(type(message)).key
    assert key is not None, "a request has an API key"
    raft = RAFT_REQUESTS.get(key)
    if raft is not None:
        return Operation(raft.needs)
    handler = handlers().get(key)
    return None if handler is None else handler.needs
