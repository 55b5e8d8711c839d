"""SaslHandshake (17): ILLEGAL_SASL_STATE to a client that has logged in, or need not. KIP-43.

The login itself is part of the connection (``emulator.net.authentication``).
Kafka: ControllerApis.handleSaslHandshakeRequest (3.9).
"""

from __future__ import annotations

from emulator.controller.context import Context
from emulator.controller.registry import handles
from emulator.controller.result import Result, one_error
from emulator.metadata.image import Image
from wire import messages as m
from wire.errors import ErrorCode

refused = one_error(m.SaslHandshakeResponse)


@handles(m.SaslHandshakeRequest, refused=refused, pre_migration=True, read=True)
def sasl_handshake(
    _image: Image, request: m.SaslHandshakeRequest, _ctx: Context
) -> Result[m.SaslHandshakeResponse]:
    """Refuse."""
    return Result(refused(request, ErrorCode.ILLEGAL_SASL_STATE, None))
