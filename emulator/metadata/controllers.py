"""Controller registrations (KIP-919), and whether each controller is ready to migrate.

Source: RegisterControllerRecord; ClusterControlManager.replay, Kafka 3.9.
"""

from __future__ import annotations

import msgspec

from emulator.metadata.brokers import Endpoint
from emulator.metadata.pmap import PMap
from wire import records as r


class ControllerRegistration(msgspec.Struct, frozen=True, gc=False):
    """One registration; ``features``: lowest and highest level by name."""

    id: int
    incarnation_id: bytes
    zk_migration_ready: bool = False
    endpoints: tuple[Endpoint, ...] = ()
    features: PMap[str, tuple[int, int]] = PMap()


Controllers = PMap[int, ControllerRegistration]


def registration(controller: ControllerRegistration) -> r.RegisterControllerRecord:
    """The record from which :func:`register` makes this controller."""
    record = r.RegisterControllerRecord
    return record(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[
            record.ControllerEndpoint(
                name=one.name,
                host=one.host,
                port=one.port,
                security_protocol=one.security_protocol,
            )
            for one in controller.endpoints
        ],
        features=[
            record.ControllerFeature(
                name=name, min_supported_version=low, max_supported_version=high
            )
            for name, (low, high) in controller.features.items()
        ],
    )


def register(controllers: Controllers, record: r.RegisterControllerRecord) -> Controllers:
    """A registration replaces an earlier one with the same id."""
    return controllers.set(
        record.controller_id,
        ControllerRegistration(
            id=record.controller_id,
            incarnation_id=record.incarnation_id,
            zk_migration_ready=record.zk_migration_ready,
            endpoints=tuple(
                Endpoint(one.name, one.host, one.port, one.security_protocol)
                for one in record.end_points
            ),
            features=PMap(
                (one.name, (one.min_supported_version, one.max_supported_version))
                for one in record.features
            ),
        ),
    )
