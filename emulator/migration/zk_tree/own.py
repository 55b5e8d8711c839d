"""``/kraft_bridge``: our own znode, second counter of the chain of multis.

The claim writes it, and then every multi. Its version counts our multis, since nobody else writes
it; its content says which process wrote, which multi of it was the last, and which batch of which
log ZooKeeper has followed last. Kafka has no such znode and leaves it alone. It stays after a
rollback, as ``/migration`` does; delete both before another migration.

Written without ``incarnation`` and ``digest`` by releases before them: both are then empty, and
nothing is concluded from them.
"""

from __future__ import annotations

from typing import Final

import msgspec

from emulator.migration.zk_tree import znode_json
from emulator.migration.zk_tree.errors import ZnodeError

PATH: Final = "/kraft_bridge"
FORMAT: Final = 1


class OwnZnode(msgspec.Struct, frozen=True):
    """What the last multi of ours says."""

    node_id: int
    kraft_epoch: int
    zk_epoch: int
    """Value of ``/controller_epoch`` since our claim."""
    sequence: int
    """Number of the multi in this claim, never used twice; 0: the claim itself."""
    offset: int
    """Last record wholly in ZooKeeper, as in ``/migration``."""
    metadata_epoch: int
    """Leader epoch of that record."""
    part: int = 0
    """Multis of the change after ``offset`` that are already applied."""
    reconciling: bool = False
    """A full reconcile is under way: one that was cut must be repeated in full."""
    incarnation: str = ""
    """Of the process whose claim this is, random for each; empty: not recorded."""
    digest: str = ""
    """Of the batch that holds ``offset``, see ``Raft.digest_at``; empty: not recorded."""
    format: int = FORMAT
    writer: str = "kraft-bridge"


def parse(data: bytes | None) -> OwnZnode:
    """Read our znode.

    Raises:
        ZnodeError: malformed, or written in a format this release does not know.
    """
    found = znode_json.decode(PATH, data, OwnZnode)
    if found.format != FORMAT:
        raise ZnodeError(PATH, f"format {found.format} is unknown")
    return found


def try_parse(data: bytes | None) -> OwnZnode | None:
    """Read our znode; None when it is not ours to understand."""
    try:
        return parse(data)
    except ZnodeError:
        return None


def of_term(znode: OwnZnode) -> tuple[int, int, int, str]:
    """Whose claim it is: id, KRaft epoch, ZooKeeper epoch, incarnation."""
    return znode.node_id, znode.kraft_epoch, znode.zk_epoch, znode.incarnation


def encode(znode: OwnZnode) -> bytes:
    """Render our znode."""
    return znode_json.encode(znode)
