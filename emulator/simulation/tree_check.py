"""What a ZooKeeper tree should hold for an image, written down a second time.

The product writes with ``emulator/migration/zk_tree`` and compares with the same code; this page
shares nothing with it but the formats' definition (kafka.zk.ZkData, Kafka 3.9), so that a mistake
there is not made here as well. Values are compared as what a broker would understand of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from emulator.metadata.image import Image
from emulator.metadata.topics import Partition, Topic
from emulator.simulation import acl_entities, client_entities
from emulator.simulation.zookeeper_tree import Znode
from wire.text import uuid_text

TOPIC_CONFIG: Final = 2
BROKER_CONFIG: Final = 4
TOPICS: Final = "/brokers/topics"
PRODUCER_IDS: Final = "/latest_producer_id_block"

Meaning = tuple[Any, ...]
"""What a broker understands of a znode; empty for a folder."""
FOLDER: Final[Meaning] = ()


def partition_meaning(one: Partition) -> Meaning:
    """Meaning of a partition's state."""
    return (one.leader, one.leader_epoch, tuple(one.isr), one.leader_recovery_state)


def topic_meaning(topic: Topic) -> Meaning:
    """Meaning of a topic's znode."""
    rows = [
        (i, tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas))
        for i, p in topic.partitions.items()
    ]
    return (uuid_text(topic.id), tuple(sorted(rows)))


def config_meaning(config: Mapping[str, str]) -> Meaning:
    """Meaning of a config."""
    return tuple(sorted(config.items()))


def of_topic(image: Image, topic: Topic) -> dict[str, Meaning]:
    """Every znode of one topic."""
    base = f"{TOPICS}/{topic.name}"
    found = {
        base: topic_meaning(topic),
        f"{base}/partitions": FOLDER,
        f"/config/topics/{topic.name}": config_meaning(image.config(TOPIC_CONFIG, topic.name)),
    }
    for index, partition in topic.partitions.items():
        found[f"{base}/partitions/{index}"] = FOLDER
        found[f"{base}/partitions/{index}/state"] = partition_meaning(partition)
    return found


def of_brokers(image: Image) -> dict[str, Meaning]:
    """Configs of brokers that have any."""
    return {
        f"/config/brokers/{name or '<default>'}": config_meaning(config)
        for (kind, name), config in image.configs.items()
        if kind == BROKER_CONFIG and config
    }


def of_producer_ids(image: Image) -> Meaning:
    """The next producer id to hand out."""
    return (image.producer_ids.next_producer_id,)


def expected(image: Image) -> dict[str, Meaning]:
    """Every znode that follows from an image, by path."""
    found = of_brokers(image)
    found[PRODUCER_IDS] = of_producer_ids(image)
    found |= client_entities.expected(image) | acl_entities.expected(image)
    for topic in image.topics.values():
        found |= of_topic(image, topic)
    return found


def covered(path: str) -> bool:
    """Whether a path is one that :func:`expected` speaks of."""
    parts = path.split("/")
    return (
        path == PRODUCER_IDS or client_entities.covered(path) or acl_entities.covered(path)
    ) or (
        len(parts) >= 4
        and parts[1:3] in (["brokers", "topics"], ["config", "topics"], ["config", "brokers"])
    )


@lru_cache(maxsize=50_000)
def meaning(path: str, data: bytes | None) -> Meaning:
    """What a broker understands of a znode's data.

    Raises:
        ValueError, KeyError, TypeError: malformed.
    """
    parts = path.split("/")
    if path == PRODUCER_IDS:
        return (int(json.loads(data)["block_end"]) + 1,) if data else (0,)
    if client_entities.covered(path):
        return client_entities.meaning(data)
    if acl_entities.covered(path):
        return acl_entities.meaning(data)
    if parts[1] == "config":
        return config_meaning(json.loads(data)["config"]) if data else ()
    match parts[4:]:
        case []:
            return _topic(json.loads(data or b""))
        case ["partitions", _, "state"]:
            state = json.loads(data or b"")
            recovery = state.get("leader_recovery_state", 0)
            return (state["leader"], state["leader_epoch"], tuple(state["isr"]), recovery)
        case _:
            return FOLDER


def _topic(found: dict[str, Any]) -> Meaning:
    adding, removing = found.get("adding_replicas", {}), found.get("removing_replicas", {})
    rows = [
        (int(i), tuple(replicas), tuple(adding.get(i, ())), tuple(removing.get(i, ())))
        for i, replicas in found["partitions"].items()
    ]
    return (found.get("topic_id"), tuple(sorted(rows)))


def differences(nodes: Mapping[str, Znode], image: Image) -> Iterator[str]:
    """One sentence for each znode that is not what the image says."""
    wanted = expected(image)
    for path, want in wanted.items():
        node = nodes.get(path)
        if node is None and want != (0,):
            yield f"{path} is missing"
        elif node is not None and (have := _read(path, node.data)) != want:
            yield f"{path} says {have}, should say {want}"
    for path, node in nodes.items():
        if path in wanted or not covered(path):
            continue
        left = path.startswith("/config/brokers/") or client_entities.covered(path)
        if left and _read(path, node.data) == ():
            continue
        yield f"{path} should not be there"


def _read(path: str, data: bytes | None) -> object:
    try:
        return meaning(path, data)
    except (ValueError, KeyError, TypeError) as error:
        return f"malformed: {error!r}"
