"""A tree from a dump: the JSON that ``kraft-bridge zk dump`` prints, read back.

One object; ``nodes`` holds, per absolute path, the data as ``text`` (UTF-8) or ``b64``, or ``null``
(created without data), and ``version``, ``czxid``, ``ephemeralOwner``; other fields of a dump
(times, access rules, a note) are ignored. Secrets may have been left out: values that read
``<redacted>``.

Pure: ``emulator.commands.input_file`` reads the file.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

import msgspec

from emulator.znodes.reader import Tree, TreeNode

REDACTED: Final = "<redacted>"
"""The text in place of a secret in a dump."""


class DumpError(ValueError):
    """Not a dump of a tree; the text says what is wrong and where."""


class _NodeJson(msgspec.Struct):
    text: str | None = None
    b64: str | None = None
    null: bool = False
    version: int = 0
    czxid: int = 0
    ephemeral_owner: int = msgspec.field(name="ephemeralOwner", default=0)


class _DumpJson(msgspec.Struct):
    nodes: dict[str, _NodeJson]


def parse(document: bytes) -> Tree:
    """Build the tree from a dump.

    Every znode of the dump is in it as if it had been read, with its children; a parent that is
    missing in the dump is listed too, without data. It differs from a tree read live only in two
    points: folders are in ``nodes`` too, and so are paths that a migration does not read.

    Args:
        document: the file as it is.

    Raises:
        DumpError: not JSON, an unexpected structure, or an invalid path.
    """
    try:
        found = msgspec.json.decode(document, type=_DumpJson)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DumpError(f"not a dump of a ZooKeeper tree: {error}") from error
    tree = Tree()
    children: dict[str, set[str]] = {}
    for path, node in found.nodes.items():
        if not path.startswith("/") or (path != "/" and "" in path[1:].split("/")):
            raise DumpError(f"not a dump of a ZooKeeper tree: {path!r} is no path of a znode")
        tree.nodes[path] = TreeNode(
            _data(path, node), node.version, node.czxid, node.ephemeral_owner
        )
        children.setdefault(path, set())
        below = path
        while below != "/":
            parent, _, name = below.rpartition("/")
            below = parent or "/"
            children.setdefault(below, set()).add(name)
    tree.lists = {path: tuple(sorted(names)) for path, names in children.items()}
    return tree


def is_redacted(data: bytes | None) -> bool:
    """Whether something in a znode's data was left out of the dump."""
    return data is not None and REDACTED.encode() in data


def redacted(tree: Tree) -> list[str]:
    """Every path of ``tree`` where a secret was left out, ascending."""
    return sorted(path for path, node in tree.nodes.items() if is_redacted(node.data))


def _data(path: str, node: _NodeJson) -> bytes | None:
    if node.null:
        return None
    if node.text is not None:
        return node.text.encode()
    if node.b64 is None:
        raise DumpError(f"not a dump of a ZooKeeper tree: {path} has neither text nor b64 nor null")
    try:
        return base64.b64decode(node.b64, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DumpError(f"not a dump of a ZooKeeper tree: {path}: {error}") from error
