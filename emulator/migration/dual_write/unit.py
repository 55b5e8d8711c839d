"""A unit of writing: the znode operations that carry ZooKeeper from one image to a later one.

Operations come from a plan that is made piece by piece, since no step may take longer than 5 ms,
and are sent in multis bounded by count and bytes. The last multi of a unit carries the new offset.
All others carry the offset at which the unit starts, and their index in the unit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.migration.plan import PAUSE, Group
from emulator.migration.position import Position
from emulator.trace.rows import MultiOperation
from emulator.znodes import topics
from emulator.zookeeper.ops import Check, Create, Delete, SetData, ZkOp

TOPICS: Final = topics.ROOT + "/"
_OF_TOPICS: Final = {
    Create: "topic_create",
    Delete: "topic_delete",
    SetData: "partition_change",
    Check: "partition_change",
}
PLAN_OPS_PER_STEP: Final = 600
PIECES_PER_STEP: Final = 80
"""Most pieces of a delta hold operations, which :data:`PLAN_OPS_PER_STEP` limits; a few hold
none.
"""
COMPARED_PIECES_PER_STEP: Final = 6
"""A piece is about 50 znodes at most; comparing equal znodes takes time but yields no operation."""


OpBytes: TypeAlias = Callable[[ZkOp], bytes]
"""An operation as it is sent in a multi; the session encodes it, with chroot and ACLs."""


EncodedGroup: TypeAlias = tuple[Group, bytes]
"""Operations that stay together in one multi, each encoded once, when it is planned."""


@dataclass(slots=True, eq=False)
class Unit:
    """The operations between two positions of the log.

    Invariant: ``source`` yields operations in an order in which every prefix can be applied and
    completed later.
    """

    base: Position
    """What ZooKeeper holds before the unit."""
    after: Image
    touched: Touched
    source: Iterator[Sequence[Group]]
    full: bool = False
    """Whether it is a reconcile of the whole tree, not a delta."""
    begun_ns: int = 0
    groups: deque[EncodedGroup] = field(default_factory=deque)
    """Planned and not sent."""
    waiting_ops: int = 0
    """Operations in ``groups``."""
    waiting_bytes: int = 0
    """Bytes they add to multis."""
    planned: bool = False
    packed: bool = False
    """Its last multi has been built; cleared when that multi is taken back."""
    packed_bytes: int = 0
    """Bytes of the data operations that :meth:`pack` returned last."""
    parts_sent: int = 0
    ops_count: int = 0
    first_offset: int = field(init=False)
    """First offset it newly covers."""
    last_offset: int = field(init=False)
    """Last offset it covers."""

    def __post_init__(self) -> None:
        """What it covers never changes."""
        self.first_offset, self.last_offset = self.base.offset + 1, self.after.offset

    @property
    def position(self) -> Position:
        """The position for the next multi, after :meth:`pack`: new offset if nothing is left."""
        if self.packed:
            return Position(self.after.offset, self.after.epoch)
        return Position(self.base.offset, self.base.metadata_epoch, self.parts_sent + 1)

    def plan(
        self, op_bytes: OpBytes, ops_max: int = PLAN_OPS_PER_STEP, pieces_max: int | None = None
    ) -> bool:
        """Draw pieces from the source until about ``ops_max`` operations are waiting.

        Args:
            op_bytes: encodes an operation; called once for each.
            ops_max: waiting operations at which to stop.
            pieces_max: pieces drawn at most; None: what takes a step some milliseconds.

        Returns:
            Whether the source is exhausted.
        """
        drawn = 0
        usual = COMPARED_PIECES_PER_STEP if self.full else PIECES_PER_STEP
        for _ in range(usual if pieces_max is None else pieces_max):
            if drawn >= PLAN_OPS_PER_STEP or self.waiting_ops >= ops_max:
                break
            piece = next(self.source, None)
            if piece is None:
                self.planned = True
                break
            if piece is PAUSE:
                break
            count = size = 0
            for ops in piece:
                encoded = op_bytes(ops[0]) if len(ops) == 1 else b"".join(map(op_bytes, ops))
                self.groups.append((ops, encoded))
                count += len(ops)
                size += len(encoded)
            drawn += count
            self.ops_count += count
            self.waiting_ops += count
            self.waiting_bytes += size
        return self.planned

    def pack(self, ops_max: int, bytes_max: int) -> list[EncodedGroup] | None:
        """Take the groups of the next multi.

        Args:
            ops_max: data operations in it; a larger group goes alone.
            bytes_max: bytes of data operations in it; a larger group goes alone.

        Returns:
            The groups, possibly none (an offset without data); None when more must be planned
            first.
        """
        if not self.planned and self.waiting_ops <= ops_max and self.waiting_bytes <= bytes_max:
            return None
        taken: list[EncodedGroup] = []
        ops = size = 0
        for group in self.groups:
            next_ops, next_size = ops + len(group[0]), size + len(group[1])
            if taken and (next_ops > ops_max or next_size > bytes_max):
                break
            ops, size = next_ops, next_size
            taken.append(group)
        for _ in taken:
            self.groups.popleft()
        if not self.groups and not self.planned:
            # One group is larger than a multi; the next group is not planned yet.
            self.groups.extend(taken)
            return None
        self.packed = not self.groups and self.planned
        self.packed_bytes = size
        self.waiting_ops -= ops
        self.waiting_bytes -= size
        return taken

    def put_back(self, groups: Sequence[EncodedGroup]) -> None:
        """Return groups of a multi that was not applied; multis are put back latest first."""
        self.untake(groups)
        self.parts_sent -= 1

    def untake(self, groups: Sequence[EncodedGroup]) -> None:
        """Return groups that :meth:`pack` took last and that were not sent."""
        self.groups.extendleft(reversed(groups))
        self.waiting_ops += sum(len(ops) for ops, _ in groups)
        self.waiting_bytes += sum(len(encoded) for _, encoded in groups)
        self.packed = False


def operations(groups: Sequence[EncodedGroup], multi_bytes: int) -> tuple[MultiOperation, ...]:
    """Count a multi's operations by kind of work; the chain's three operations come last.

    The first operation of a group says the kind of all: the others are its notifications.
    """
    found: dict[str, list[int]] = {}
    for ops, encoded in groups:
        multi_bytes -= len(encoded)
        op = ops[0]
        kind = _OF_TOPICS[type(op)] if op.path.startswith(TOPICS) else operation_kind(op)
        counts = found.get(kind)
        if counts is None:
            found[kind] = [len(ops), len(encoded)]
        else:
            counts[0] += len(ops)
            counts[1] += len(encoded)
    rows = [MultiOperation(kind, *found[kind]) for kind in sorted(found)]
    return (*rows, MultiOperation("chain", 3, multi_bytes))


def operation_kind(op: ZkOp) -> str:
    """The kind of work that a data operation belongs to.

    >>> from emulator.zookeeper.ops import SetData
    >>> operation_kind(SetData("/brokers/topics/t/partitions/0/state", b"{}"))
    'partition_change'
    >>> operation_kind(Create("/brokers/topics/t", b"{}"))
    'topic_create'
    """
    parts = op.path.split("/")
    match parts[1:3]:
        case ["brokers", "topics"] | ["admin", "delete_topics"]:
            return _OF_TOPICS[type(op)]
        case ["config", "topics"]:
            return "topic_delete" if isinstance(op, Delete) else "topic_config"
        case ["config", "brokers"]:
            return "broker_config"
        case ["config", "users" | "clients" | "ips"]:
            return "client_entities"
        case ["config", "changes"]:
            return _notified_kind(op)
        case ["latest_producer_id_block"]:
            return "producer_ids"
        case ["kafka-acl" | "kafka-acl-extended" | "kafka-acl-changes", *_]:
            return "acls"
        case ["kafka-acl-extended-changes", *_]:
            return "acls"
        case ["delegation_token", *_]:
            return "delegation_tokens"
        case _:
            return "other"


def _notified_kind(op: ZkOp) -> str:
    data = (op.data if isinstance(op, Create) else None) or b""
    if b'"brokers/' in data:
        return "broker_config"
    return "topic_config" if b'"topics/' in data else "client_entities"
