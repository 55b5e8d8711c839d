"""``/latest_producer_id_block``: the last allocated block of producer ids, both bounds included.

Kafka's KRaft controller writes the *next* block there as if it were allocated, and reads the znode
as the last block, so its own comparison never finds it equal. Here reading and writing keep
ZooKeeper's meaning: after a rollback a ZooKeeper controller continues with ``block_end`` + 1, the
next id of the image, so no id is issued twice or skipped.

Source: kafka.zk.ProducerIdBlockZNode, ZkMigrationClient.{migrateProducerId,writeProducerId}, Kafka
3.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from emulator.config.java_text import whole
from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.metadata.metadata_version import MetadataVersion
from emulator.metadata.producer_ids import ProducerIds
from emulator.znodes.entity import NO_FOLDERS, Nodes, Record, Refusal
from emulator.znodes.tree import Tree, ZnodeError
from emulator.znodes.znode_json import decode, encode
from emulator.zookeeper.ops import Delete, SetData, ZkOp
from wire import records as r

PATH: Final = "/latest_producer_id_block"
BLOCK_SIZE: Final = 1_000


class Block(msgspec.Struct, frozen=True):
    """A block of ids; ``broker`` asked for it, -1 when a KRaft controller of Kafka wrote it."""

    broker: int
    block_start: int
    block_end: int


class _BlockJson(msgspec.Struct):
    version: int
    broker: int
    block_start: str
    block_end: str


def parse(data: bytes | None) -> Block | None:
    """Read the znode; None if it has no data: no block was ever allocated.

    Raises:
        ZnodeError: malformed, a version other than 1, or invalid bounds.
    """
    if not data:
        return None
    found = decode(PATH, data, _BlockJson)
    if found.version != 1:
        raise ZnodeError(PATH, f"version {found.version} is unknown")
    try:
        block = Block(found.broker, whole(found.block_start), whole(found.block_end))
    except ValueError as error:
        raise ZnodeError(PATH, str(error)) from error
    if not 0 <= block.block_start <= block.block_end < 2**63 - 1:
        raise ZnodeError(PATH, f"{block.block_start} to {block.block_end} is no block")
    return block


def read(tree: Tree) -> Block | None:
    """The block in a tree; None if none was allocated.

    Raises:
        ZnodeError: malformed.
    """
    node = tree.node(PATH)
    return None if node is None else parse(node.data)


def block_data(producer_ids: ProducerIds) -> bytes | None:
    """Render the znode; None (null data) when no block was handed out.

    >>> block_data(ProducerIds(2000, 1, 7))
    b'{"version":1,"broker":1,"block_start":"1000","block_end":"1999"}'
    """
    following = producer_ids.next_producer_id
    if following <= 0:
        return None
    start = max(0, following - BLOCK_SIZE)
    return encode(_BlockJson(1, producer_ids.broker_id, str(start), str(following - 1)))


def same(one: bytes | None, other: bytes | None) -> bool:
    """Whether two znodes have the same next id.

    Raises:
        ZnodeError: one of them is malformed.
    """
    a, b = parse(one), parse(other)
    if a is None or b is None:
        return a is b
    return a.block_end == b.block_end


class ProducerIdBlock:
    """The znode of producer ids, which always exists. Its key is its path."""

    name = "producer_ids"
    roots = ()
    folders = NO_FOLDERS

    def owns(self, path: str) -> bool:
        """The znode itself."""
        return path == PATH

    def refusals(self, tree: Tree, _version: MetadataVersion) -> Iterator[Refusal | None]:
        """A malformed block."""
        try:
            read(tree)
        except ZnodeError as error:
            yield Refusal.of(error)

    def records(self, tree: Tree, image: Image) -> Iterator[Iterable[Record]]:
        """The record of the next id, unless the log already has a higher one."""
        block = read(tree)
        if block is not None and block.block_end + 1 > image.producer_ids.next_producer_id:
            yield (
                r.ProducerIdsRecord(
                    broker_id=block.broker, broker_epoch=-1, next_producer_id=block.block_end + 1
                ),
            )

    def leftovers(self, _image: Image) -> Iterator[Record]:
        """None: producer ids may only grow."""
        return iter(())

    def keys(self, _image: Image) -> Iterable[str]:
        """The path."""
        return (PATH,)

    def touched(self, touched: Touched) -> Iterable[str]:
        """The path, if ids were allocated."""
        return (PATH,) if touched.producer_ids else ()

    def nodes(self, image: Image, _key: str) -> Nodes:
        """The last allocated block."""
        return {PATH: block_data(image.producer_ids)}

    def same(self, _path: str, one: bytes | None, other: bytes | None) -> bool:
        """Whether both have the same next id."""
        return same(one, other)

    def gone(self, _path: str, _data: bytes | None) -> Delete | SetData | None:
        """None: the znode is never removed."""
        return None

    def notifications(self, _op: ZkOp) -> Sequence[ZkOp]:
        """No broker watches this znode."""
        return ()
