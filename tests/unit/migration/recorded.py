"""Recorded trees as the reader gives them, and the records a real controller made of them."""

from __future__ import annotations

import base64
import json
from typing import Any

from emulator.znodes.reader import Tree, TreeNode
from tests import data


def recorded_nodes(folder: str, step: str) -> dict[str, dict[str, Any]]:
    """Every znode of a dump, as the dump describes it."""
    nodes: dict[str, dict[str, Any]] = data.tree(folder, step)["nodes"]
    return nodes


def node_data(node: dict[str, Any]) -> bytes | None:
    """A dumped znode's data."""
    if "text" in node:
        return str(node["text"]).encode()
    return base64.b64decode(node["b64"]) if "b64" in node else None


def recorded_tree(folder: str, step: str) -> Tree:
    """The dump as a tree that was read."""
    tree = Tree()
    nodes = recorded_nodes(folder, step)
    lists: dict[str, list[str]] = {path: [] for path in nodes}
    for path, node in nodes.items():
        tree.nodes[path] = TreeNode(
            node_data(node), node["version"], node["czxid"], node["ephemeralOwner"]
        )
        parent, _, name = path.rpartition("/")
        lists.setdefault(parent, []).append(name)
    tree.lists = {path: tuple(sorted(names)) for path, names in lists.items()}
    return tree


def recorded_records(folder: str, kinds: set[str]) -> list[tuple[str, dict[str, Any]]]:
    """Records of some kinds in the recorded log, in order, as Kafka's JSON."""
    found = []
    for line in data.read(f"{folder}/metadata-log-short.txt").splitlines():
        parts = line.split(None, 3)
        if len(parts) == 4 and parts[1] in kinds:
            found.append((parts[1], json.loads(parts[3])))
    return found
