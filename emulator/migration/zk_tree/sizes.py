"""How many bytes of a request to ZooKeeper a znode of an image takes, as it will be written.

With its notification, which goes into one multi with it; paths stand below the chroot, and a znode
may have to be made, with ACLs. A partition's state is left out: it names the ISR, of which all are
among the replicas that its topic's znode names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from emulator.controller.context import ZnodeKey, ZnodeSize
from emulator.metadata.image import Image
from emulator.migration.zk_tree import configs, topics
from emulator.migration.zk_tree.entity import Entities
from emulator.migration.zk_tree.projection import topic_config
from emulator.zookeeper.ops import Create, ZkOp

ABSENT: Final = ZnodeSize("", 0)
SHOWN_BYTES: Final = 1_000
"""Of a znode and its notification, at most: fixed parts of paths, versions, brackets."""


class ZnodeSizes:
    """See the module's docstring.

    Args:
        entities: the classes beside topics.
        op_size: bytes that one operation adds to a multi.
        bytes_max: what all operations of one group may have.
    """

    def __init__(self, entities: Entities, op_size: Callable[[ZkOp], int], bytes_max: int) -> None:
        self._entities = {entity.name: entity for entity in entities}
        self._op_size = op_size
        self.bytes_max = bytes_max
        self.bytes_new = SHOWN_BYTES + 2 * op_size(Create("/", None))

    def measure(self, image: Image, key: ZnodeKey) -> ZnodeSize:
        """Path and bytes of a znode; no bytes when the image does not have it."""
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
                group = [*made, *(told for op in made for told in entity.notifications(op))]
        return ZnodeSize(group[0].path, sum(map(self._op_size, group)))
