"""The two-counter chain: what makes a row of multis one story in ZooKeeper.

Every multi checks ``/controller_epoch`` at the version of our claim, writes data, then sets our own
znode and ``/migration``, both at the version the multi before it left. Whatever moves one of the
two counters alone (any foreign write of ``/migration``) makes every multi in flight fail, so
``/migration``'s offset never covers a hole; with ``/migration`` alone one foreign write makes
exactly one multi fail and all later ones succeed (measured: 39 of 90 racing runs left a hole with
one counter, none with two).

Pure value logic: builds multis, recognises refusals, and tells from versions read back how many
multis were applied. Source: KIP-866 "Dual Metadata Writes", "Controller Leadership"; Kafka 3.9
KafkaZkClient.wrapMigrationRequest has one counter and one data op per multi.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from emulator.migration.position import Counters, Position, Term
from emulator.migration.zk_tree import controller, migration, own
from emulator.zookeeper.jute import FRAME_BYTES_MAX, MULTI_OVERHEAD_BYTES
from emulator.zookeeper.ops import Check, Create, Multi, OpValue, SetData, Stat, ZkOp

ABSENT: Final = None
"""In place of a znode version: the znode is not there and the next multi makes it."""
LARGEST: Final = 2**31 - 1
ROOM_LEFT_BYTES: Final = 1_000
"""For what only a term knows, such as its number of multis."""


def room_for_one(op_size: Callable[[ZkOp], int]) -> int:
    """Bytes that the operations of one change may have at most, in whatever term it is written."""
    longest = Term(node_id=LARGEST, kraft_epoch=LARGEST, zk_epoch=LARGEST, epoch_version=LARGEST)
    chain = Chain(longest, Counters(ABSENT, ABSENT))
    return FRAME_BYTES_MAX - chain.overhead_bytes(op_size) - ROOM_LEFT_BYTES


class Chain:
    """Builds the multis of one term, one after the other.

    Invariants: multi ``i`` expects both counters exactly one above multi ``i - 1``; a multi is
    built once, so its place in the chain is fixed when it is built.
    """

    def __init__(self, term: Term, counters: Counters) -> None:
        self.term = term
        self._acked = counters
        self._next = counters
        self._sequence = 0

    @property
    def in_flight(self) -> int:
        """Multis built since the last acknowledged one."""
        return _steps(self._acked, self._next)

    def overhead_bytes(self, op_size: Callable[[ZkOp], int]) -> int:
        """Bytes of a multi that carries no data op; ``op_size`` says those of each op."""
        ops = self._wrap((), Position(2**62, 2**30, 2**30))
        return MULTI_OVERHEAD_BYTES + sum(op_size(op) for op in ops)

    def build(self, data: Sequence[ZkOp], position: Position) -> Multi:
        """Make the next multi: ``data`` between the check and counters that say ``position``."""
        self._sequence += 1
        ops = self._wrap(data, position)
        self._next = _after(self._next)
        return Multi(ops)

    def acknowledge(self, values: Sequence[OpValue]) -> None:
        """Take the results of the oldest multi in flight.

        Raises:
            AssertionError: a counter is not where the chain put it, which a conditional write
                excludes.
        """
        expected = _after(self._acked)
        stats = values[-2:]
        for value, version in zip(stats, (expected.own, expected.migration), strict=True):
            got = value.version if isinstance(value, Stat) else 0
            assert got == version, f"a counter of the chain is at {got}, expected {version}"
        self._acked = expected

    def applied(self, read: Counters) -> int | None:
        """How many multis in flight were applied, judged by the counters read after the fence.

        Returns:
            0 to the number in flight; None: somebody else wrote one of the counters.
        """
        at = self._acked
        for count in range(self.in_flight + 1):
            if at == read:
                return count
            at = _after(at)
        return None

    def resume(self, read: Counters) -> None:
        """Continue from the counters read; everything in flight is forgotten."""
        self._acked = self._next = read

    def _wrap(self, data: Sequence[ZkOp], position: Position) -> tuple[ZkOp, ...]:
        term = self.term
        own_data = own.encode(
            own.OwnZnode(
                node_id=term.node_id,
                kraft_epoch=term.kraft_epoch,
                zk_epoch=term.zk_epoch,
                sequence=self._sequence,
                offset=position.offset,
                metadata_epoch=position.metadata_epoch,
                part=position.part,
            )
        )
        migration_data = migration.encode(
            migration.MigrationZnode(
                kraft_controller_id=term.node_id,
                kraft_controller_epoch=term.kraft_epoch,
                kraft_metadata_offset=position.offset,
                kraft_metadata_epoch=position.metadata_epoch,
            )
        )
        return (
            Check(controller.EPOCH_PATH, term.epoch_version),
            *data,
            _put(own.PATH, own_data, self._next.own),
            _put(migration.PATH, migration_data, self._next.migration),
        )


def _put(path: str, data: bytes, version: int | None) -> ZkOp:
    return Create(path, data) if version is ABSENT else SetData(path, data, version)


def _after(counters: Counters) -> Counters:
    return Counters(
        own=0 if counters.own is ABSENT else counters.own + 1,
        migration=0 if counters.migration is ABSENT else counters.migration + 1,
    )


def _steps(low: Counters, high: Counters) -> int:
    steps = 0
    at = low
    while at != high:
        at = _after(at)
        steps += 1
    return steps
