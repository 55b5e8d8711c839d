"""Envelope (58): a client's request, passed on by a broker. KIP-590.

Kafka: ControllerApis.handleEnvelopeRequest, EnvelopeUtils (3.9).

CLUSTER_AUTHORIZATION_FAILED for a forwarder without CLUSTER_ACTION;
PRINCIPAL_DESERIALIZATION_FAILURE, INVALID_REQUEST for a bad address or an API that is not
forwardable, UNSUPPORTED_VERSION for an inner request that cannot be read; NOT_CONTROLLER without
data if the inner response has that error. Every other inner error stays in the inner response. The
inner request is authorized by the principal and the address in the Envelope.
"""

from __future__ import annotations

from emulator.controller.context import Call, Context
from emulator.controller.registry import handles
from emulator.controller.result import Result, one_error
from emulator.controller.rules.forwarding import opening
from emulator.metadata.acls import Operation
from emulator.metadata.image import Image
from emulator.seam import Slices
from wire import messages as m

refused = one_error(m.EnvelopeResponse, response_data=None)


@handles(
    m.EnvelopeRequest,
    refused=refused,
    pre_migration=True,
    read=True,
    needs=Operation.CLUSTER_ACTION,
)
def envelope(
    _image: Image, request: m.EnvelopeRequest, ctx: Context
) -> Slices[Result[m.EnvelopeResponse | Call]]:
    """Open the Envelope; returns the inner Call, which the machine then answers."""
    inner = yield from opening(ctx.call, ctx.config.release)
    if isinstance(inner, Call):
        return Result(inner)
    return Result(refused(request, inner, None))
