"""Controllers: id 27.

KIP-919.
Source: RegisterControllerRecord, Kafka 3.4-3.9.
"""

from __future__ import annotations

from wire.schema import ZERO_UUID, Bool, Int16, Int32, String, Uint16, Uuid, group, record


@record(key=27, versions="0")
class RegisterControllerRecord:
    @group
    class ControllerEndpoint:
        name: String = ""
        host: String = ""
        port: Uint16 = 0
        security_protocol: Int16 = 0

    @group
    class ControllerFeature:
        name: String = ""
        min_supported_version: Int16 = 0
        max_supported_version: Int16 = 0

    controller_id: Int32 = 0
    incarnation_id: Uuid = ZERO_UUID
    zk_migration_ready: Bool = False
    end_points: list[ControllerEndpoint] = []
    features: list[ControllerFeature] = []
