"""SaslAuthenticate (36): ILLEGAL_SASL_STATE to who began no login by SaslHandshake. KIP-152.

That is a client that need not log in, or has logged in and begins no other login. The login itself
is part of the connection (``emulator.net.authentication``).
Kafka: KafkaApis.handleSaslAuthenticateRequest (3.9).
"""

from __future__ import annotations

from typing import Final

from emulator.broker.registry import serves_refused
from emulator.controller.result import one_error
from wire import messages as m
from wire.errors import ErrorCode

WHY: Final = "There is no SASL login on this connection, or it is done."

serves_refused(
    m.SaslAuthenticateRequest,
    one_error(m.SaslAuthenticateResponse),
    ErrorCode.ILLEGAL_SASL_STATE,
    WHY,
)
