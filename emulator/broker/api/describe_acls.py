"""DescribeAcls (29): the entries that match a filter, from the metadata this broker knows.

CLUSTER_AUTHORIZATION_FAILED without DESCRIBE on the cluster; all else as the controller's handler.
"""

from __future__ import annotations

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, serves
from emulator.broker.serving.reading import reading
from emulator.controller.api import describe_acls as shared
from emulator.controller.rules.authorizer import not_authorized
from emulator.metadata.acls import Operation
from emulator.seam import Slices
from wire import messages as m
from wire.errors import ErrorCode


@serves(m.DescribeAclsRequest, refused=shared.refused)
def describe_acls(
    cluster: KnownCluster, request: m.DescribeAclsRequest, asked: Asked
) -> Slices[m.DescribeAclsResponse]:
    """List the matching entries, grouped by resource."""
    caller = reading(cluster, request, asked)
    if not caller.may_on_cluster(Operation.DESCRIBE):
        text = not_authorized(caller.call)
        return shared.refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, text)
    result = yield from shared.describe_acls(caller.image, request, caller)
    return result.response
