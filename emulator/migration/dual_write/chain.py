"""The two-counter chain, which makes ZooKeeper apply a sequence of multis in order, without gaps.

Every multi checks ``/controller_epoch`` at the version of our claim, writes data, then sets our own
znode and ``/migration``, both at the version that the previous multi produced. A write that changes
only one of the two counters (any foreign write of ``/migration``) makes every multi in flight fail,
so ``/migration``'s offset never covers a gap; with ``/migration`` alone one foreign write makes
exactly one multi fail and all later ones succeed (measured: 39 of 90 racing runs left a gap with
one counter, none with two).

Pure: builds multis, and computes from the values read back how many of them were applied. The
content of our own znode gives that number, because only this process can have written it. The
counters must agree with it, else another client wrote them. Source: KIP-866 "Dual Metadata Writes",
"Controller Leadership"; Kafka 3.9 KafkaZkClient.wrapMigrationRequest has one counter and one data
op per multi.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from emulator.migration.position import Counters, Position, Term
from emulator.znodes import controller, migration, own
from emulator.zookeeper.jute import FRAME_BYTES_MAX, MULTI_OVERHEAD_BYTES
from emulator.zookeeper.ops import Check, Create, Multi, SetData, Stat, ZkOp
from wire.digest import DIGEST_CHARS

ABSENT: Final = None
"""In place of a znode version: the znode does not exist and the next multi creates it."""
LARGEST: Final = 2**31 - 1
INCARNATION_CHARS: Final = 22
"""Characters of a 16 byte id as Kafka writes it."""
OVERHEAD_SPARE: Final = 100
"""Bytes by which a sequence number or a version may become longer within a term, and more."""
ROOM_LEFT_BYTES: Final = 1_000
"""Bytes reserved for values that only a term knows, such as its number of multis."""


def room_for_one(op_size: Callable[[ZkOp], int]) -> int:
    """Maximum bytes of the operations of one change, valid in every term."""
    longest = Term(
        node_id=LARGEST,
        kraft_epoch=LARGEST,
        zk_epoch=LARGEST,
        epoch_version=LARGEST,
        incarnation="i" * INCARNATION_CHARS,
        log_offset=2**62,
        epoch_created=2**62,
    )
    chain = Chain(longest, Counters(ABSENT, ABSENT), lambda _offset: "")
    return FRAME_BYTES_MAX - chain.overhead_bytes(op_size) - ROOM_LEFT_BYTES


class Standing(msgspec.Struct, frozen=True):
    """The state of the chain, as read back."""

    counters: Counters
    sequence: int | None
    """Number of the last multi according to our own znode; None: the content is not ours."""


class Chain:
    """Builds the multis of one term in order.

    Invariants: multi ``i`` expects both counters exactly one above multi ``i - 1``; a multi is
    built once, so its place in the chain is fixed then. No sequence number is used twice.

    Args:
        term: the claim, which has written sequence 0.
        counters: versions read after the claim.
        digest_at: digest of the batch of our log that holds an offset.
    """

    def __init__(self, term: Term, counters: Counters, digest_at: Callable[[int], str]) -> None:
        self.term = term
        self._digest_at = digest_at
        self._digest = (-1, "")
        self._acked = Standing(counters, 0)
        self._next = counters
        self._sequence = 0
        self._in_flight: deque[int] = deque()
        self._overhead: int | None = None

    @property
    def in_flight(self) -> int:
        """Multis built since the last acknowledged one."""
        return len(self._in_flight)

    def overhead_bytes(self, op_size: Callable[[ZkOp], int]) -> int:
        """Bytes of a multi that carries no data op, at most; ``op_size`` gives those of each op.

        Computed once; the first multi, which may create the counters, has the longest.
        """
        if self._overhead is None:
            ops = self._wrap((), Position(2**62, 2**30, 2**30), "f" * DIGEST_CHARS)
            self._overhead = MULTI_OVERHEAD_BYTES + sum(op_size(op) for op in ops) + OVERHEAD_SPARE
        return self._overhead

    def build(
        self,
        data: Sequence[ZkOp],
        position: Position,
        encode: Callable[[ZkOp], bytes] | None = None,
        body: Sequence[bytes] = (),
    ) -> Multi:
        """Build the next multi: the check, ``data``, then the counters with ``position``.

        Args:
            data: the operations that change data.
            position: what ZooKeeper holds after it.
            encode: encodes the others, if ``body`` is given.
            body: ``data`` encoded.
        """
        self._sequence += 1
        self._in_flight.append(self._sequence)
        newest = max(position.offset, self.term.log_offset)
        if self._digest[0] != newest:
            self._digest = (newest, self._digest_at(newest))
        ops = self._wrap(data, position, self._digest[1])
        self._next = _after(self._next)
        if encode is None:
            return Multi(ops)
        return Multi(ops, b"".join((encode(ops[0]), *body, encode(ops[-2]), encode(ops[-1]))))

    def acknowledge(self, values: Sequence[object]) -> bool:
        """Take the results of the oldest multi in flight.

        Returns:
            Whether they are those of a multi that was applied. A conditional write excludes any
            other version of a counter, so such an answer proves nothing: the multi stays in doubt.
        """
        expected = _after(self._acked.counters)
        found = [value.version if isinstance(value, Stat) else 0 for value in values[-2:]]
        if found != [expected.own, expected.migration]:
            return False
        self._acked = Standing(expected, self._in_flight.popleft())
        return True

    def written(self, sequence: int | None) -> int | None:
        """How many multis in flight were applied if the last one was ``sequence``.

        Returns:
            0 to the number in flight; None: ``sequence`` is neither one of them nor the one before.
        """
        if sequence == self._acked.sequence:
            return 0
        for count, number in enumerate(self._in_flight, 1):
            if number == sequence:
                return count
        return None

    def applied(self, read: Standing) -> int | None:
        """How many multis in flight were applied, according to the values read after the fence.

        Returns:
            0 to the number in flight; None: another client wrote one of the two znodes.
        """
        count = self.written(read.sequence)
        at = self._acked.counters
        for _ in range(count or 0):
            at = _after(at)
        return count if at == read.counters else None

    def resume(self, read: Standing) -> None:
        """Continue from the values read; multis in flight are dropped."""
        self._acked, self._next = read, read.counters
        self._in_flight.clear()

    def _wrap(self, data: Sequence[ZkOp], position: Position, digest: str) -> tuple[ZkOp, ...]:
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
                incarnation=term.incarnation,
                digest=digest,
                log_offset=max(position.offset, term.log_offset),
                epoch_created=term.epoch_created,
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
