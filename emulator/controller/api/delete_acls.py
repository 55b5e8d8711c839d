"""DeleteAcls (31): remove the entries that match filters. KIP-140, KIP-290 (v1).

Kafka: AclApis.handleDeleteAcls, AclControlManager.deleteAcls (3.9).

For everything: CLUSTER_AUTHORIZATION_FAILED without ALTER on CLUSTER; SECURITY_DISABLED without an
authorizer; POLICY_VIOLATION for more than 10,000 filters, or more than 10,000 entries, each counted
once for every filter that matches it. INVALID_REQUEST per invalid filter. An
entry that two filters match is listed twice and removed once; all in one batch.
"""

from __future__ import annotations

from typing import Final

from emulator.controller.context import Context
from emulator.controller.queue.batches import BATCH_RECORDS_MAX, TOO_LARGE
from emulator.controller.registry import handles
from emulator.controller.result import Record, Result, shortened
from emulator.controller.tables.acl_index import AclFilter, AclIndex
from emulator.metadata.acls import Acl, Operation
from emulator.metadata.image import Image
from emulator.seam import ENTRIES_PER_SLICE, Slices
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

FILTERS_PER_SLICE: Final = 50
"""Filters that one slice looks up: what guards a name is looked for in each type of resource."""
Response = m.DeleteAclsResponse
Answer = m.DeleteAclsResponse.DeleteAclsFilterResult


def refused(request: m.DeleteAclsRequest, code: ErrorCode, message: str | None) -> Response:
    """The response with the error for every filter."""
    answer = Answer(error_code=code, error_message=message)
    return Response(filter_results=[answer for _ in request.filters])


@handles(m.DeleteAclsRequest, refused=refused, needs=Operation.ALTER)
def delete_acls(
    image: Image, request: m.DeleteAclsRequest, ctx: Context
) -> Slices[Result[Response]]:
    """Remove every entry that a filter matches."""
    if ctx.config.authorizer is None:
        text = "No Authorizer is configured."
        return Result(refused(request, ErrorCode.SECURITY_DISABLED, text))
    if len(request.filters) > BATCH_RECORDS_MAX:
        return Result(refused(request, ErrorCode.POLICY_VIOLATION, TOO_LARGE))
    answers: list[Answer] = []
    removed: dict[bytes, Record] = {}
    named = 0
    index = AclIndex(image)
    for number, one in enumerate(request.filters, 1):
        if number % FILTERS_PER_SLICE == 0:
            yield
        wanted = AclFilter(
            one.resource_type_filter,
            one.resource_name_filter,
            one.pattern_type_filter,
            one.principal_filter,
            one.host_filter,
            one.operation,
            one.permission_type,
        )
        problem = wanted.problem()
        if problem is not None:
            code = ErrorCode.INVALID_REQUEST
            answers.append(Answer(error_code=code, error_message=shortened(problem)))
            continue
        entries = yield from index.find(wanted)
        found = dict(entries[: BATCH_RECORDS_MAX + 1 - named])
        named += len(found)
        if named > BATCH_RECORDS_MAX:
            # Counted as often as filters name them: all of that is in the answer.
            return Result(refused(request, ErrorCode.POLICY_VIOLATION, TOO_LARGE))
        matching: list[Response.DeleteAclsMatchingAcl] = []
        for count, (key, acl) in enumerate(found.items(), 1):
            if count % ENTRIES_PER_SLICE == 0:
                yield
            removed[key] = r.RemoveAccessControlEntryRecord(id=key)
            matching.append(_told(acl))
        answers.append(Answer(error_message=None, matching_acls=matching))
    return Result(Response(filter_results=answers), tuple(removed.values()))


def _told(acl: Acl) -> Response.DeleteAclsMatchingAcl:
    return Response.DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource.resource_type,
        resource_name=acl.resource.name,
        pattern_type=acl.resource.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
