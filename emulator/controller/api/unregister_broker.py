"""UnregisterBroker (64): remove the registration of a broker. KIP-500.

Kafka: ReplicationControlManager.unregisterBroker (3.9).

BROKER_ID_NOT_REGISTERED, without a text, for an unknown id. Needs ALTER on CLUSTER. Served before
the copy.
"""

from __future__ import annotations

from emulator.controller.context import Context
from emulator.controller.queue.urgency import Urgency
from emulator.controller.registry import handles
from emulator.controller.result import Result, one_error
from emulator.controller.rules import broker_changes
from emulator.metadata.acls import Operation
from emulator.metadata.image import Image
from emulator.seam import Slices
from wire import messages as m
from wire.errors import ErrorCode

Response = m.UnregisterBrokerResponse


@handles(
    m.UnregisterBrokerRequest,
    refused=one_error(Response),
    pre_migration=True,
    urgency=Urgency.URGENT,
    needs=Operation.ALTER,
)
def unregister_broker(
    image: Image, request: m.UnregisterBrokerRequest, ctx: Context
) -> Slices[Result[Response]]:
    """Remove the broker from every ISR, then remove its registration."""
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        return Result(Response(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED))
    records = yield from broker_changes.unregister(image, ctx.config, ctx.index, broker)
    return Result(Response(), records, atomic=False)
