"""``/cluster/id``: which Kafka cluster a ZooKeeper belongs to.

Source: kafka.zk.ClusterIdZNode, Kafka 3.9; the first broker of a cluster writes it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from emulator.znodes import znode_json

PATH: Final = "/cluster/id"


class _ClusterJson(msgspec.Struct):
    id: str


def parse(data: bytes | None) -> str:
    """Read the cluster's id, 22 characters.

    Raises:
        ZnodeError: malformed.
    """
    return znode_json.decode(PATH, data, _ClusterJson).id


def encode(cluster_id: str) -> bytes:
    """Render ``/cluster/id``; its version is a string, unlike in all other znodes.

    >>> encode("c")
    b'{"version":"1","id":"c"}'
    """
    return znode_json.encode({"version": "1", "id": cluster_id})
