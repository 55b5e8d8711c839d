"""Records and images that the tests of this folder share."""

from __future__ import annotations

from typing import Any

from emulator.metadata import EMPTY, Image, replay
from wire import records as r

A = bytes(15) + b"\xaa"
B = bytes(15) + b"\xbb"
D1 = bytes(15) + b"\xd1"
D2 = bytes(15) + b"\xd2"
D3 = bytes(15) + b"\xd3"


def image_of(*records: object, start: Image = EMPTY) -> Image:
    """Replay records one offset apart, in leader epoch 1."""
    image = start
    for record in records:
        image = replay(image, record, image.offset + 1, 1)
    return image


def topic(name: str, topic_id: bytes) -> r.TopicRecord:
    return r.TopicRecord(name=name, topic_id=topic_id)


def partition(topic_id: bytes = A, index: int = 0, **fields: Any) -> r.PartitionRecord:
    replicas = fields.get("replicas", (1, 2))
    values: dict[str, object] = {
        "replicas": replicas,
        "isr": replicas,
        "leader": replicas[0],
        "leader_epoch": 0,
        "partition_epoch": 0,
        **fields,
    }
    return r.PartitionRecord(partition_id=index, topic_id=topic_id, **values)


def change(topic_id: bytes = A, index: int = 0, **fields: object) -> r.PartitionChangeRecord:
    return r.PartitionChangeRecord(partition_id=index, topic_id=topic_id, **fields)


def broker(broker_id: int = 1, epoch: int = 10, **fields: object) -> r.RegisterBrokerRecord:
    return r.RegisterBrokerRecord(
        broker_id=broker_id, broker_epoch=epoch, incarnation_id=B, **{"rack": None, **fields}
    )


def level(metadata_version: int) -> r.FeatureLevelRecord:
    return r.FeatureLevelRecord(name="metadata.version", feature_level=metadata_version)


def config(resource: int, name: str, key: str, value: str | None) -> r.ConfigRecord:
    return r.ConfigRecord(resource_type=resource, resource_name=name, name=key, value=value)


def state(value: int) -> r.ZkMigrationStateRecord:
    return r.ZkMigrationStateRecord(zk_migration_state=value)
