"""Whether a caller may do something to at least one resource of a type (KIP-679).

Source: Authorizer.authorizeByResourceType, Kafka 3.9.
"""

from __future__ import annotations

from typing import Final

from emulator.controller.authorizer import ANYBODY, host_address
from emulator.controller.context import Authorizer, Call
from emulator.metadata.acls import WILDCARD, Operation, PatternType, Permission, ResourceType
from emulator.metadata.image import Image

SOME_NAME: Final = "hardcode"
"""Kafka asks about this name first, for super users and for resources without ACLs."""


def allows_any(
    authorizer: Authorizer, image: Image, call: Call, operation: Operation, kind: ResourceType
) -> bool:
    """Whether an ALLOW is left that no DENY covers.

    Args:
        authorizer: its answer for a single resource.
        image: holds the ACLs.
        call: the caller.
        operation: must be named by an entry, or be among ALL.
        kind: the type of the resources.
    """
    if authorizer.allows(image, call, operation, kind, SOME_NAME):
        return True
    principals = {call.principal, ANYBODY}
    hosts = {host_address(call.client_address), WILDCARD}
    allowed: set[tuple[int, str]] = set()
    denied: set[tuple[int, str]] = set()
    for resource, group in image.acls_by_resource.items():
        if resource.resource_type != kind:
            continue
        for acl in group.values():
            if acl.principal not in principals or acl.host not in hosts:
                continue
            if acl.operation in {operation, Operation.ALL}:
                chosen = denied if acl.permission == Permission.DENY else allowed
                chosen.add((int(resource.pattern_type), resource.name))
    everything = int(PatternType.LITERAL), WILDCARD
    if everything in denied:
        return False
    return everything in allowed or any(not _covered(one, denied) for one in allowed)


def _covered(allowed: tuple[int, str], denied: set[tuple[int, str]]) -> bool:
    pattern, name = allowed
    if pattern == PatternType.LITERAL and allowed in denied:
        return True
    prefixed = int(PatternType.PREFIXED)
    return any((prefixed, name[:length]) in denied for length in range(1, len(name) + 1))
