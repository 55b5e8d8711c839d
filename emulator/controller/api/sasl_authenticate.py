"""SaslAuthenticate (36): ILLEGAL_SASL_STATE to a client that has logged in, or need not. KIP-152.

The login itself is part of the connection (``emulator.net.authentication``).
Kafka: ControllerApis.handleSaslAuthenticateRequest (3.9).
"""

from __future__ import annotations

from typing import Final

from emulator.controller.context import Context
from emulator.controller.registry import handles
from emulator.controller.result import Result
from emulator.metadata.image import Image
from wire import messages as m
from wire.errors import ErrorCode

WHY: Final = "There is no SASL login on this connection, or it is done."


def refused(
    _request: m.SaslAuthenticateRequest, code: ErrorCode, text: str | None
) -> m.SaslAuthenticateResponse:
    """The response with the error and its text."""
    return m.SaslAuthenticateResponse(error_code=code, error_message=text)


@handles(m.SaslAuthenticateRequest, refused=refused, pre_migration=True, read=True)
def sasl_authenticate(
    _image: Image, request: m.SaslAuthenticateRequest, _ctx: Context
) -> Result[m.SaslAuthenticateResponse]:
    """Refuse."""
    return Result(refused(request, ErrorCode.ILLEGAL_SASL_STATE, WHY))
