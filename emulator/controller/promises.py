"""Keeps what was acknowledged to brokers inside a metadata transaction when it is aborted.

Registrations, heartbeats and unregistrations are answered as soon as they are committed, while a
transaction is open. An abort removes their records, and a broker whose epoch is unknown does not
register again until it is restarted. So the acknowledged records are appended again after the
abort. Kafka's controllers do not do this.

Source: KIP-868; the events of QuorumController that run in pre-migration, Kafka 3.9.
"""

from __future__ import annotations

from emulator.controller import broker_changes
from emulator.controller.context import ControllerConfig
from emulator.controller.index import TipIndex
from emulator.controller.result import Record
from emulator.metadata.brokers import Broker, registration
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import Feature
from emulator.seam import whole
from wire import records as r


def unkept(
    promised: Image, image: Image, config: ControllerConfig, index: TipIndex
) -> tuple[Record, ...]:
    """Records for the next acknowledgement that the abort removed; none when all are restored.

    A registration keeps its epoch and is fenced; one heartbeat unfences it. A broker that was
    fenced, or was allowed to shut down, is fenced again; one that was unregistered is unregistered
    again. Append the records and call again: two brokers may share a partition.

    Args:
        promised: the image just before the abort.
        image: the newest image.
        config: this controller.
        index: over ``image``.
    """
    for broker in promised.brokers.values():
        now = image.brokers.get(broker.id)
        if now is None or now.epoch != broker.epoch:
            return (_registration(broker, image),)
        if broker.fenced and not now.fenced:
            return whole(broker_changes.fence(image, config, index, now))
    for now in image.brokers.values():
        if now.id not in promised.brokers:
            return whole(broker_changes.unregister(image, config, index, now))
    return ()


def _registration(broker: Broker, image: Image) -> r.RegisterBrokerRecord:
    record = registration(broker)
    record.fenced = True
    record.in_controlled_shutdown = False
    if not image.metadata_version.supports(Feature.DIRECTORIES):
        record.log_dirs = ()
    return record
