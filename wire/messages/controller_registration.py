"""ControllerRegistration (70): a controller makes itself known to the active one.

KIP-919. Source: ControllerRegistrationRequest, ControllerRegistrationResponse, Kafka 3.7-3.9.
"""

from __future__ import annotations

from wire.schema import ZERO_UUID, Bool, Int16, Int32, String, Uint16, Uuid, group, message


@message(key=70, versions="0", flexible="0+")
class ControllerRegistrationRequest:
    @group
    class Listener:
        name: String = ""
        host: String = ""
        port: Uint16 = 0
        security_protocol: Int16 = 0

    @group
    class Feature:
        name: String = ""
        min_supported_version: Int16 = 0
        max_supported_version: Int16 = 0

    controller_id: Int32 = 0
    incarnation_id: Uuid = ZERO_UUID
    zk_migration_ready: Bool = False
    listeners: list[Listener] = []
    features: list[Feature] = []


@message(key=70, versions="0", flexible="0+")
class ControllerRegistrationResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
