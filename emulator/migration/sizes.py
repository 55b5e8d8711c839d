"""The size of a znode of an image, in bytes of the ZooKeeper request that writes it.

It includes the notification in the same multi, the chroot in paths, and the ACLs of a create. A
partition's state is not measured: the ISR it names is a part of the replicas in the topic's znode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from emulator.metadata.image import Image
from emulator.metadata.znodes import ZnodeKey, ZnodeSize
from emulator.znodes import configs, topics
from emulator.znodes.entity import Entities
from emulator.znodes.projection import topic_config
from emulator.zookeeper.ops import Create, ZkOp

ABSENT: Final = ZnodeSize("", 0)
SHOWN_BYTES: Final = 1_000
"""Maximum bytes of the fixed parts of a znode and its notification: paths, versions, brackets."""


class ZnodeSizes:
    """See the module's docstring.

    Args:
        entities: the classes beside topics.
        op_size: bytes that one operation adds to a multi.
        bytes_max: maximum bytes of all operations of one group.
    """

    def __init__(self, entities: Entities, op_size: Callable[[ZkOp], int], bytes_max: int) -> None:
        self._entities = {entity.name: entity for entity in entities}
        self._op_size = op_size
        self.bytes_max = bytes_max
        self.bytes_new = SHOWN_BYTES + 2 * op_size(Create("/", None))

    def measure(self, image: Image, key: ZnodeKey) -> ZnodeSize:
        """Path and bytes of a znode; 0 bytes if the image does not have it."""
        group: list[ZkOp]
        match key:
            case ZnodeKey(entities="topics", of=bytes(topic_id)):
                topic = image.topics.get(topic_id)
                if topic is None:
                    return ABSENT
                group = [Create(topics.topic_path(topic.name), topics.topic_data(topic))]
            case ZnodeKey(entities="topic_configs", of=str(name)):
                path = configs.topic_config_path(name)
                group = [Create(path, topic_config(image, name)), configs.notification(path)]
            case _:
                entity = self._entities[key.entities]
                made = [Create(path, data) for path, data in entity.nodes(image, key.of).items()]
                if not made:
                    return ABSENT
                group = [*made, *(one for op in made for one in entity.notifications(op))]
        return ZnodeSize(group[0].path, sum(map(self._op_size, group)))
