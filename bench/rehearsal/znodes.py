"""The znodes of a dump, and writing them into an empty ZooKeeper.

What ZooKeeper itself decides cannot be written: versions, transaction ids and times begin anew, and
so do the numbers of sequential znodes. Ephemeral znodes belong to sessions and are left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import Create
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id

from emulator.servers.zk_dump import REDACTED, contents

_OPS: Final = 500
_BYTES: Final = 256 * 1024
"""Of one multi: ZooKeeper takes four times as many."""
_WINDOW: Final = 4
_ANSWER_S: Final = 60.0
_LARGE: Final = 1_000_000
_BESIDE: Final = (RolledBackError, RuntimeInconsistency)
"""Answers to operations beside the one that was refused."""
_OPEN: Final = [[31, "world", "anyone"]]
OPEN_ACLS: Final = "--open-acls loads the tree so that everybody may read and write it"


class DumpContentError(ValueError):
    """A dump that cannot be loaded; one sentence."""


class LoadError(Exception):
    """ZooKeeper did not take all; the text says what it holds now."""


@dataclass(frozen=True, slots=True)
class LoadedZnode:
    """One znode that is written; ``acl``: as ``[perms, scheme, id]``, none if everybody may all."""

    path: str
    data: bytes | None
    acl: tuple[tuple[int, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Loadable:
    """What of a dump can be written, parents first, and how many znodes are left out."""

    nodes: Sequence[LoadedZnode]
    ephemeral: int


def loadable(document: Mapping[str, Any], *, open_acls: bool = False) -> Loadable:
    """The znodes of a dump that can be written.

    Args:
        document: what ``zk dump`` printed, known to be one.
        open_acls: everybody may read and write all.

    Raises:
        DumpContentError: it is empty or cut, or has an access rule that was left out.
    """
    entries: Mapping[str, Mapping[str, Any]] = document["nodes"]
    if not entries:
        raise DumpContentError("there is no znode in it: dump the tree again, with its chroot")
    count = document.get("count", len(entries))
    if count != len(entries):
        what, do = "cut", "dump it again"
        if isinstance(count, int) and count < len(entries):
            what, do = "changed", f"dump it again, or write {len(entries)} as its count"
        raise DumpContentError(
            f"it is {what}: it says that it has {count} znodes, and has {len(entries)}: {do}"
        )
    data = contents(document)
    kept = {path: one for path, one in entries.items() if not _ephemeral(one)}
    nodes = []
    for path in sorted(kept, key=lambda one: (one.count("/"), one)):
        parent = path.rpartition("/")[0]
        if parent and parent not in kept:
            raise DumpContentError(f"it is cut: {path} is in it and {parent} is not: dump it again")
        acl = () if open_acls else _acl(path, kept[path].get("acl", _OPEN))
        nodes.append(LoadedZnode(path, data[path], acl))
    return Loadable(nodes, len(entries) - len(kept))


def _ephemeral(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("ephemeral") or entry.get("ephemeralOwner"))


def _acl(path: str, rules: Sequence[Sequence[Any]]) -> tuple[tuple[int, str, str], ...]:
    try:
        found = tuple((int(perms), str(scheme), str(name)) for perms, scheme, name in rules)
    except (TypeError, ValueError) as error:
        raise DumpContentError(
            f"the access rule of {path} is not as zk dump writes it; {OPEN_ACLS}"
        ) from error
    if list(map(list, found)) == _OPEN:
        return ()
    if any(REDACTED in name for _, _, name in found):
        raise DumpContentError(
            f"a password of the access rule of {path} was left out of it: dump it --with-secrets, "
            f"or {OPEN_ACLS}"
        )
    return found


def is_empty(client: KazooClient, below: str) -> bool:
    """Whether there is nothing below a path; one that is not there is made.

    Args:
        client: connected, without a chroot.
        below: the chroot, or an empty text.
    """
    try:
        return not {*client.get_children(below or "/")} - {"zookeeper"}
    except NoNodeError:
        client.ensure_path(below)
        return True


def write(client: KazooClient, below: str, nodes: Sequence[LoadedZnode]) -> None:
    """Create the znodes, several requests at a time; access rules are set when all are there.

    Args:
        client: connected, without a chroot.
        below: the chroot, or an empty text; there is nothing below it.
        nodes: parents first.

    Raises:
        LoadError: one of them cannot be created.
    """
    pending: deque[tuple[str, Any]] = deque()
    done = 0

    def settle(left: int) -> None:
        nonlocal done
        while len(pending) > left:
            done += _settled(*pending.popleft(), done)

    for some in _portions(nodes):
        transaction = client.transaction()
        for one in some:
            # Kazoo's own method takes no znode without data.
            transaction.operations.append(
                Create(f"{below}{one.path}", one.data, OPEN_ACL_UNSAFE, 0)
            )
        largest = max(some, key=lambda one: len(one.data or b""))
        pending.append((_about(largest), transaction.commit_async()))
        settle(_WINDOW)
    settle(0)
    _restrict(client, below, nodes)


def _portions(nodes: Iterable[LoadedZnode]) -> Iterator[list[LoadedZnode]]:
    some: list[LoadedZnode] = []
    size = 0
    for one in nodes:
        length = len(one.path) + len(one.data or b"")
        if some and (len(some) == _OPS or size + length > _BYTES):
            yield some
            some, size = [], 0
        some.append(one)
        size += length
    if some:
        yield some


def _about(largest: LoadedZnode) -> str:
    """What may be the reason if the connection is closed at a request."""
    size = len(largest.data or b"")
    if size < _LARGE:
        return ""
    return f"; {largest.path} has {size:,} bytes, which jute.maxbuffer of ZooKeeper must allow"


def _settled(about: str, answer: Any, done: int) -> int:
    """How many znodes a request has created.

    Raises:
        LoadError: none.
    """
    try:
        results = answer.get(timeout=_ANSWER_S)
    except (KazooException, KazooTimeoutError) as error:
        raise LoadError(_stopped(done, error, about)) from error
    wrong = [one for one in results if isinstance(one, Exception)]
    if wrong:
        own = [one for one in wrong if not isinstance(one, _BESIDE)] or wrong
        raise LoadError(_stopped(done, own[0], about))
    return len(results)


def _stopped(done: int, error: Exception, about: str) -> str:
    lost = about if isinstance(error, ConnectionLoss) else ""
    return (
        f"{done} znodes were created, then {type(error).__name__}{lost}: delete what is below the "
        "chroot, and load it again"
    )


def _restrict(client: KazooClient, below: str, nodes: Sequence[LoadedZnode]) -> None:
    """Set the access rules, children first, so that none keeps us from what is below."""
    for one in reversed(nodes):
        if not one.acl:
            continue
        rules = [ACL(perms, Id(scheme, name)) for perms, scheme, name in one.acl]
        try:
            client.set_acls(f"{below}{one.path}", rules)
        except InvalidACLError as error:
            schemes = ", ".join(sorted({scheme for _, scheme, _ in one.acl}))
            raise LoadError(
                f"every znode is there, and the access rule of {one.path} is not: this ZooKeeper "
                f"does not take {schemes}. Delete what is below the chroot; {OPEN_ACLS}"
            ) from error
        except KazooException as error:
            raise LoadError(_stopped(len(nodes), error, "")) from error
