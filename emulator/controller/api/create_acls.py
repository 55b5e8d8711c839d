"""CreateAcls (30): add access control entries. KIP-140, KIP-290 (v1).

Kafka: AclApis.handleCreateAcls, AclControlManager.createAcls (3.9).

For everything: CLUSTER_AUTHORIZATION_FAILED without ALTER on CLUSTER; SECURITY_DISABLED without an
authorizer. INVALID_REQUEST per entry, in order: a CLUSTER resource of another name; an empty name;
an unknown or wildcard resource type, pattern type, operation, permission; a principal that is not
``Type:name`` (Kafka takes it, and no authorizer can read it afterwards); a name that no znode can
have, during a migration (Kafka takes it, and its next failover never ends). POLICY_VIOLATION per
entry, during a migration, if the resource's znode has no room for it. An entry that exists already
succeeds without a record. The valid entries of a request are added, all in one batch.
"""

from __future__ import annotations

from typing import Final

from emulator.controller.context import CLUSTER_NAME, Context
from emulator.controller.queue.batches import BATCH_RECORDS_MAX, TOO_LARGE
from emulator.controller.registry import handles
from emulator.controller.result import Record, Result, shortened
from emulator.controller.rules.storable import IN_ZOOKEEPER, Room
from emulator.metadata.acls import (
    Acl,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourceType,
    record_of,
)
from emulator.metadata.image import Image
from emulator.metadata.migration_state import MigrationState
from emulator.metadata.znodes import why_no_name
from emulator.seam import ENTRIES_PER_SLICE, Slices
from wire import messages as m
from wire.errors import ErrorCode

Response = m.CreateAclsResponse
Answer = m.CreateAclsResponse.AclCreationResult
Wanted = m.CreateAclsRequest.AclCreation


def refused(request: m.CreateAclsRequest, code: ErrorCode, message: str | None) -> Response:
    """The response with the error for every entry."""
    answer = Answer(error_code=code, error_message=message)
    return Response(results=[answer for _ in request.creations])


@handles(m.CreateAclsRequest, refused=refused, needs=Operation.ALTER)
def create_acls(
    image: Image, request: m.CreateAclsRequest, ctx: Context
) -> Slices[Result[Response]]:
    """Add the valid entries that do not exist yet."""
    if ctx.config.authorizer is None:
        text = "No Authorizer is configured."
        return Result(refused(request, ErrorCode.SECURITY_DISABLED, text))
    answers: list[Answer] = []
    added: dict[Acl, Record] = {}
    there: dict[Resource, frozenset[Acl]] = {}
    room = Room(image, ctx)
    for number, wanted in enumerate(request.creations, 1):
        if number % ENTRIES_PER_SLICE == 0:
            yield
        why = problem(wanted, image.migration_state)
        if why is not None:
            answers.append(
                Answer(error_code=ErrorCode.INVALID_REQUEST, error_message=shortened(why))
            )
            continue
        acl = _acl(wanted)
        if acl.resource not in there:
            there[acl.resource] = frozenset(image.resource_acls(acl.resource).values())
        if acl in added or acl in there[acl.resource]:
            answers.append(Answer())
            continue
        record = record_of(ctx.random_uuid(), acl)
        why = room.take([record])
        if why is not None:
            code = ErrorCode.POLICY_VIOLATION
            answers.append(Answer(error_code=code, error_message=shortened(why)))
            continue
        answers.append(Answer())
        added[acl] = record
        if len(added) > BATCH_RECORDS_MAX:
            return Result(refused(request, ErrorCode.POLICY_VIOLATION, TOO_LARGE))
    return Result(Response(results=answers), tuple(added.values()))


def problem(wanted: Wanted, state: MigrationState) -> str | None:
    """Why an entry is refused, in Kafka's order of precedence; None if it is valid."""
    name = wanted.resource_name
    if wanted.resource_type == ResourceType.CLUSTER and name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not name:
        return "Invalid empty resource name"
    return (
        _wrong(ResourceType, wanted.resource_type, "resourceType", 2)
        or _wrong(PatternType, wanted.resource_pattern_type, "patternType", 3)
        or _wrong(Operation, wanted.operation, "operation", 2)
        or _wrong(Permission, wanted.permission_type, "permissionType", 2)
        or _unreadable(wanted.principal)
        or (_unstorable(name) if state in IN_ZOOKEEPER else None)
    )


_HIGHEST: Final[dict[type, int]] = {
    kind: int(max(kind)) for kind in (ResourceType, PatternType, Operation, Permission)
}


def _wrong(
    kind: type[ResourceType | PatternType | Operation | Permission],
    number: int,
    field: str,
    lowest: int,
) -> str | None:
    if lowest <= number <= _HIGHEST[kind]:
        return None
    name = kind(number).name if number in list(kind) else "UNKNOWN"
    return f"Invalid {field} {name}"


def _unreadable(principal: str) -> str | None:
    if ":" in principal:
        return None
    return (
        f"Could not parse principal from `{principal}` "
        "(no colon is present separating the principal type from the principal name)"
    )


def _unstorable(name: str) -> str | None:
    why = why_no_name(name)
    if why is None:
        return None
    return f"the resource name {name!r} {why}, so it cannot be the name of a znode"


def _acl(wanted: Wanted) -> Acl:
    return Acl(
        Resource(wanted.resource_type, wanted.resource_pattern_type, wanted.resource_name),
        wanted.principal,
        wanted.host,
        wanted.operation,
        wanted.permission_type,
    )
