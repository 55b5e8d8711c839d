"""The znodes of an image, and when two values of a znode are the same.

Only znodes derived from the image: topics, their configs, and the classes of ``entities``.
``/controller``, ``/migration`` and our own znode belong to a claim, not to an image.
"""

from __future__ import annotations

from emulator.metadata.configs import TOPIC
from emulator.metadata.image import Image
from emulator.metadata.topics import Partition, Topic
from emulator.znodes import configs, topics
from emulator.znodes.entities import ENTITIES_WITHOUT_SECRETS
from emulator.znodes.entity import Entities, Nodes, equal
from emulator.znodes.tree import ZnodeError


def topic_head(image: Image, topic: Topic) -> Nodes:
    """A topic's znodes without its partitions: the topic, its config, its partitions folder."""
    return {
        topics.topic_path(topic.name): topics.topic_data(topic),
        configs.topic_config_path(topic.name): topic_config(image, topic.name),
        topics.partitions_path(topic.name): None,
    }


def topic_config(image: Image, name: str) -> bytes:
    """Data of a topic's config znode."""
    return configs.config_data(image.config(TOPIC, name))


def partition_nodes(
    name: str, index: int | str, partition: Partition, controller_epoch: int
) -> Nodes:
    """A partition's two znodes."""
    return {
        topics.partition_path(name, index): None,
        topics.state_path(name, index): topics.state_data(partition, controller_epoch),
    }


def znodes(
    image: Image, *, controller_epoch: int, entities: Entities = ENTITIES_WITHOUT_SECRETS
) -> Nodes:
    """Every znode derived from an image, without the folders of its classes.

    Args:
        image: any image.
        controller_epoch: KRaft leader epoch, written into partition states.
        entities: the classes beside topics.
    """
    nodes: Nodes = {}
    for topic in image.topics.values():
        nodes |= topic_head(image, topic)
        for index, partition in topic.partitions.items():
            nodes |= partition_nodes(topic.name, index, partition, controller_epoch)
    for entity in entities:
        for key in entity.keys(image):
            nodes |= entity.nodes(image, key)
    return nodes


def same(
    path: str, one: bytes | None, other: bytes | None, entities: Entities = ENTITIES_WITHOUT_SECRETS
) -> bool:
    """Whether two values of a znode mean the same to Kafka.

    Keys may be in any order. Unknown keys, the ``controller_epoch`` in a partition's state and data
    of folders are ignored. A malformed value only equals itself.
    """
    if one == other:
        return True
    parts = path.split("/")
    try:
        match parts[1:]:
            case ["brokers", "topics", _]:
                return topics.same_topic(path, one, other)
            case ["brokers", "topics", _, "partitions", _, "state"]:
                return topics.same_state(path, one, other)
            case ["brokers", "topics", *_]:
                return True
            case ["config", "topics", _]:
                return configs.same(path, one, other)
    except ZnodeError:
        return False
    return any(entity.owns(path) and equal(entity, path, one, other) for entity in entities)
