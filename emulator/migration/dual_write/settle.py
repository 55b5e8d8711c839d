"""Settling a doubt: read the chain back and decide what was applied.

:class:`Settling` keeps the state since the doubt (the mode to return to, the refusal). The function
:func:`judge` draws the conclusion from the four znodes read.

Runs only when no multi of ours can still be applied: after the ZooKeeper client has fenced the old
session, or when every multi in flight has been answered. A read alone does not fence (measured:
multis delayed in the network were applied after it).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from emulator.migration.dual_write.chain import Chain, Standing
from emulator.migration.dual_write.modes import ORDERLY, Mode
from emulator.migration.dual_write.pipeline import Refused
from emulator.migration.position import Counters, Position, Term
from emulator.migration.rounds import Round
from emulator.migration.zk import Zk
from emulator.seam import Effect
from emulator.znodes import controller, migration, own
from emulator.zookeeper.errors import ZkCode, code_name
from emulator.zookeeper.ops import (
    GetData,
    MultiRead,
    NodeData,
    ReadFailed,
    ReadValue,
    Sync,
    ZkOutcome,
    ZkRequest,
)

RESTART: Final = (
    "restart this controller to see whether it may claim again, if it is the only voter; of "
    "several the next leader claims"
)
"""What follows when deposed: in the next epoch the guards of the claim check the cluster."""
PATHS: Final = (controller.EPOCH_PATH, controller.PATH, own.PATH, migration.PATH)


REQUESTS: Final[Sequence[ZkRequest]] = (Sync("/"), MultiRead(tuple(GetData(p) for p in PATHS)))
"""Read the four znodes after a sync, because the connected server may lag behind the leader."""


class ReadLost(msgspec.Struct, frozen=True):
    """The connection was lost during the read: read again."""


class Unreadable(msgspec.Struct, frozen=True):
    """A read failed with an error other than a missing znode, so there is no conclusion."""

    path: str
    cause: str


class Deposed(msgspec.Struct, frozen=True):
    """The claim is no longer ours."""

    why: str


class Foreign(msgspec.Struct, frozen=True):
    """We hold the claim, but another client changed one of our two znodes: compare the tree."""

    read: Standing
    why: str
    position: Position | None
    """The position of the last multi in doubt that was applied; None: none was."""


class Applied(msgspec.Struct, frozen=True):
    """Exactly ``count`` of the multis in doubt were applied."""

    read: Standing
    count: int


Conclusion: TypeAlias = ReadLost | Unreadable | Deposed | Foreign | Applied


class Settling:
    """Keeps the state of the current doubt, and reads the chain back to end it.

    ``resume``: the mode that was interrupted. ``refusal``: the first refused multi; the multis
    after it are refused because of it.
    """

    def __init__(self, zk: Zk) -> None:
        self._zk = zk
        self._round: Round | None = None
        self.resume = Mode.CLAIMED
        self.refusal: Refused | None = None

    def forget(self) -> None:
        """The term is over."""
        self._round = self.refusal = None
        self.resume = Mode.STARTING

    def interrupt(self, mode: Mode) -> None:
        """Record the mode that a doubt interrupts; a second doubt does not change it."""
        if mode in ORDERLY:
            self.resume = mode

    def refused(self, refusal: Refused) -> list[Effect]:
        """Record and log the first refusal; the others follow from it."""
        if self.refusal is not None:
            return []
        self.refusal = refusal
        return [refusal.log()]

    @property
    def asking(self) -> bool:
        """Whether the znodes are being read."""
        return self._round is not None

    def ask(self, now_ms: int) -> list[Effect]:
        """Read the four znodes; an earlier read is dropped."""
        self._round = Round(REQUESTS)
        return self._round.begin(self._zk, now_ms)

    def answered(self, outcome: ZkOutcome) -> Round | None:
        """Take an outcome; returns the round if this completes it."""
        read = self._round
        if read is None or not read.take(outcome):
            return None
        self._round = None
        return read


def conclude(chain: Chain, read: Round, unrefused: int) -> Conclusion:
    """Draw the conclusion from a complete read; see :func:`judge`."""
    if read.lost:
        return ReadLost()
    for _, code in read.failures:
        return Unreadable("/", f"reading /kraft_bridge and both counters: {code_name(code)}")
    for path, value in zip(PATHS, read.values, strict=True):
        if isinstance(value, ReadFailed) and value.code != ZkCode.NO_NODE:
            return Unreadable(
                path, f"reading /kraft_bridge and both counters: {code_name(value.code)}"
            )
    return judge(chain, read.values, unrefused)


def judge(chain: Chain, values: Sequence[ReadValue], unrefused: int) -> Deposed | Foreign | Applied:
    """Conclude from the four znodes, in the order of :data:`PATHS`, what was applied.

    The content of our own znode says what was applied. Versions alone would count a refused multi
    as applied when another client has written both znodes once.

    Args:
        chain: its multis in flight are in doubt.
        values: as read.
        unrefused: multis in flight before the first one that was refused by an answer.
    """
    epoch, holder, own_node, migration_node = (
        value if isinstance(value, NodeData) else None for value in values
    )
    term = chain.term
    if epoch is None or epoch.stat.version != term.epoch_version:
        return Deposed(
            f"{controller.EPOCH_PATH} is no longer what this controller wrote: another controller "
            f"has claimed the cluster; {RESTART}"
        )
    registration = None if holder is None else controller.try_parse(holder.data)
    if registration is None or (registration.broker_id, registration.kraft_epoch) != (
        term.node_id,
        term.kraft_epoch,
    ):
        return Deposed(
            f"{controller.PATH} no longer names this controller: a rollback has begun; {RESTART}"
        )
    state = None if own_node is None else own.try_parse(own_node.data)
    ours = state is not None and own.of_term(state) == _own_term(term)
    if state is not None and not ours and state.zk_epoch >= term.zk_epoch:
        return Deposed(
            f"{own.PATH} was written by another process (controller {state.node_id}, KRaft epoch "
            f"{state.kraft_epoch}) while our claim was valid. Find the process that uses a "
            f"copy of this controller's folder and end it, then {RESTART}"
        )
    read = Standing(
        Counters(
            own=None if own_node is None else own_node.stat.version,
            migration=None if migration_node is None else migration_node.stat.version,
        ),
        state.sequence if state is not None and ours else None,
    )
    written = chain.written(read.sequence)
    believed = written is not None and written <= unrefused
    count = chain.applied(read)
    if count is not None and believed:
        return Applied(read, count)
    position = None
    if written and believed and state is not None:
        position = Position(state.offset, state.metadata_epoch)
    return Foreign(read, f"{migration.PATH} or {own.PATH} was written by another client", position)


def _own_term(term: Term) -> tuple[int, int, int, str]:
    return term.node_id, term.kraft_epoch, term.zk_epoch, term.incarnation
