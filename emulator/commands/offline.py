"""A controller's folder and a ZooKeeper tree, read from outside for ``zk diff`` and ``log dump``.

Nothing is written; the controller may be running. ZooKeeper is read by KazooClient: interactive
tools have time, and it is not the code that wrote the tree.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import ZnodeStat

from emulator.commands import zookeeper_client
from emulator.config.zookeeper import OPEN, ZooKeeperSecurity
from emulator.io.tls import TlsError
from emulator.metadata.image import Image
from emulator.migration.tree_diff import Claim, Difference, differences
from emulator.migration.zk_tree import migration, own
from emulator.migration.zk_tree.errors import ZnodeError
from emulator.migration.zk_tree.reader import Tree, TreeReader
from emulator.node.recovery import load_history
from emulator.raft import layout
from emulator.raft.config import RaftConfig
from emulator.raft.errors import RecoveryError
from emulator.raft.format import MetaProperties, parse_meta_properties
from emulator.raft.machine import Raft
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import GetChildren, NodeData, ReadFailed, ReadValue, Stat, ZkResult
from wire.record_serde import decode_control, decode_record
from wire.text import uuid_text

CONNECT_TIMEOUT_S = 10.0


class OfflineError(Exception):
    """The folder or ZooKeeper cannot be read; the text says which and why."""


def open_log(folder: Path) -> tuple[MetaProperties, Raft]:
    """Read a controller's folder without taking its lock.

    Raises:
        OfflineError: not a formatted folder, or damaged.
    """
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith((".lock", ".part"))
    }
    data = files.get(layout.META_PROPERTIES)
    if data is None:
        raise OfflineError(f"{folder} has no meta.properties: not a formatted controller's folder")
    try:
        meta = parse_meta_properties(data)
        config = RaftConfig(meta.node_id, meta.cluster_id, {meta.node_id: ("", 0)})
        return meta, Raft(config, files, random.Random(0), 0)  # noqa: S311 - it draws nothing
    except RecoveryError as error:
        raise OfflineError(f"{folder}: {error}") from error


def dump_records(raft: Raft) -> Iterator[dict[str, Any]]:
    """Every record of the log in order: offset, epoch, type, version, data (bytes as base64)."""
    if raft.log_end_offset <= raft.log_start_offset:
        return
    for batch in raft.read(raft.log_start_offset, raft.log_end_offset - 1):
        for offset, (key, value) in enumerate(batch.records, batch.base_offset):
            version = 0
            if batch.is_control:
                record = decode_control(key, value)
            else:
                record, version = decode_record(value)
            yield {
                "offset": offset,
                "epoch": batch.leader_epoch,
                "type": type(record).__name__,
                "version": version,
                "data": _plain(record),
            }


def _plain(value: object) -> Any:
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(type(value))
        plain = {f.name: _plain(getattr(value, f.name)) for f in fields}
        if not plain.get("unknown_tags"):
            plain.pop("unknown_tags", None)
        return plain
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return uuid_text(value) if len(value) == 16 else base64.b64encode(value).decode()
    return value


def read_tree(hosts: str, security: ZooKeeperSecurity = OPEN) -> Tree:
    """Read every znode that a migration looks at.

    Raises:
        OfflineError: ZooKeeper does not answer, or not to us.
    """
    try:
        client = zookeeper_client.client(
            hosts, security, timeout_s=CONNECT_TIMEOUT_S, read_only=True
        )
    except TlsError as error:
        raise OfflineError(str(error)) from error
    except ValueError as error:
        raise OfflineError(f"{hosts} is not host:port[,…][/chroot]: {error}") from error
    try:
        client.start(timeout=CONNECT_TIMEOUT_S)
        client.sync("/")
        reader = TreeReader()
        while not reader.complete:
            for tag, request in reader.requests():
                values = [_read(client, read) for read in request.reads]
                reader.outcome(ZkResult(tag, values))
    except (KazooException, KazooTimeoutError) as error:
        because = zookeeper_client.why(client) or str(error) or type(error).__name__
        raise OfflineError(f"ZooKeeper at {hosts}: {because}") from error
    finally:
        client.stop()
        client.close()
    return reader.tree


def _read(client: KazooClient, read: object) -> ReadValue:
    path = read.path  # type: ignore[attr-defined]
    try:
        if isinstance(read, GetChildren):
            return tuple(client.get_children(path))
        data, stat = client.get(path)
    except NoNodeError:
        return ReadFailed(ZkCode.NO_NODE)
    return NodeData(data, _stat(stat))


def _stat(stat: ZnodeStat) -> Stat:
    return Stat(
        stat.czxid,
        stat.mzxid,
        stat.ctime,
        stat.mtime,
        stat.version,
        stat.cversion,
        stat.aversion,
        stat.ephemeralOwner,
        stat.dataLength,
        stat.numChildren,
        stat.pzxid,
    )


def compare(
    hosts: str, folder: Path, security: ZooKeeperSecurity = OPEN
) -> tuple[list[Difference], str]:
    """Name every znode that differs from the metadata log in ``folder``.

    Returns:
        The differences, and a sentence on how far each store stands (lag is a difference too).

    Raises:
        OfflineError: one of the two cannot be read.
    """
    meta, raft = open_log(folder)
    image = committed_image(raft, folder)
    tree = read_tree(hosts, security)
    mine = own.try_parse(tree.data(own.PATH))
    claim = Claim(meta.node_id, raft.leader_epoch, -1 if mine is None else mine.zk_epoch)
    try:
        offset = migration.parse(tree.data(migration.PATH)).kraft_metadata_offset
    except ZnodeError:
        offset = -1
    note = f"/migration stands at offset {offset}, the log ends with offset {image.offset}"
    return list(differences(tree, image, claim)), note


def committed_image(raft: Raft, folder: Path) -> Image:
    """The image of everything that may be shown: a quorum of one has committed what is durable.

    Raises:
        OfflineError: a record does not fit.
    """
    try:
        history = load_history(raft)
    except RecoveryError as error:
        raise OfflineError(f"{folder}: {error}") from error
    history.advance(raft.log_end_offset)
    return history.stable
