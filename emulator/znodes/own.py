"""``/kraft_bridge``: our own znode, second counter of the chain of multis.

The claim writes it, and then every multi. Its version counts our multis, since no other client
writes it. Its content holds the process that wrote it, the number of its last multi, and the last
batch of the log that ZooKeeper has followed; until there is one since the claim, the newest batch
of the log that claimed. Kafka has no such znode and leaves it alone. It stays after a rollback, as
``/migration`` does, and ``kraft-bridge rollback`` puts its own name into ``writer``: then no
controller claims. Delete both before another migration.

Older releases wrote it without ``incarnation``, ``digest``, ``log_offset`` and ``epoch_created``:
they are then empty and are not checked.
"""

from __future__ import annotations

from typing import Final

import msgspec

from emulator.znodes import znode_json
from emulator.znodes.tree import ZnodeError

PATH: Final = "/kraft_bridge"
FORMAT: Final = 1
ROLLED_BACK: Final = "kraft-bridge rollback"
"""``writer`` from a rollback on: no controller may claim as long as this znode exists."""


class OwnZnode(msgspec.Struct, frozen=True):
    """The content that our last multi wrote."""

    node_id: int
    kraft_epoch: int
    zk_epoch: int
    """Value of ``/controller_epoch`` since our claim."""
    sequence: int
    """Number of the multi in this claim, never used twice; 0: the claim itself."""
    offset: int
    """Offset of the last record completely in ZooKeeper, as in ``/migration``."""
    metadata_epoch: int
    """Leader epoch of that record."""
    part: int = 0
    """Multis of the change after ``offset`` that are already applied."""
    reconciling: bool = False
    """Whether a full reconcile is in progress: an interrupted one must be repeated in full."""
    incarnation: str = ""
    """Random id of the process that made the claim; empty: not recorded."""
    digest: str = ""
    """Digest of the batch that holds ``log_offset`` (``Raft.digest_at``); empty: not recorded."""
    log_offset: int = -1
    """Newest record that the writer's log is known to hold: the last one committed before its
    claim, or ``offset`` once that is later; -1: not recorded, ``offset`` stands for it."""
    epoch_created: int = -1
    """Zxid at which ``/controller_epoch`` was created, as the claim found it; -1: not recorded."""
    format: int = FORMAT
    writer: str = "kraft-bridge"


class _Format(msgspec.Struct):
    format: int


def parse(data: bytes | None) -> OwnZnode:
    """Read our znode.

    Raises:
        ZnodeError: malformed, or written in a format this release does not know.
    """
    written = znode_json.decode(PATH, data, _Format)
    if written.format != FORMAT:
        why = f"format {written.format} is of a later release: start the controller with that one"
        raise ZnodeError(PATH, why)
    return znode_json.decode(PATH, data, OwnZnode)


def try_parse(data: bytes | None) -> OwnZnode | None:
    """Read our znode; None if it is malformed or of another format."""
    try:
        return parse(data)
    except ZnodeError:
        return None


def rolled_back(znode: OwnZnode | None) -> bool:
    """Whether ``kraft-bridge rollback`` wrote it last."""
    return znode is not None and znode.writer == ROLLED_BACK


def claimed_in(znode: OwnZnode | None) -> int | None:
    """The ``/controller_epoch`` of the last claim; None: it is not known."""
    return None if znode is None else znode.zk_epoch


def log_at(znode: OwnZnode) -> tuple[int, int]:
    """The place in the writer's log that ``digest`` is of: offset and leader epoch."""
    if znode.log_offset > znode.offset:
        return znode.log_offset, znode.kraft_epoch
    return znode.offset, znode.metadata_epoch


def of_term(znode: OwnZnode) -> tuple[int, int, int, str]:
    """Whether it belongs to a claim: same id, KRaft epoch, ZooKeeper epoch, incarnation."""
    return znode.node_id, znode.kraft_epoch, znode.zk_epoch, znode.incarnation


def encode(znode: OwnZnode) -> bytes:
    """Render our znode."""
    return znode_json.encode(znode)
