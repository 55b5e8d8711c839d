"""BrokerRegistration (62): a broker makes itself known to the controller and receives its epoch.

KIP-631, KIP-866 (v1), KIP-858 (v2), KIP-966 (v3), KIP-584 (v4). Source: BrokerRegistrationRequest,
BrokerRegistrationResponse, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import (
    ZERO_UUID,
    Bool,
    Int16,
    Int32,
    Int64,
    String,
    Uint16,
    Uuid,
    field,
    group,
    message,
)


@message(key=62, versions="0-4", flexible="0+")
class BrokerRegistrationRequest:
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

    broker_id: Int32 = 0
    cluster_id: String = ""
    incarnation_id: Uuid = ZERO_UUID
    listeners: list[Listener] = []
    features: list[Feature] = []
    rack: String | None = ""
    is_migrating_zk_broker: Bool = field(False, versions="1+")
    log_dirs: Sequence[Uuid] = field((), versions="2+", ignorable=True)
    previous_broker_epoch: Int64 = field(-1, versions="3+", ignorable=True)


@message(key=62, versions="0-4", flexible="0+")
class BrokerRegistrationResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    broker_epoch: Int64 = -1
