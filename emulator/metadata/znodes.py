"""What is said of znodes where ZooKeeper is not known: names they can have, entities, sizes.

Source: org.apache.zookeeper.common.PathUtils.validatePath, ZooKeeper 3.9.5.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

# ZooKeeper checks UTF-16 units, so it refuses characters that need two of them.
_REFUSED: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")


def why_no_name(name: str) -> str | None:
    """Why a znode below the top level cannot have this name; None if it can.

    >>> why_no_name("a/b"), why_no_name("*")
    ("contains '/'", None)
    """
    if not name:
        return "is empty"
    if name in {".", ".."}:
        return "is a relative path"
    if "/" in name:
        return "contains '/'"
    refused = _REFUSED.search(name)
    return None if refused is None else f"contains U+{ord(refused[0]):04X}"


class ZnodeKey(NamedTuple):
    """Identifies a znode by the entity it holds: a class of entities, and the entity.

    ``entities`` is ``topics`` (``of`` is the id), ``topic_configs`` (the name), or the name of a
    class of ``znodes.entities`` (its key).
    """

    entities: str
    of: object


class ZnodeSize(NamedTuple):
    """Path of a znode, and bytes of a request that writes it."""

    path: str
    bytes: int
