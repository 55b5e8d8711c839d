"""Who may do what, decided on the ACLs of an image.

The entries that apply to a resource are those of its own name, of ``*``, and of every prefix of its
name. One matching DENY outweighs any ALLOW. If no entry applies to the resource, the configured
default decides. If entries apply but none matches the caller, access is denied.

Source: StandardAuthorizer, StandardAuthorizerData, Kafka 3.9; KIP-11, KIP-290, KIP-801.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from types import MappingProxyType
from typing import Final, Protocol

from emulator.controller.context import CLUSTER_NAME, Authorizer, Call
from emulator.controller.registry import handlers
from emulator.controller.result import ApiError, shortened
from emulator.metadata.acls import (
    WILDCARD,
    AclsByResource,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourceAcls,
    ResourceType,
)
from emulator.metadata.image import Image
from emulator.net.raft_requests import RAFT_REQUESTS
from wire import messages as m
from wire.errors import ErrorCode
from wire.schema import spec

ANYBODY: Final = "User:*"
"""Matches principals of every type."""
IMPLIED: Final[Mapping[int, frozenset[int]]] = MappingProxyType(
    {
        Operation.DESCRIBE: frozenset(
            {
                Operation.DESCRIBE,
                Operation.READ,
                Operation.WRITE,
                Operation.DELETE,
                Operation.ALTER,
            }
        ),
        Operation.DESCRIBE_CONFIGS: frozenset(
            {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}
        ),
    }
)
"""Operation -> the operations in an ALLOW that also allow it; a DENY must name the operation
itself.
"""


@dataclass(frozen=True, slots=True)
class StandardAuthorizer:
    """The authorizer of a KRaft controller, with its two settings.

    ``super_users`` are ``Type:name``; they may do everything, regardless of the ACLs.
    """

    super_users: frozenset[str] = frozenset()
    allow_everyone_if_no_acl_found: bool = False

    def is_super_user(self, principal: str) -> bool:
        """Whether this principal is a super user, for whom no ACL is checked."""
        return principal in self.super_users

    def allows(
        self,
        image: Image,
        call: Call,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Whether the caller may do this operation on that resource, from the caller's address."""
        return bool(self.allowed(image, call, (operation,), resource_type, name))

    def allowed(
        self,
        image: Image,
        call: Call,
        operations: Sequence[Operation],
        resource_type: ResourceType,
        name: str,
    ) -> list[Operation]:
        """Those of these operations that the caller may do; its guards are found once."""
        if call.principal in self.super_users:
            return [*operations]
        principals = {call.principal, ANYBODY}
        hosts = {host_address(call.client_address), WILDCARD}
        guarded = False
        denied, given = set[int](), set[int]()
        for _, group in guards(image.acls_by_resource, resource_type, name):
            guarded = True
            for acl in group.values():
                if acl.principal in principals and acl.host in hosts:
                    (denied if acl.permission == Permission.DENY else given).add(acl.operation)
        if not guarded:
            return [*operations] if self.allow_everyone_if_no_acl_found else []
        return [
            one
            for one in operations
            if denied.isdisjoint((one, Operation.ALL))
            and (Operation.ALL in given or not given.isdisjoint(IMPLIED.get(one, (one,))))
        ]


def guards(
    acls: AclsByResource, resource_type: int, name: str
) -> Iterator[tuple[Resource, ResourceAcls]]:
    """Every resource pattern that covers a name, and its entries.

    Prefixes are found by binary search in the sorted keys: the greatest key not above the name is
    either a prefix of it, or gives an upper limit for the length of all remaining prefixes. So the
    cost depends on the number of matching prefixes, not on the number of entries.
    """
    kind = int(resource_type)
    for literal in dict.fromkeys((name, WILDCARD)):
        resource = Resource(kind, int(PatternType.LITERAL), literal)
        group = acls.get(resource)
        if group is not None:
            yield resource, group
    rest = name
    while rest:
        below = acls.floor(Resource(kind, int(PatternType.PREFIXED), rest))
        if below is None or below[:2] != (kind, PatternType.PREFIXED):
            return
        if rest.startswith(below.name):
            yield below, acls[below]
            rest = below.name[:-1]
        else:
            rest = rest[: _shared(rest, below.name)]


def host_address(address: bytes) -> str:
    r"""The text of a 4 or 16 byte address as ACLs write hosts: InetAddress.getHostAddress, Java 17.

    >>> host_address(bytes([10, 0, 0, 7])), host_address(bytes(15) + b"\x01")
    ('10.0.0.7', '0:0:0:0:0:0:0:1')
    >>> host_address(bytes(10) + b"\xff\xff" + bytes([10, 0, 0, 7]))
    '10.0.0.7'
    """
    if len(address) == 4:
        return str(ip_address(address))
    if address[:12] == bytes(10) + b"\xff\xff":
        return str(ip_address(address[12:]))
    return ":".join(f"{int.from_bytes(address[at : at + 2], 'big'):x}" for at in range(0, 16, 2))


def not_authorized(call: Call) -> str:
    """The text for CLUSTER_AUTHORIZATION_FAILED, for responses that have a message field."""
    name = type(call.message).__name__.removesuffix("Request")
    who = f"{call.principal}, /{host_address(call.client_address)}"
    return shortened(f"Request {name}({who}, listener {call.listener}) is not authorized.")


def _shared(one: str, other: str) -> int:
    """Length of the common prefix of two different strings."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


# Authorization of a call on the cluster resource, before any handler runs.
#
# This check comes first, on a standby controller too, and uses the committed ACLs. Handlers check
# access to topics and other resources themselves (``Context.allowed``).
#
# Source: ControllerApis, AuthHelper.authorizeClusterOperation, Kafka 3.9.

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
