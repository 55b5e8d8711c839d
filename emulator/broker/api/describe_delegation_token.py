"""DescribeDelegationToken (41): not on a PLAINTEXT listener, and a broker here has no other one.

DELEGATION_TOKEN_REQUEST_NOT_ALLOWED. Kafka: KafkaApis.handleDescribeTokensRequest,
allowTokenRequests (3.9).
"""

from __future__ import annotations

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, serves
from wire import messages as m
from wire.errors import ErrorCode


def refused(
    _request: m.DescribeDelegationTokenRequest, code: ErrorCode, _text: str | None
) -> m.DescribeDelegationTokenResponse:
    """The response with the error; it has no field for a text."""
    return m.DescribeDelegationTokenResponse(error_code=code)


@serves(m.DescribeDelegationTokenRequest, refused=refused)
def describe_delegation_token(
    _cluster: KnownCluster, request: m.DescribeDelegationTokenRequest, _asked: Asked
) -> m.DescribeDelegationTokenResponse:
    """Refuse, as the listener says nothing about who is asking."""
    return refused(request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, None)
