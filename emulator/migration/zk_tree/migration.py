"""``/migration``: how far ZooKeeper has followed which log; what in a tree cannot follow yet.

Source: kafka.zk.MigrationZNode, Kafka 3.9. Any version but 0 is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from emulator.migration.zk_tree import configs, znode_json
from emulator.migration.zk_tree.errors import ZnodeError
from emulator.migration.zk_tree.reader import Tree

PATH: Final = "/migration"


class MigrationZnode(msgspec.Struct, frozen=True):
    """Kafka's five keys. ``kraft_metadata_offset``: last record wholly in ZooKeeper.

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


def unsupported(tree: Tree) -> Iterator[tuple[str, str]]:
    """Znodes of entity classes that are not migrated yet, with the name of the class.

    An empty config (what is left of a removed quota) counts for nothing.
    """
    for root, what in (("users", "user"), ("clients", "client"), ("ips", "ip")):
        for path in tree.below(f"/config/{root}"):
            node = tree.node(path)
            if node is not None and not configs.is_empty(path, node.data):
                yield path, f"{what} configs (quotas, SCRAM credentials)"
    for name in tree.children(configs.BROKERS):
        path = f"{configs.BROKERS}/{name}"
        if b"encryptedPassword:" in (tree.data(path) or b""):
            yield path, "broker configs with encoded passwords"
    for root in ("/kafka-acl", "/kafka-acl-extended"):
        depth = 3 if root == "/kafka-acl" else 4
        for path in tree.below(root):
            if path.count("/") >= depth:
                yield path, "ACLs"
    for path in tree.below("/delegation_token/tokens"):
        yield path, "delegation tokens"
