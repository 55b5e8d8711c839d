"""DescribeAcls (29): the entries that match a filter. KIP-140, KIP-290 (v1).

Kafka: AclApis.handleDescribeAcls, StandardAuthorizerData.acls (3.9).

For everything: CLUSTER_AUTHORIZATION_FAILED without DESCRIBE on CLUSTER; SECURITY_DISABLED without
an authorizer; INVALID_REQUEST for an invalid filter (Kafka closes the connection or
finds nothing). Version 0 knows literal patterns only. A read: served before the copy and on a
standby.
"""

from __future__ import annotations

from itertools import groupby

from emulator.controller.context import ReadContext
from emulator.controller.registry import handles
from emulator.controller.result import Result, one_error
from emulator.controller.tables.acl_index import AclFilter, AclIndex, Entry
from emulator.metadata.acls import Operation, Resource
from emulator.metadata.image import Image
from emulator.seam import Pace, Slices
from wire import messages as m
from wire.errors import ErrorCode

Response = m.DescribeAclsResponse
refused = one_error(Response)


@handles(
    m.DescribeAclsRequest,
    refused=refused,
    pre_migration=True,
    read=True,
    needs=Operation.DESCRIBE,
)
def describe_acls(
    image: Image, request: m.DescribeAclsRequest, ctx: ReadContext
) -> Slices[Result[Response]]:
    """List the matching entries, grouped by resource."""
    if ctx.config.authorizer is None:
        text = "No Authorizer is configured on the broker"
        return Result(refused(request, ErrorCode.SECURITY_DISABLED, text))
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    problem = wanted.problem()
    if problem is not None:
        return Result(refused(request, ErrorCode.INVALID_REQUEST, problem))
    found = yield from AclIndex(image).find(wanted)
    response, pace = Response(), Pace()
    for resource, entries in groupby(found, _resource):
        told = Response.DescribeAclsResource(
            resource_type=resource.resource_type,
            resource_name=resource.name,
            pattern_type=resource.pattern_type,
        )
        response.resources.append(told)
        for _, acl in entries:
            if pace.over():
                yield
            description = Response.AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            told.acls.append(description)
    return Result(response)


def _resource(entry: Entry) -> Resource:
    return entry[1].resource
