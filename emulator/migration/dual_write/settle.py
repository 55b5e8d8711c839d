"""After any doubt: read the chain back and say what it means.

Runs only when nothing of ours can still be applied: after the ZooKeeper client has fenced the old
session, or when every multi in flight has been answered. A read alone is no fence (measured: multis
delayed in the network were applied after it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from emulator.migration.dual_write.chain import Chain
from emulator.migration.position import Counters, Position
from emulator.migration.rounds import Round
from emulator.migration.zk_tree import controller, migration, own
from emulator.zookeeper.errors import ZkCode, code_name
from emulator.zookeeper.ops import (
    GetData,
    MultiRead,
    NodeData,
    ReadFailed,
    ReadValue,
    Sync,
    ZkRequest,
)

PATHS: Final = (controller.EPOCH_PATH, controller.PATH, own.PATH, migration.PATH)


REQUESTS: Final[Sequence[ZkRequest]] = (Sync("/"), MultiRead(tuple(GetData(p) for p in PATHS)))
"""The four znodes, after a sync: the server at hand may lag behind the leader."""


def unreadable(read: Round) -> tuple[str, str] | None:
    """Path and cause of a read that failed for another reason than absence: it proves nothing."""
    for _, code in read.failures:
        return "/", f"reading the chain back: {code_name(code)}"
    for path, value in zip(PATHS, read.values, strict=True):
        if isinstance(value, ReadFailed) and value.code != ZkCode.NO_NODE:
            return path, f"reading the chain back: {code_name(value.code)}"
    return None


@dataclass(frozen=True, slots=True)
class Deposed:
    """The claim is no longer ours."""

    why: str


@dataclass(frozen=True, slots=True)
class Foreign:
    """The claim is ours, but somebody wrote one of the counters: compare everything."""

    read: Counters
    why: str
    position: Position | None
    """What our own znode says ZooKeeper holds; None when it is not of this term."""


@dataclass(frozen=True, slots=True)
class Applied:
    """Exactly ``count`` of the multis in doubt were applied."""

    read: Counters
    count: int


def judge(chain: Chain, values: Sequence[ReadValue]) -> Deposed | Foreign | Applied:
    """Say what the four znodes, in the order of :data:`PATHS`, mean for the chain."""
    epoch, holder, own_node, migration_node = (
        value if isinstance(value, NodeData) else None for value in values
    )
    term = chain.term
    if epoch is None or epoch.stat.version != term.epoch_version:
        return Deposed(
            f"{controller.EPOCH_PATH} is no longer what this controller wrote: somebody else has "
            "claimed the cluster"
        )
    registration = None if holder is None else controller.try_parse(holder.data)
    if registration is None or (registration.broker_id, registration.kraft_epoch) != (
        term.node_id,
        term.kraft_epoch,
    ):
        return Deposed(f"{controller.PATH} no longer names this controller: a rollback has begun")
    read = Counters(
        own=None if own_node is None else own_node.stat.version,
        migration=None if migration_node is None else migration_node.stat.version,
    )
    count = chain.applied(read)
    state = None if own_node is None else own.try_parse(own_node.data)
    mine = (term.node_id, term.kraft_epoch, term.zk_epoch)
    ours = state is not None and (state.node_id, state.kraft_epoch, state.zk_epoch) == mine
    if count is None:
        why = f"{migration.PATH} or {own.PATH} was written by somebody else"
        position = Position(state.offset, state.metadata_epoch) if state and ours else None
        return Foreign(read, why, position)
    if count and not ours:
        return Deposed(f"{own.PATH} was written by another controller")
    return Applied(read, count)
