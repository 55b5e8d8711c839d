"""Requests to the ZooKeeper controller, which a broker of ours never is.

They are ControlledShutdown (7), AlterPartition (56), Envelope (58) and AllocateProducerIds (67).
Every broker in ZooKeeper mode lists them, as it may become the controller. One that is not answers
NOT_CONTROLLER, and to ControlledShutdown STALE_CONTROLLER_EPOCH: the sender looks for the
controller again. Source: KafkaApis.handle{AlterPartition,Envelope}Request,
KafkaController.{doControlledShutdown,processAllocateProducerIds}, Kafka 3.9.
"""

from __future__ import annotations

from emulator.broker.cluster import KnownCluster
from emulator.broker.registry import Asked, serves
from wire import messages as m
from wire.errors import ErrorCode


def refused_shutdown(
    _request: m.ControlledShutdownRequest, code: ErrorCode, _text: str | None
) -> m.ControlledShutdownResponse:
    """The response with one error."""
    return m.ControlledShutdownResponse(error_code=code)


def refused_isrs(
    _request: m.AlterPartitionRequest, code: ErrorCode, _text: str | None
) -> m.AlterPartitionResponse:
    """The response with one error for the whole request."""
    return m.AlterPartitionResponse(error_code=code)


def refused_envelope(
    _request: m.EnvelopeRequest, code: ErrorCode, _text: str | None
) -> m.EnvelopeResponse:
    """The response with one error; nothing is in the Envelope."""
    return m.EnvelopeResponse(response_data=None, error_code=code)


def refused_producer_ids(
    _request: m.AllocateProducerIdsRequest, code: ErrorCode, _text: str | None
) -> m.AllocateProducerIdsResponse:
    """The response with one error."""
    return m.AllocateProducerIdsResponse(error_code=code)


@serves(m.ControlledShutdownRequest, refused=refused_shutdown)
def controlled_shutdown(
    _cluster: KnownCluster, request: m.ControlledShutdownRequest, _asked: Asked
) -> m.ControlledShutdownResponse:
    """See the module's docstring."""
    return refused_shutdown(request, ErrorCode.STALE_CONTROLLER_EPOCH, None)


@serves(m.AlterPartitionRequest, refused=refused_isrs)
def alter_partition(
    _cluster: KnownCluster, request: m.AlterPartitionRequest, _asked: Asked
) -> m.AlterPartitionResponse:
    """See the module's docstring."""
    return refused_isrs(request, ErrorCode.NOT_CONTROLLER, None)


@serves(m.EnvelopeRequest, refused=refused_envelope)
def envelope(
    _cluster: KnownCluster, request: m.EnvelopeRequest, _asked: Asked
) -> m.EnvelopeResponse:
    """See the module's docstring."""
    return refused_envelope(request, ErrorCode.NOT_CONTROLLER, None)


@serves(m.AllocateProducerIdsRequest, refused=refused_producer_ids)
def allocate_producer_ids(
    _cluster: KnownCluster, request: m.AllocateProducerIdsRequest, _asked: Asked
) -> m.AllocateProducerIdsResponse:
    """See the module's docstring."""
    return refused_producer_ids(request, ErrorCode.NOT_CONTROLLER, None)
