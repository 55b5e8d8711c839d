"""``/brokers/topics``: assignments and partition states.

Source: kafka.zk.TopicZNode (versions 1 to 3), TopicPartitionStateZNode, Kafka 3.9. A topic has its
znode, a folder ``partitions``, in it a folder per partition and in that ``state``; the folders have
null data. The ``controller_epoch`` inside a state is the epoch of the KRaft leader that wrote it,
as Kafka does it; readers ignore it, so two states that differ only in it are the same.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from emulator.metadata.topics import Partition, Topic, first_gap
from emulator.znodes.tree import Tree, ZnodeError
from emulator.znodes.znode_json import decode, encode
from wire.text import uuid_from_text, uuid_text

ROOT: Final = "/brokers/topics"
NO_ID: Final = bytes(16)
STATES_KEPT: Final = 4_096
"""States of partitions that are kept as JSON: some 300 bytes each."""

Number = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""Maximum of an int32 in a record; larger numbers could be parsed but not be copied."""
Replicas = dict[Number, tuple[Number, ...]]


class ZkTopic(msgspec.Struct, frozen=True):
    """A topic znode.

    ``topic_id`` is ``NO_ID`` when no controller of 2.8 or later has seen the topic.
    """

    topic_id: bytes
    partitions: Replicas
    adding_replicas: Replicas
    removing_replicas: Replicas


class ZkPartitionState(msgspec.Struct, frozen=True):
    """A state znode. ``version`` is the znode's own: the partition epoch of ZooKeeper mode."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    leader_recovery_state: int
    version: int = 0


class _TopicJson(msgspec.Struct):
    partitions: Replicas
    topic_id: str | None = None
    adding_replicas: Replicas = {}
    removing_replicas: Replicas = {}
    version: int = 3


class _IdJson(msgspec.Struct):
    topic_id: str | None = None


class _StateJson(msgspec.Struct, omit_defaults=True):
    controller_epoch: int
    leader: Annotated[int, Meta(ge=-1, le=2**31 - 1)]
    version: int
    leader_epoch: Number
    isr: tuple[Number, ...]
    leader_recovery_state: Annotated[int, Meta(ge=0, le=1)] = 0


def topic_path(name: str) -> str:
    """Path of a topic's znode."""
    return f"{ROOT}/{name}"


def partitions_path(name: str) -> str:
    """Path of the folder of a topic's partitions."""
    return f"{ROOT}/{name}/partitions"


def partition_path(name: str, index: int | str) -> str:
    """Path of a partition's folder."""
    return f"{ROOT}/{name}/partitions/{index}"


def state_path(name: str, index: int | str) -> str:
    """Path of a partition's state."""
    return f"{ROOT}/{name}/partitions/{index}/state"


def is_state_path(path: str) -> bool:
    """Whether a path is that of a partition's state."""
    match path.split("/"):
        case ["", "brokers", "topics", _, "partitions", _, "state"]:
            return True
    return False


def parse_topic(path: str, data: bytes | None) -> ZkTopic:
    """Read a topic znode of version 1, 2 or 3.

    Raises:
        ZnodeError: malformed, a negative partition or broker, or an invalid topic id.
    """
    found = decode(path, data, _TopicJson)
    return ZkTopic(
        _topic_id(path, found.topic_id),
        found.partitions,
        {index: brokers for index, brokers in found.adding_replicas.items() if brokers},
        {index: brokers for index, brokers in found.removing_replicas.items() if brokers},
    )


def parse_topic_id(path: str, data: bytes | None) -> bytes:
    """Read the id alone: a tenth of the time for a topic of thousands of partitions.

    Raises:
        ZnodeError: malformed as JSON, or an invalid topic id.
    """
    return _topic_id(path, decode(path, data, _IdJson).topic_id)


def _topic_id(path: str, text: str | None) -> bytes:
    try:
        return NO_ID if text is None else uuid_from_text(text)
    except ValueError as error:
        raise ZnodeError(path, str(error)) from error


def parse_state(path: str, data: bytes | None, version: int = 0) -> ZkPartitionState:
    """Read a state znode.

    Raises:
        ZnodeError: malformed.
    """
    found = decode(path, data, _StateJson)
    return ZkPartitionState(
        found.leader,
        found.leader_epoch,
        found.isr,
        found.controller_epoch,
        found.leader_recovery_state,
        version,
    )


