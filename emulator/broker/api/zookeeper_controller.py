"""Requests to the ZooKeeper controller, which a broker of ours never is.

They are ControlledShutdown (7), AlterPartition (56), Envelope (58) and AllocateProducerIds (67).
Every broker in ZooKeeper mode lists them, as it may become the controller. One that is not answers
NOT_CONTROLLER, and to ControlledShutdown STALE_CONTROLLER_EPOCH: the sender looks for the
controller again. Source: KafkaApis.handle{AlterPartition,Envelope}Request,
KafkaController.{doControlledShutdown,processAllocateProducerIds}, Kafka 3.9.
"""

from __future__ import annotations

from emulator.broker.registry import serves_refused
from emulator.controller.result import one_error
from wire import messages as m
from wire.errors import ErrorCode

serves_refused(
    m.ControlledShutdownRequest,
    one_error(m.ControlledShutdownResponse),
    ErrorCode.STALE_CONTROLLER_EPOCH,
)
for _request, _refused in (
    (m.AlterPartitionRequest, one_error(m.AlterPartitionResponse)),
    (m.EnvelopeRequest, one_error(m.EnvelopeResponse, response_data=None)),
    (m.AllocateProducerIdsRequest, one_error(m.AllocateProducerIdsResponse)),
):
    serves_refused(_request, _refused, ErrorCode.NOT_CONTROLLER)
