"""Whether a client may ask anything about delegation tokens on its listener.

Source: KafkaApis.allowTokenRequests, Kafka 3.9; KIP-48.
"""

from __future__ import annotations

from typing import Any

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import ANONYMOUS, Asked, PassOn, Refuse, Serve
from wire.errors import ErrorCode

_UNKNOWN_CLIENTS = "PLAINTEXT"
_CERTIFIED_CLIENTS = "SSL"


def may_ask_for_tokens(asked: Asked) -> bool:
    """No unknown client, and no client that logged in with a token."""
    protocols = {one.name: one.security_protocol for one in asked.config.listeners}
    protocol = protocols.get(asked.listener, _UNKNOWN_CLIENTS)
    if protocol == _UNKNOWN_CLIENTS or asked.token_authenticated:
        return False
    return protocol != _CERTIFIED_CLIENTS or asked.principal != ANONYMOUS


def forward(refused: Refuse) -> Serve:
    """Forward the requests of such clients, and refuse those of others."""

    def serve(_cluster: KnownCluster, request: Any, asked: Asked) -> Any:
        if may_ask_for_tokens(asked):
            return PassOn(request)
        return refused(request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, None)

    return serve
