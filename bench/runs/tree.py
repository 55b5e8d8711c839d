"""The tree a controller leaves behind, read raw by kazoo, and what two of them must agree on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

from kazoo.client import KazooClient

Tree = Mapping[str, bytes | None]

_WINDOW: Final = 500
_OWN: Final = re.compile(
    r"/(zookeeper|kraft_bridge|controller|controller_epoch|migration"
    r"|brokers/ids/.*|brokers/seqid|config/changes/.*)(/.*)?$"
)
"""Fields that depend on the writer, the number and the time of writes."""
_LOOSE: Final = {"topic_id", "controller_epoch"}
"""Members of the JSON of a znode that differ from run to run."""

T = TypeVar("T")


def read(
    client: KazooClient, unread: Collection[str] = (), skipped: Collection[str] = ()
) -> dict[str, bytes | None]:
    """Every znode below the chroot of ``client`` with its data, None where there is none.

    Topics whose names begin with one of ``unread`` are left out, and paths that begin with one of
    ``skipped``.
    """
    left_out = (*(f"/brokers/topics/{prefix}" for prefix in unread), *skipped)
    found: dict[str, bytes | None] = {}
    level = ["/"]
    while level:
        parents = []
        for path, (data, stat) in _each(client.get_async, level):
            if path != "/":
                found[path] = data
            if stat.numChildren:
                parents.append(path)
        level = [
            f"{path.rstrip('/')}/{child}"
            for path, children in _each(client.get_children_async, parents)
            for child in children
            if not (left_out and f"{path.rstrip('/')}/{child}".startswith(left_out))
        ]
    return found


def _each(ask: Callable[[str], Any], paths: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Ask for each path, many at a time; answers in order."""
    rest = iter(paths)
    while chunk := list(islice(rest, _WINDOW)):
        for path, answer in zip(chunk, [ask(path) for path in chunk], strict=True):
            yield path, answer.get(timeout=60)


def meaning(tree: Tree) -> dict[str, object]:
    """The content of a tree, independent of the writer: path -> parsed JSON, else the data.

    >>> meaning({"/brokers/topics/a": b'{"topic_id":"x","version":3}', "/migration": b"{}"})
    {'/brokers/topics/a': {'version': 3}}
    """
    return {path: _parsed(data) for path, data in tree.items() if not _OWN.match(path)}


def _parsed(data: bytes | None) -> object:
    try:
        value = json.loads(data or b"")
    except ValueError:
        return data
    if isinstance(value, dict):
        return {key: member for key, member in value.items() if key not in _LOOSE}
    return value


def differences(one: Tree, other: Tree) -> list[str]:
    """Paths on which two trees differ, sorted."""
    a, b = meaning(one), meaning(other)
    missing = object()
    return sorted(
        path for path in a.keys() | b.keys() if a.get(path, missing) != b.get(path, missing)
    )
