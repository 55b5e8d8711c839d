"""What ZooKeeper holds beside topics, as an image: for the APIs that describe it.

Of topics the image has the names and ids that the controller sent, with their configs. A znode
that cannot be read is left out, with a warning.

Source: the classes of ``emulator.znodes``, by which a migration copies the same znodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final

from emulator.broker.zk_metadata_cache import CachedTopic
from emulator.broker.zookeeper_mirror import TOPICS, ZooKeeperMirror
from emulator.metadata import configs as config_types
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import LATEST
from emulator.metadata.snapshot import from_records
from emulator.znodes import configs
from emulator.znodes.entity import Entities
from emulator.znodes.producer_id import ProducerIdBlock
from emulator.znodes.tree import Tree, ZnodeError
from wire import records as r
from wire.schema import ZERO_UUID

NO_OFFSET: Final = -1
"""The image is of no log."""


def image_of(
    mirror: ZooKeeperMirror, topics: Iterable[CachedTopic], entities: Entities
) -> tuple[Image, list[str]]:
    """Build the image; returns it with a sentence for each znode that was left out."""
    warnings: list[str] = []
    records = [*_topics(mirror, topics, warnings), *_others(mirror.tree, entities, warnings)]
    return from_records(records, NO_OFFSET, NO_OFFSET), warnings


def _topics(
    mirror: ZooKeeperMirror, topics: Iterable[CachedTopic], warnings: list[str]
) -> Iterator[object]:
    used = {ZERO_UUID}
    for topic in topics:
        # A controller without topic ids sends zeros, and a faulty one the same id twice: the
        # APIs ask for names, which are unique.
        topic_id = topic.id if topic.id not in used else sha256(topic.name.encode()).digest()[:16]
        used.add(topic_id)
        yield r.TopicRecord(name=topic.name, topic_id=topic_id)
        data = mirror.topic_configs.get(topic.name)
        if data is None:
            continue
        try:
            found = configs.parse(f"{TOPICS}/{topic.name}", data)
        except ZnodeError as error:
            warnings.append(str(error))
            continue
        for key, value in found.items():
            yield r.ConfigRecord(
                resource_type=config_types.TOPIC,
                resource_name=topic.name,
                name=key,
                value=value,
            )


def _others(tree: Tree, entities: Entities, warnings: list[str]) -> Iterator[object]:
    wanted = [one for one in entities if not isinstance(one, ProducerIdBlock)]
    whole = Tree()
    whole.lists, whole.nodes = tree.lists, dict(tree.nodes)
    for entity in wanted:
        for refusal in entity.refusals(tree, LATEST):
            if refusal is not None:
                warnings.append(f"{refusal.path}: {refusal.why}")
                whole.nodes.pop(refusal.path, None)
    for entity in wanted:
        try:
            for group in entity.records(whole, Image(NO_OFFSET, NO_OFFSET)):
                yield from group
        except ZnodeError as error:
            warnings.append(str(error))
