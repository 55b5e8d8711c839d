"""Brokers: ids 0, 1, 7, 8, 17.

KIP-631, KIP-841 (controlled shutdown), KIP-866 (migrating flag), KIP-858 (directories).
Source: the records of the same names, Kafka 3.4-3.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.schema import (
    ZERO_UUID,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Uint16,
    Uuid,
    field,
    group,
    record,
)


@record(key=0, versions="0-3")
class RegisterBrokerRecord:
    @group
    class BrokerEndpoint:
        name: String = ""
        host: String = ""
        port: Uint16 = 0
        security_protocol: Int16 = 0

    @group
    class BrokerFeature:
        name: String = ""
        min_supported_version: Int16 = 0
        max_supported_version: Int16 = 0

    broker_id: Int32 = 0
    is_migrating_zk_broker: Bool = field(False, versions="2+")
    incarnation_id: Uuid = ZERO_UUID
    broker_epoch: Int64 = 0
    end_points: list[BrokerEndpoint] = []
    features: list[BrokerFeature] = []
    rack: String | None = ""
    fenced: Bool = True
    in_controlled_shutdown: Bool = field(False, versions="1+")
    log_dirs: Sequence[Uuid] = field((), versions="3+", tag=0)


@record(key=1, versions="0")
class UnregisterBrokerRecord:
    broker_id: Int32 = 0
    broker_epoch: Int64 = 0


@record(key=7, versions="0")
class FenceBrokerRecord:
    id: Int32 = 0
    epoch: Int64 = 0


@record(key=8, versions="0")
class UnfenceBrokerRecord:
    id: Int32 = 0
    epoch: Int64 = 0


@record(key=17, versions="0-2")
class BrokerRegistrationChangeRecord:
    broker_id: Int32 = 0
    broker_epoch: Int64 = 0
    fenced: Int8 = field(0, tag=0)
    in_controlled_shutdown: Int8 = field(0, versions="1+", tag=1)
    log_dirs: Sequence[Uuid] = field((), versions="2+", tag=2)
