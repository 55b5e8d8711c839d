"""SaslAuthenticate (36): ILLEGAL_SASL_STATE to a client that has logged in, or need not. KIP-152.

The login itself is part of the connection (``emulator.net.authentication``).
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