def read_topic(tree: Tree, name: str) -> ZkTopic:
    """The topic ``name`` of a tree, checked for import.

    Raises:
        ZnodeError: absent, malformed, without id, a partition without replicas, or ids of
            partitions other than 0 to n - 1: a controller numbers a new partition by the count of
            partitions.
    """
    path = topic_path(name)
    node = tree.node(path)
    if node is None:
        raise ZnodeError(path, "listed, but the znode is gone")
    topic = parse_topic(path, node.data)
    if topic.topic_id == NO_ID:
        raise ZnodeError(path, "no topic_id: no controller of 2.8 or later has seen this topic")
    for index, brokers in topic.partitions.items():
        if not brokers:
            raise ZnodeError(path, f"partition {index} has no replicas")
    missing = first_gap(topic.partitions)
    if missing is not None:
        raise ZnodeError(path, f"{len(topic.partitions)} partitions, but none with id {missing}")
    return topic


def read_state(tree: Tree, name: str, index: int) -> ZkPartitionState | None:
    """The state of one partition; None when no controller has written it yet.

    Raises:
        ZnodeError: malformed.
    """
    path = state_path(name, index)
    node = tree.node(path)
    return None if node is None else parse_state(path, node.data, node.version)


def zk_topic(topic: Topic) -> ZkTopic:
    """What the znode of a topic of an image says."""
    replicas: Replicas = {}
    adding: Replicas = {}
    removing: Replicas = {}
    for index, one in topic.partitions.items():
        replicas[index] = one.replicas
        if one.adding_replicas:
            adding[index] = one.adding_replicas
        if one.removing_replicas:
            removing[index] = one.removing_replicas
    return ZkTopic(topic.id, replicas, adding, removing)


def topic_data(topic: Topic) -> bytes:
    """Render a topic's znode.

    Version 3, always with ``adding_replicas`` and ``removing_replicas``.
    """
    content = zk_topic(topic)
    return encode(
        _TopicJson(
            partitions=content.partitions,
            topic_id=uuid_text(content.topic_id),
            adding_replicas=content.adding_replicas,
            removing_replicas=content.removing_replicas,
        )
    )


def state_data(partition: Partition, controller_epoch: int) -> bytes:
    """Render a partition's state; ``leader_recovery_state`` is included only if it is not 0."""
    return _state_data(
        controller_epoch,
        partition.leader,
        partition.leader_epoch,
        partition.isr,
        partition.leader_recovery_state,
    )


@lru_cache(STATES_KEPT)
def _state_data(
    controller_epoch: int, leader: int, leader_epoch: int, isr: tuple[int, ...], recovery: int
) -> bytes:
    """Thousands of partitions are in few states: a new topic's are as many as it has leaders."""
    return encode(_StateJson(controller_epoch, leader, 1, leader_epoch, isr, recovery))


def same_assignment(one: Partition, other: Partition) -> bool:
    """Whether two values of a partition are equal in the topic's znode."""
    return (
        one.replicas == other.replicas
        and one.adding_replicas == other.adding_replicas
        and one.removing_replicas == other.removing_replicas
    )


def same_partition_state(one: Partition, other: Partition) -> bool:
    """Whether two values of a partition are equal in its state znode."""
    return (
        one.isr == other.isr
        and one.leader == other.leader
        and one.leader_epoch == other.leader_epoch
        and one.leader_recovery_state == other.leader_recovery_state
    )


def is_state(path: str, data: bytes | None, partition: Partition) -> bool:
    """Whether a state znode says what the image has, whatever leader epoch wrote it.

    Raises:
        ZnodeError: malformed.
    """
    found = decode(path, data, _StateJson)
    return (
        found.isr == partition.isr
        and found.leader == partition.leader
        and found.leader_epoch == partition.leader_epoch
        and found.leader_recovery_state == partition.leader_recovery_state
    )


def same_topic(path: str, one: bytes | None, other: bytes | None) -> bool:
    """Whether two topic znodes have the same content.

    Raises:
        ZnodeError: one of them is malformed.
    """
    return parse_topic(path, one) == parse_topic(path, other)


def same_state(path: str, one: bytes | None, other: bytes | None) -> bool:
    """Whether two states have the same content, whatever leader epoch wrote them.

    Raises:
        ZnodeError: one of them is malformed.
    """
    a, b = parse_state(path, one), parse_state(path, other)
    return (a.leader, a.leader_epoch, a.isr, a.leader_recovery_state) == (
        b.leader,
        b.leader_epoch,
        b.isr,
        b.leader_recovery_state,
    )
