"""What brokers were told inside a metadata transaction still holds after its abort.

Registrations, heartbeats and unregistrations are answered as soon as they are committed, while a
transaction is open. Its abort takes their records back, and no broker registers again by itself
when its epoch is no longer known: it would stay out until somebody restarts it. So what was
answered is written anew behind the abort. Kafka's controllers do not do that.

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
from wire import records as r


def unkept(
    promised: Image, image: Image, config: ControllerConfig, index: TipIndex
) -> tuple[Record, ...]:
    """Records that keep the next promise; none when all are kept.

    A registration keeps its epoch and is fenced; one heartbeat unfences it. A broker that was
    fenced, and perhaps let go, is fenced again; one that was unregistered is unregistered again.
    Append them and ask again: two brokers may share a partition.

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
            return broker_changes.fence(image, config, index, now)
    for now in image.brokers.values():
        if now.id not in promised.brokers:
            return broker_changes.unregister(image, config, index, now)
    return ()


def _registration(broker: Broker, image: Image) -> r.RegisterBrokerRecord:
    record = registration(broker)
    record.fenced = True
    record.in_controlled_shutdown = False
    if not image.metadata_version.supports(Feature.DIRECTORIES):
        record.log_dirs = ()
    return record
