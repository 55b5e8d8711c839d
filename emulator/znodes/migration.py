"""``/migration``: the log that ZooKeeper follows, and up to which offset.

Source: kafka.zk.MigrationZNode, Kafka 3.9. Any version but 0 is refused.
"""

from __future__ import annotations

from typing import Final

import msgspec

from emulator.znodes import znode_json
from emulator.znodes.tree import ZnodeError

PATH: Final = "/migration"


class MigrationZnode(msgspec.Struct, frozen=True):
    """Kafka's five keys. ``kraft_metadata_offset``: of the last record in ZooKeeper.

    -1 before the copy.
    """

    kraft_controller_id: int
    kraft_controller_epoch: int
    kraft_metadata_offset: int
    kraft_metadata_epoch: int
    version: int = 0


INITIAL: Final = MigrationZnode(-1, -1, -1, -1)
"""Before any controller has claimed."""


def parse(data: bytes | None) -> MigrationZnode:
    """Read ``/migration``.

    Raises:
        ZnodeError: malformed, or a version this release does not know.
    """
    found = znode_json.decode(PATH, data, MigrationZnode)
    if found.version != 0:
        raise ZnodeError(PATH, f"version {found.version} is unknown")
    return found


def encode(znode: MigrationZnode) -> bytes:
    """Render ``/migration``."""
    return znode_json.encode(znode)
