"""Requests to the ZooKeeper controller, which a broker of ours never is.

They are ControlledShutdown (7), AlterPartition (56), Envelope (58) and AllocateProducerIds (67).
Every broker in ZooKeeper mode lists them, as it may become the controller. One that is not answers
NOT_CONTROLLER, and to ControlledShutdown STALE_CONTROLLER_EPOCH: the sender looks for the
controller again. Source: KafkaApis.handle{AlterPartition,Envelope}Request,
KafkaController.{doControlledShutdown,processAllocateProducerIds}, Kafka 3.9.
"""

from __future__ import annotations

from emulator.broker.registry import serves_refused, whole
from wire import messages as m
from wire.errors import ErrorCode


def refused_envelope(
    _request: m.EnvelopeRequest, code: ErrorCode, _text: str | None
) -> m.EnvelopeResponse:
    """The response with one error; nothing is in the Envelope."""
    return m.EnvelopeResponse(response_data=None, error_code=code)


serves_refused(
    m.ControlledShutdownRequest,
    whole(m.ControlledShutdownResponse),
    ErrorCode.STALE_CONTROLLER_EPOCH,
)
for _request, _refused in (
    (m.AlterPartitionRequest, whole(m.AlterPartitionResponse)),
    (m.EnvelopeRequest, refused_envelope),
    (m.AllocateProducerIdsRequest, whole(m.AllocateProducerIdsResponse)),
):
    serves_refused(_request, _refused, ErrorCode.NOT_CONTROLLER)
