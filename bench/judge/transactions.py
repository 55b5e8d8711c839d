"""ZooKeeper's own transaction log: the writer and order of each write, and refused writes.

Read from the files of a server, by rules implemented for this alone: the code that wrote is not
asked what it wrote.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_HEADER_BYTES: Final = 16
_MAGIC: Final = b"ZKLG"
_CREATE, _DELETE, _SET, _CHECK, _MULTI = 1, 2, 5, 13, 14
_CREATES: Final = {_CREATE, 15, 19, 21}
_ERROR: Final = -1
EPOCH, CONTROLLER, MIGRATION, OURS = (
    "/controller_epoch",
    "/controller",
    "/migration",
    "/kraft_bridge",
)
BROKERS_OWN: Final = ("/brokers/ids", "/brokers/seqid")
"""Znodes that brokers in ZooKeeper mode write themselves, under any controller."""


@dataclass(frozen=True, slots=True)
class Write:
    """One operation. ``version``: of the znode after it, -1 for a deletion."""

    kind: str
    """``create``, ``delete``, ``set`` or ``check``."""
    path: str
    data: bytes = b""
    version: int = -1


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction as ZooKeeper logged it; one that was refused changed nothing."""

    zxid: int
    session: int
    writes: tuple[Write, ...]
    error: int = 0
    """Code of the first operation that was refused, such as -103; 0: applied."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A transaction in which a KRaft controller took ``/controller``."""

    zxid: int
    session: int
    node_id: int
    kraft_epoch: int
    zk_epoch: int
    epoch_version: int
    """Version of ``/controller_epoch`` after it."""


class _Jute:
    """Reads a record of the log."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        (value,) = struct.unpack_from(">i", self._data, self._at)
        self._at += 4
        return int(value)

    def long(self) -> int:
        (value,) = struct.unpack_from(">q", self._data, self._at)
        self._at += 8
        return int(value)

    def buffer(self) -> bytes:
        size = max(0, self.number())
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self) -> str:
        return self.buffer().decode()


def read(folder: Path) -> list[Transaction]:
    """All transactions of a server, oldest first; sessions that begin and end are left out.

    Args:
        folder: its ``dataDir``. The server may be running: what is half written is left out.

    Raises:
        ValueError: a file is no transaction log.
    """
    files = sorted((folder / "version-2").glob("log.*"), key=lambda file: int(file.suffix[1:], 16))
    return [one for file in files for one in parse(file.read_bytes())]


def parse(log: bytes) -> Iterator[Transaction]:
    """The transactions of one file.

    Raises:
        ValueError: it is no transaction log.
    """
    if log[:4] != _MAGIC:
        raise ValueError("not a transaction log of ZooKeeper")
    at = _HEADER_BYTES
    while at + 12 <= len(log):
        (size,) = struct.unpack_from(">i", log, at + 8)
        if size <= 0 or at + 12 + size >= len(log):
            return
        found = _transaction(_Jute(log[at + 12 : at + 12 + size]))
        if found is not None:
            yield found
        at += 12 + size + 1


def _transaction(jute: _Jute) -> Transaction | None:
    session, _, zxid, _, kind = (
        jute.long(),
        jute.number(),
        jute.long(),
        jute.long(),
        jute.number(),
    )
    if kind == _ERROR:
        return Transaction(zxid, session, (), jute.number())
    if kind != _MULTI:
        write = _write(kind, jute)
        return None if write is None else Transaction(zxid, session, (write,))
    writes, error = [], 0
    for _ in range(jute.number()):
        inner, body = jute.number(), _Jute(jute.buffer())
        if inner == _ERROR:
            error = error or body.number()
        elif (write := _write(inner, body)) is not None:
            writes.append(write)
    return Transaction(zxid, session, tuple(writes), error)


def _write(kind: int, jute: _Jute) -> Write | None:
    if kind in _CREATES:
        return Write("create", jute.text(), jute.buffer(), 0)
    if kind == _DELETE:
        return Write("delete", jute.text())
    if kind == _SET:
        return Write("set", jute.text(), jute.buffer(), jute.number())
    if kind == _CHECK:
        return Write("check", jute.text(), b"", jute.number())
    return None


def claims(transactions: Sequence[Transaction]) -> list[Claim]:
    """The claims of KRaft controllers that were applied, in order."""
    found = []
    for one in transactions:
        changed = {write.path: write for write in one.writes if write.kind != "delete"}
        if one.error or not {EPOCH, CONTROLLER} <= changed.keys():
            continue
        holder = json.loads(changed[CONTROLLER].data)
        if holder.get("kraftControllerEpoch", -1) >= 0:
            epoch = changed[EPOCH]
            found.append(
                Claim(
                    one.zxid,
                    one.session,
                    holder["brokerid"],
                    holder["kraftControllerEpoch"],
                    int(epoch.data),
                    epoch.version,
                )
            )
    return found


def two_writers(transactions: Sequence[Transaction]) -> list[str]:
    """One line for each transaction that was applied and is not by the claim in force.

    After a claim only its session may change what belongs to the controller, and what it writes to
    our own znode names the epoch of that claim.
    """
    wrong = []
    made = {claim.zxid: claim for claim in claims(transactions)}
    force: Claim | None = None
    for one in transactions:
        force = made.get(one.zxid, force)
        if force is None or one.error:
            continue
        paths = [
            write.path
            for write in one.writes
            if write.kind != "check" and not write.path.startswith(BROKERS_OWN)
        ]
        if paths and one.session != force.session:
            wrong.append(
                f"{one.zxid:#x}: session {one.session:#x} writes {paths[0]} under the claim of "
                f"node {force.node_id}, session {force.session:#x}"
            )
        for write in one.writes:
            if write.path == OURS and write.data:
                content = json.loads(write.data)
                if (content["node_id"], content["zk_epoch"]) != (force.node_id, force.zk_epoch):
                    wrong.append(f"{one.zxid:#x}: {OURS} names {content} under the claim {force}")
    return wrong
