"""AllocateProducerIds (67): a block of producer ids for one broker. KIP-730.

Kafka: ProducerIdControlManager.generateNextProducerId (3.9).

STALE_BROKER_EPOCH unless the broker is registered with exactly this epoch; UNKNOWN_SERVER_ERROR
when the ids are used up. Needs CLUSTER_ACTION. The record holds the first id of the *next* block.
"""

from __future__ import annotations

from typing import Final

from emulator.controller.context import Context
from emulator.controller.queue.urgency import Urgency
from emulator.controller.registry import handles
from emulator.controller.result import Result, one_error
from emulator.metadata.acls import Operation
from emulator.metadata.image import Image
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

Response = m.AllocateProducerIdsResponse
BLOCK_SIZE: Final = 1_000
PRODUCER_ID_MAX: Final = 2**63 - 1

refused = one_error(Response)


@handles(
    m.AllocateProducerIdsRequest,
    refused=refused,
    urgency=Urgency.URGENT,
    needs=Operation.CLUSTER_ACTION,
)
def allocate_producer_ids(
    image: Image, request: m.AllocateProducerIdsRequest, _ctx: Context
) -> Result[Response]:
    """Allocate the next block, after the block migrated from ZooKeeper."""
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return Result(refused(request, ErrorCode.STALE_BROKER_EPOCH, None))
    start = image.producer_ids.next_producer_id
    if start > PRODUCER_ID_MAX - BLOCK_SIZE:
        return Result(refused(request, ErrorCode.UNKNOWN_SERVER_ERROR, None))
    record = r.ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=start + BLOCK_SIZE,
    )
    return Result(Response(producer_id_start=start, producer_id_len=BLOCK_SIZE), (record,))
