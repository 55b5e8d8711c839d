"""InitProducerId (22): a producer id for an idempotent producer.

Kafka: KafkaApis.handleInitProducerIdRequest, TransactionCoordinator.handleInitProducerId (3.9).

In order: TRANSACTIONAL_ID_AUTHORIZATION_FAILED without WRITE on the transactional id, or
CLUSTER_AUTHORIZATION_FAILED without IDEMPOTENT_WRITE on the cluster or WRITE on any topic
(KIP-679); INVALID_REQUEST if a producer id comes without an epoch or an epoch without an id;
COORDINATOR_LOAD_IN_PROGRESS while the controller has not given a block of ids. A transactional id
is INVALID_REQUEST: this broker keeps no transactions. A producer that has an id and no
transactional id gets a new one (KIP-360).
"""

from __future__ import annotations

from typing import Final

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, serves
from emulator.broker.serving.reading import BrokerReading, reading
from emulator.controller.result import one_error
from emulator.metadata.acls import Operation, ResourceType
from emulator.seam import Slices
from wire import messages as m
from wire.errors import ErrorCode

Response = m.InitProducerIdResponse
NONE: Final = -1
refused = one_error(Response, producer_id=NONE, producer_epoch=NONE)


@serves(m.InitProducerIdRequest, refused=refused)
def init_producer_id(
    cluster: KnownCluster, request: m.InitProducerIdRequest, asked: Asked
) -> Slices[m.InitProducerIdResponse]:
    """Give the next producer id away."""
    error = yield from _error(request, reading(cluster, request, asked))
    if error is not None:
        return refused(request, error, None)
    ids = asked.producer_ids
    claimed = None if ids is None else ids.claim(asked.now_ms)
    if claimed is None:
        return refused(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None)
    return Response(producer_id=claimed, producer_epoch=0)


def _error(request: m.InitProducerIdRequest, caller: BrokerReading) -> Slices[ErrorCode | None]:
    name = request.transactional_id
    if name is not None:
        if not caller.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not (
        caller.may_on_cluster(Operation.IDEMPOTENT_WRITE)
        or (yield from caller.may_to_any(Operation.WRITE, ResourceType.TOPIC))
    ):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        return ErrorCode.INVALID_REQUEST
    return None if name is None else ErrorCode.INVALID_REQUEST
