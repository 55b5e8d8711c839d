"""SaslAuthenticate (36): ILLEGAL_SASL_STATE to who began no login by SaslHandshake. KIP-152.

That is a client that need not log in, or has logged in and begins no other login. The login itself
is part of the connection (``emulator.net.authentication``).
Kafka: ControllerApis.handleSaslAuthenticateRequest (3.9).
"""

from __future__ import annotations

from typing import Final

from emulator.controller.context import Context
from emulator.controller.registry import handles
from emulator.controller.result import Result, one_error
from emulator.metadata.image import Image
from wire import messages as m
from wire.errors import ErrorCode

WHY: Final = "There is no SASL login on this connection, or it is done."
refused = one_error(m.SaslAuthenticateResponse)


@handles(m.SaslAuthenticateRequest, refused=refused, pre_migration=True, read=True)
def sasl_authenticate(
    _image: Image, request: m.SaslAuthenticateRequest, _ctx: Context
) -> Result[m.SaslAuthenticateResponse]:
    """Refuse."""
    return Result(refused(request, ErrorCode.ILLEGAL_SASL_STATE, WHY))
