"""A ZooKeeper tree compared with a controller's folder, both read from outside.

Nothing is written. ZooKeeper is read by KazooClient: a tool need not be fast, and this is not the
code that wrote the tree.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import typer
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from emulator.commands.common import fail
from emulator.commands.exits import ExitCode
from emulator.commands.folders import committed_image, open_log
from emulator.commands.json_forms import stamped
from emulator.commands.zk import client as zk_client
from emulator.commands.zk.client import CONNECT_TIMEOUT_S
from emulator.config.zookeeper import OPEN, ZooKeeperSecurity
from emulator.io.printable import printable, printable_json
from emulator.io.tls import TlsError
from emulator.migration.tree_diff import Claim, Difference, differences
from emulator.raft.machine import Raft
from emulator.znodes import cluster, migration, own
from emulator.znodes.reader import Tree, TreeReader
from emulator.znodes.tree import ZnodeError
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import (
    GetChildren,
    GetData,
    NodeData,
    ReadFailed,
    ReadValue,
    ZkResult,
)

# How a comparison that may write is printed, whoever made it.


@dataclass(frozen=True, slots=True)
class ReconcileOutcome:
    """What a comparison has found; ``differences``: pairs of path and kind."""

    dry_run: bool
    offset: int
    counts: Mapping[str, int]
    differences: Sequence[tuple[str, str]]
    refused: Mapping[str, str]
    """Path -> why ZooKeeper does not take it."""
    why: str
    """Why it has not come to its end; empty if it has."""


def print_outcome(
    found: ReconcileOutcome, *, as_json: bool, unended: ExitCode = ExitCode.FOUND
) -> None:
    """Print it.

    Raises:
        typer.Exit: always; ``unended`` is the code of one that has not come to its end.
    """
    if as_json:
        typer.echo(printable_json(msgspec.json.encode(to_json(found)).decode()))
    else:
        for path, kind in found.differences:
            typer.echo(printable(f"{kind:10} {path}"))
    if found.why:
        raise fail(found.why, unended)
    note = f"{counted(found.counts)}, compared up to offset {found.offset}"
    more = sum(found.counts.values()) - len(found.differences)
    if more > 0:
        note += f"; {more} of them are not listed"
    if sum(found.counts.values()):
        note += "; nothing was written" if found.dry_run else "; written to ZooKeeper"
    typer.echo(note, err=as_json)
    for path, cause in found.refused.items():
        left_out = f"left out, as ZooKeeper refuses it: {path}: {cause}"
        typer.echo(printable(left_out), err=as_json)
    differs = found.dry_run and any(found.counts.values())
    raise typer.Exit(ExitCode.FOUND if differs or found.refused else ExitCode.DONE)


def to_json(found: ReconcileOutcome) -> dict[str, object]:
    """One object of the form ``zk-reconcile``."""
    return stamped(
        "zk-reconcile",
        {
            "dry_run": found.dry_run,
            "offset": found.offset,
            "counts": {kind: count for kind, count in sorted(found.counts.items()) if count},
            "differences": [{"path": path, "kind": kind} for path, kind in found.differences],
            "refused": [{"path": path, "cause": cause} for path, cause in found.refused.items()],
            "failed": found.why,
        },
    )


def counted(counts: Mapping[str, int]) -> str:
    """How many znodes differ, in words.

    >>> counted({"extra": 2, "missing": 0}), counted({})
    ('2 znodes differ (2 extra)', 'no znode differs')
    """
    total = sum(counts.values())
    if not total:
        return "no znode differs"
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()) if count)
    return f"{total} znode{'s' if total > 1 else ''} differ{'' if total > 1 else 's'} ({kinds})"


READINGS_MAX = 4
_CLAIM = (migration.PATH, own.PATH)
"""Each write of a controller changes one of them."""


class ZooKeeperUnreadableError(Exception):
    """ZooKeeper does not answer, or refuses us; the text says which and why."""


def read_tree(hosts: str, security: ZooKeeperSecurity = OPEN) -> Tree:
    """Read every znode that a migration reads.

    Raises:
        ZooKeeperUnreadableError: ZooKeeper does not answer, or not to us.
    """
    reader = TreeReader()
    with _connected(hosts, security) as client:
        while not reader.complete:
            for tag, request in reader.requests():
                values = [_read(client, read) for read in request.reads]
                reader.outcome(ZkResult(tag, values))
    return reader.tree


def read_some(
    hosts: str, security: ZooKeeperSecurity, paths: Iterable[str]
) -> dict[str, bytes | None]:
    """Read a few znodes; those that do not exist are left out.

    Raises:
        ZooKeeperUnreadableError: ZooKeeper does not answer, or not to us.
    """
    with _connected(hosts, security) as client:
        found = {path: _read(client, GetData(path)) for path in paths}
    return {path: one.data for path, one in found.items() if isinstance(one, NodeData)}


@contextlib.contextmanager
def _connected(hosts: str, security: ZooKeeperSecurity) -> Iterator[KazooClient]:
    try:
        zk_client.check_reachable(hosts)
        client = zk_client.client(hosts, security, timeout_s=CONNECT_TIMEOUT_S, read_only=True)
    except TlsError as error:
        raise ZooKeeperUnreadableError(str(error)) from error
    except KazooTimeoutError as error:
        because = zk_client.without_address(hosts, str(error))
        raise ZooKeeperUnreadableError(f"ZooKeeper at {hosts}: {because}") from error
    except ValueError as error:
        raise ZooKeeperUnreadableError(f"{hosts} is not host:port[,…][/chroot]: {error}") from error
    try:
        client.start(timeout=CONNECT_TIMEOUT_S)
        client.sync("/")
        yield client
    except (KazooException, KazooTimeoutError) as error:
        because = zk_client.why(client) or str(error) or type(error).__name__
        raise ZooKeeperUnreadableError(f"ZooKeeper at {hosts}: {because}") from error
    finally:
        client.stop()
        client.close()


def _read(client: KazooClient, read: object) -> ReadValue:
    path = read.path  # type: ignore[attr-defined]  # every read has a path
    if not isinstance(read, GetChildren):
        return zk_client.value_of(client, path)
    try:
        return tuple(client.get_children(path))
    except NoNodeError:
        return ReadFailed(ZkCode.NO_NODE)


def compare(
    hosts: str, folder: Path, security: ZooKeeperSecurity = OPEN
) -> tuple[list[Difference], str]:
    """Name every znode that differs from the metadata log in ``folder``.

    Znodes are read one after the other. If a controller wrote meanwhile, what differs may be that
    alone, and all is read again, at most :data:`READINGS_MAX` times.

    Returns:
        The differences, and a sentence with the offset of each store (lag is a difference too).

    Raises:
        FolderUnreadableError: the folder cannot be read.
        ZooKeeperUnreadableError: ZooKeeper cannot be read, or this path of it is no cluster's.
    """
    for _ in range(READINGS_MAX):
        try:
            before = read_some(hosts, security, _CLAIM)
        except ZooKeeperUnreadableError:
            open_log(folder)  # if both cannot be read, the folder's error is raised
            raise
        found, note = _compared(hosts, folder, security)
        if migration.PATH not in before:
            _check_of_a_cluster(hosts, security)
        if not found or read_some(hosts, security, _CLAIM) == before:
            return found, note
    return found, f"{note}; a controller wrote meanwhile, so what is listed may be on its way"


def _check_of_a_cluster(hosts: str, security: ZooKeeperSecurity) -> None:
    """Refuse a path without a cluster, at which every znode of the log would be missing.

    Raises:
        ZooKeeperUnreadableError: nothing of Kafka is there.
    """
    if cluster.PATH in read_some(hosts, security, [cluster.PATH]):
        return
    servers, slash, _ = hosts.partition("/")
    hint = "Is its chroot right" if slash else f"Is the chroot missing ({servers}/kafka)"
    raise ZooKeeperUnreadableError(
        f"NOT COMPARED: ZooKeeper at {hosts} has neither {cluster.PATH} nor {migration.PATH}. "
        f"{hint}? See zookeeper.connect in the controller's file"
    )


def _compared(
    hosts: str, folder: Path, security: ZooKeeperSecurity
) -> tuple[list[Difference], str]:
    meta, raft = open_log(folder)
    tree = read_tree(hosts, security)
    mine = own.try_parse(tree.data(own.PATH))
    claim = Claim(meta.node_id, raft.leader_epoch, -1 if mine is None else mine.zk_epoch)
    migration_data = tree.data(migration.PATH)
    offset = _migration_znode(migration_data).kraft_metadata_offset
    image = committed_image(
        raft, folder, shown_committed(raft, migration_data, tree.data(own.PATH))
    )
    note = f"/migration is at offset {offset}, {ends(raft, image.offset)}"
    return list(differences(tree, image, claim)), note


def shown_committed(raft: Raft, migration_data: bytes | None, own_data: bytes | None) -> int:
    """The offset below which ZooKeeper shows the log to be committed: it has nothing else.

    0 if the two znodes name nothing that the log holds.
    """
    mark, mine = _migration_znode(migration_data), own.try_parse(own_data)
    named = [(mark.kraft_metadata_offset, mark.kraft_metadata_epoch)]
    if mine is not None and mine.digest and raft.digest_at(own.log_at(mine)[0]) == mine.digest:
        named.append(own.log_at(mine))
    return max(offset + 1 if raft.epoch_at(offset) == epoch else 0 for offset, epoch in named)


def _migration_znode(data: bytes | None) -> migration.MigrationZnode:
    try:
        return migration.parse(data)
    except ZnodeError:
        return migration.INITIAL


def ends(raft: Raft, offset: int) -> str:
    """Up to where the folder was compared."""
    if offset + 1 == raft.log_end_offset:
        return f"the log ends with offset {offset}"
    return f"the log is known to be committed up to offset {offset}, and was compared up to there"
