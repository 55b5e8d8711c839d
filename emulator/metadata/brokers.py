"""Broker registrations: the entity, and how each of its records changes the map of all brokers.

Source: RegisterBrokerRecord, UnregisterBrokerRecord, FenceBrokerRecord, UnfenceBrokerRecord,
BrokerRegistrationChangeRecord; ClusterControlManager.replay, Kafka 3.9.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from emulator.metadata.errors import ReplayError
from emulator.metadata.pmap import PMap
from wire import records as r

FENCE: Final = 1
UNFENCE: Final = -1
"""Values of BrokerRegistrationChangeRecord.fenced; 0 is no change."""
IN_CONTROLLED_SHUTDOWN: Final = 1

SECURITY_PROTOCOLS: Final = range(4)
"""PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL. No Kafka node can read a record with another one."""


class Endpoint(msgspec.Struct, frozen=True, gc=False):
    """One listener of a node; ``security_protocol`` is one of SECURITY_PROTOCOLS."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class Broker(msgspec.Struct, frozen=True, gc=False):
    """One registration.

    ``features``: lowest and highest level by name; ``log_dirs``: directory ids, empty if not
    reported.
    """

    id: int
    epoch: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...] = ()
    features: PMap[str, tuple[int, int]] = PMap()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    is_migrating_zk_broker: bool = False
    log_dirs: tuple[bytes, ...] = ()

    def endpoint(self, listener: str) -> Endpoint | None:
        """The endpoint of that listener name, or None."""
        return next((one for one in self.endpoints if one.name == listener), None)

    @property
    def active(self) -> bool:
        """Whether it may lead: unfenced and not in controlled shutdown."""
        return not self.fenced and not self.in_controlled_shutdown


Brokers = PMap[int, Broker]


def registration(broker: Broker) -> r.RegisterBrokerRecord:
    """The record from which :func:`register` makes this broker."""
    record = r.RegisterBrokerRecord
    return record(
        broker_id=broker.id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            record.BrokerEndpoint(
                name=one.name,
                host=one.host,
                port=one.port,
                security_protocol=one.security_protocol,
            )
            for one in broker.endpoints
        ],
        features=[
            record.BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
    )


def register(brokers: Brokers, record: r.RegisterBrokerRecord) -> Brokers:
    """A registration replaces an earlier one with the same id."""
    return brokers.set(
        record.broker_id,
        Broker(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=tuple(
                Endpoint(one.name, one.host, one.port, one.security_protocol)
                for one in record.end_points
            ),
            features=PMap(
                (one.name, (one.min_supported_version, one.max_supported_version))
                for one in record.features
            ),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            is_migrating_zk_broker=record.is_migrating_zk_broker,
            log_dirs=tuple(record.log_dirs),
        ),
    )


def unregister(brokers: Brokers, record: r.UnregisterBrokerRecord) -> Brokers:
    """Raise ReplayError unless exactly this registration exists; else remove it."""
    return brokers.delete(_registered(brokers, record.broker_id, record.broker_epoch).id)


def fence(brokers: Brokers, record: r.FenceBrokerRecord) -> Brokers:
    """Fence a broker by the record used below metadata.version 6."""
    broker = _registered(brokers, record.id, record.epoch)
    return brokers.set(broker.id, replace(broker, fenced=True))


def unfence(brokers: Brokers, record: r.UnfenceBrokerRecord) -> Brokers:
    """Unfence a broker by the record used below metadata.version 6."""
    broker = _registered(brokers, record.id, record.epoch)
    return brokers.set(broker.id, replace(broker, fenced=False))


def change_registration(brokers: Brokers, record: r.BrokerRegistrationChangeRecord) -> Brokers:
    """Apply the changes the record carries; only a new registration ends a controlled shutdown.

    Raises:
        ReplayError: no registration with that id and epoch, or a value no release writes.
    """
    broker = _registered(brokers, record.broker_id, record.broker_epoch)
    if record.fenced not in (UNFENCE, 0, FENCE):
        raise ReplayError(f"fenced {record.fenced} is unknown")
    if record.in_controlled_shutdown not in (0, IN_CONTROLLED_SHUTDOWN):
        raise ReplayError(f"inControlledShutdown {record.in_controlled_shutdown} is unknown")
    return brokers.set(
        broker.id,
        replace(
            broker,
            fenced=record.fenced == FENCE if record.fenced else broker.fenced,
            in_controlled_shutdown=(
                broker.in_controlled_shutdown
                or record.in_controlled_shutdown == IN_CONTROLLED_SHUTDOWN
            ),
            log_dirs=tuple(record.log_dirs) or broker.log_dirs,
        ),
    )


def _registered(brokers: Brokers, broker_id: int, epoch: int) -> Broker:
    broker = brokers.get(broker_id)
    if broker is None:
        raise ReplayError(f"broker {broker_id} is not registered")
    if broker.epoch != epoch:
        raise ReplayError(
            f"broker {broker_id} is registered with epoch {broker.epoch}, not {epoch}"
        )
    return broker
