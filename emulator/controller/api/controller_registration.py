"""ControllerRegistration (70): a controller of the quorum registers. KIP-919.

Kafka: ClusterControlManager.registerController (3.9).

UNSUPPORTED_VERSION below metadata.version 3.7-IV0, which does not have the record;
INCONSISTENT_VOTER_SET for a controller that is not in ``controller.quorum.voters`` (beyond Kafka,
which registers any id); INVALID_REGISTRATION for an unknown security protocol. Needs
CLUSTER_ACTION. Served before the copy: the migration waits for these registrations.
"""

from __future__ import annotations

from emulator.controller.context import Context
from emulator.controller.queue.urgency import Urgency
from emulator.controller.registry import handles
from emulator.controller.result import Result, one_error, shortened
from emulator.metadata.acls import Operation
from emulator.metadata.brokers import SECURITY_PROTOCOLS
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import Feature
from wire import messages as m
from wire import records as r
from wire.errors import ErrorCode

Request = m.ControllerRegistrationRequest
Response = m.ControllerRegistrationResponse
refused = one_error(Response)


@handles(
    Request,
    refused=refused,
    pre_migration=True,
    urgency=Urgency.URGENT,
    needs=Operation.CLUSTER_ACTION,
)
def controller_registration(image: Image, request: Request, ctx: Context) -> Result[Response]:
    """Replace the controller's registration."""
    if not image.metadata_version.supports(Feature.CONTROLLER_REGISTRATION):
        text = "The current MetadataVersion is too old to support controller registrations."
        return Result(refused(request, ErrorCode.UNSUPPORTED_VERSION, text))
    if request.controller_id not in ctx.config.voters:
        text = f"Controller {request.controller_id} is not in controller.quorum.voters."
        return Result(refused(request, ErrorCode.INCONSISTENT_VOTER_SET, text))
    for listener in request.listeners:
        if listener.security_protocol not in SECURITY_PROTOCOLS:
            text = f"Unknown security protocol {listener.security_protocol}"
            text = f"{text} in listener {listener.name}"
            return Result(refused(request, ErrorCode.INVALID_REGISTRATION, shortened(text)))
    record = r.RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=[
            r.RegisterControllerRecord.ControllerEndpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in request.listeners
        ],
        features=[
            r.RegisterControllerRecord.ControllerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ],
    )
    return Result(Response(), (record,))
