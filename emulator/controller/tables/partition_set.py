"""A set of partitions that takes a few bytes for each."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Final, TypeAlias

PartitionKey: TypeAlias = tuple[bytes, int]
"""Topic id and partition number."""
BLOCK: Final = 1_024
"""Partition numbers in one integer of bits; a tree of ZooKeeper may hold any number."""
Block: TypeAlias = bytes | tuple[bytes, int]


def place(topic_id: bytes, number: int) -> tuple[Block, int]:
    """The block that has a partition, and its bit there."""
    if number < BLOCK:
        return topic_id, 1 << number
    block, bit = divmod(number, BLOCK)
    return (topic_id, block), 1 << bit


class PartitionSet:
    """Partitions as bits by topic: a few bytes each, where a set of keys takes a hundred."""

    __slots__ = ("_bits",)

    def __init__(self) -> None:
        self._bits: dict[Block, int] = {}
        """Bits of the first block by topic id, of further ones by topic id and block."""

    def add(self, topic_id: bytes, number: int) -> None:
        """Add a partition; nothing changes if it is there."""
        self.put(*place(topic_id, number))

    def put(self, key: Block, bit: int) -> None:
        """As :meth:`add`; one that is in several sets is looked for once."""
        self._bits[key] = self._bits.get(key, 0) | bit

    def remove(self, topic_id: bytes, number: int) -> None:
        """Remove a partition that is there.

        Raises:
            KeyError: it is not.
        """
        self.cut(*place(topic_id, number))

    def cut(self, key: Block, bits: int) -> None:
        """Remove partitions of one block that are there.

        Raises:
            KeyError: none of the block is.
        """
        left = self._bits[key] & ~bits
        if left:
            self._bits[key] = left
        else:
            del self._bits[key]

    def remove_all(self, keys: Iterable[Block]) -> None:
        """Remove all partitions in these blocks, as far as they are there."""
        deque(map(self._bits.pop, keys, repeat(None)), maxlen=0)  # thousands, in one step

    def __iter__(self) -> Iterator[PartitionKey]:
        """Those there now; of a topic by number within each block."""
        for key, bits in tuple(self._bits.items()):
            topic_id, block = key if isinstance(key, tuple) else (key, 0)
            first = block * BLOCK
            for number in range(bits.bit_length()):
                if bits >> number & 1:
                    yield topic_id, first + number
