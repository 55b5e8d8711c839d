"""DescribeUserScramCredentials (50): mechanisms and iterations of users. KIP-554.

Kafka: KafkaApis.handleDescribeUserScramCredentialsRequest, ScramImage.describe (3.9).

CLUSTER_AUTHORIZATION_FAILED for everything without DESCRIBE on the cluster. Per user
DUPLICATE_RESOURCE if it is named twice, RESOURCE_NOT_FOUND if it has no credential. No users, or
null: all that have one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from operator import itemgetter

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, serves
from emulator.broker.serving.reading import reading
from emulator.controller.result import shortened
from emulator.metadata.acls import Operation
from emulator.metadata.image import Image
from emulator.metadata.scram import Mechanism
from emulator.seam import RECORDS_PER_SLICE, Slices, listed
from wire import messages as m
from wire.errors import ErrorCode

Response = m.DescribeUserScramCredentialsResponse
Result = m.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
Info = m.DescribeUserScramCredentialsResponse.CredentialInfo


def refused(
    request: m.DescribeUserScramCredentialsRequest, code: ErrorCode, text: str | None
) -> m.DescribeUserScramCredentialsResponse:
    """The response with the error and its text, and as often as users are named, without a name."""
    results = [Result(error_code=code, error_message=text) for _ in request.users or ()]
    return Response(error_code=code, error_message=text, results=results)


@serves(m.DescribeUserScramCredentialsRequest, refused=refused)
def describe_user_scram_credentials(
    cluster: KnownCluster, request: m.DescribeUserScramCredentialsRequest, asked: Asked
) -> Slices[m.DescribeUserScramCredentialsResponse]:
    """List what is known of each user; never a salt or a key."""
    caller = reading(cluster, request, asked)
    if not caller.may_on_cluster(Operation.DESCRIBE):
        return refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    image = cluster.image
    named: Mapping[str, int]
    if request.users:
        named = Counter(user.name for user in request.users)
    else:
        users = yield from listed(itemgetter(0), image.scram_credentials, RECORDS_PER_SLICE)
        named = dict.fromkeys(users, 1)
    results = yield from listed(lambda one: _described(image, *one), named.items())
    return Response(error_message=None, results=results)


def _described(image: Image, user: str, times: int) -> Result:
    if times > 1:
        text = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        )
        return _failed(user, ErrorCode.DUPLICATE_RESOURCE, text)
    infos = [
        Info(mechanism=mechanism, iterations=found.iterations)
        for mechanism in Mechanism
        if (found := image.scram_credentials.get((user, int(mechanism)))) is not None
    ]
    if not infos:
        text = f"Attempt to describe a user credential that does not exist: {user}"
        return _failed(user, ErrorCode.RESOURCE_NOT_FOUND, text)
    return Result(user=user, error_message=None, credential_infos=infos)


def _failed(user: str, code: ErrorCode, text: str) -> Result:
    return Result(user=user, error_code=code, error_message=shortened(text))
