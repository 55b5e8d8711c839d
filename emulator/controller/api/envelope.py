"""Envelope (58): a client's request, passed on by a broker. KIP-590.

Kafka: ControllerApis.handleEnvelopeRequest, EnvelopeUtils (3.9).

CLUSTER_AUTHORIZATION_FAILED for a forwarder without CLUSTER_ACTION;
PRINCIPAL_DESERIALIZATION_FAILURE, INVALID_REQUEST for a bad address or an API that is not
forwardable, UNSUPPORTED_VERSION for an inner request that cannot be read; NOT_CONTROLLER without
data if the inner answer says so. Every other inner error stays inside: the inner request is judged
by the principal and the address in the Envelope.
"""

from __future__ import annotations

from emulator.controller.context import Call, Context
from emulator.controller.forwarding import opened
from emulator.controller.registry import handles
from emulator.controller.result import Result
from emulator.metadata.acls import Operation
from emulator.metadata.image import Image
from wire import messages as m
from wire.errors import ErrorCode


def refused(
    _request: m.EnvelopeRequest, code: ErrorCode, _message: str | None
) -> m.EnvelopeResponse:
    """An error has no data and no text."""
    return m.EnvelopeResponse(response_data=None, error_code=code)


@handles(
    m.EnvelopeRequest,
    refused=refused,
    pre_migration=True,
    read=True,
    needs=Operation.CLUSTER_ACTION,
)
def envelope(
    _image: Image, request: m.EnvelopeRequest, ctx: Context
) -> Result[m.EnvelopeResponse | Call]:
    """Open the Envelope; the machine answers the Call it finds in place of a response."""
    inner = opened(ctx.call, ctx.config.release)
    if isinstance(inner, Call):
        return Result(inner)
    return Result(refused(request, inner, None))
