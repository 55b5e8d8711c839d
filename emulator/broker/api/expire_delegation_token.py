"""ExpireDelegationToken (40): forwarded for clients that are known by more than a token.

DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for others.
Kafka: KafkaApis.handleExpireTokenRequest, allowTokenRequests (3.9).
"""

from __future__ import annotations

from emulator.broker.registry import serves
from emulator.broker.serving.token_requests import forward
from emulator.controller.result import one_error
from emulator.controller.rules.delegation_tokens import NO_TIMESTAMP
from wire import messages as m

refused = one_error(m.ExpireDelegationTokenResponse, expiry_timestamp_ms=NO_TIMESTAMP)
serves(m.ExpireDelegationTokenRequest, refused=refused)(forward(refused))
