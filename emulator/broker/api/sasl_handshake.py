"""SaslHandshake (17): ILLEGAL_SASL_STATE to a client that has logged in, or need not. KIP-43.

The login itself is part of the connection (``emulator.net.authentication``).
Kafka: KafkaApis.handleSaslHandshakeRequest (3.9).
"""

from __future__ import annotations

from emulator.broker.registry import serves_refused
from emulator.controller.result import one_error
from wire import messages as m
from wire.errors import ErrorCode

serves_refused(
    m.SaslHandshakeRequest, one_error(m.SaslHandshakeResponse), ErrorCode.ILLEGAL_SASL_STATE
)
