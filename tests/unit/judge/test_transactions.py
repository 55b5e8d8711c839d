"""ZooKeeper's transaction log is read as it is written, and two writers in it are seen."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence

import pytest

from bench.judge.transactions import (
    CONTROLLER,
    EPOCH,
    MIGRATION,
    OURS,
    Transaction,
    Write,
    claims,
    parse,
    two_writers,
)

OLD, NEW, BROKER = 17, -(2**60), 99
STATE = "/brokers/topics/t/partitions/0/state"


def text(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def of_session(session: int, zxid: int, kind: int, body: bytes) -> bytes:
    """One entry of a log: checksum, length, header and body, end of record."""
    record = struct.pack(">qiqqi", session, 1, zxid, 1_700_000_000_000, kind) + body
    return struct.pack(">qi", 0, len(record)) + record + b"B"


def multi(*operations: tuple[int, bytes]) -> bytes:
    inner = b"".join(struct.pack(">i", kind) + text(body) for kind, body in operations)
    return struct.pack(">i", len(operations)) + inner


def created(path: str, data: bytes) -> bytes:
    acl = struct.pack(">ii", 1, 31) + text(b"world") + text(b"anyone")
    return text(path.encode()) + text(data) + acl + b"\0" + struct.pack(">i", 1)


def put(path: str, data: bytes, version: int) -> bytes:
    return text(path.encode()) + text(data) + struct.pack(">i", version)


FILE = b"ZKLG" + struct.pack(">iq", 2, 0)
PADDING = bytes(64)


def test_every_kind_of_entry_is_read_back():
    log = FILE + b"".join(
        (
            of_session(1, 1, -10, struct.pack(">i", 40_000)),
            of_session(1, 2, 1, created("/a", b"x")),
            of_session(1, 3, 5, put("/a", b"y", 1)),
            of_session(NEW, 4, 2, text(b"/a")),
            of_session(1, 5, -1, struct.pack(">i", -110)),
            of_session(1, 6, 14, multi((13, text(b"/c") + struct.pack(">i", 4)), (2, text(b"/b")))),
            of_session(1, 7, 14, multi((-1, struct.pack(">i", -103)), (-1, struct.pack(">i", -2)))),
            of_session(1, 8, -11, b""),
        )
    )
    assert list(parse(log + PADDING)) == [
        Transaction(2, 1, (Write("create", "/a", b"x", 0),)),
        Transaction(3, 1, (Write("set", "/a", b"y", 1),)),
        Transaction(4, NEW, (Write("delete", "/a"),)),
        Transaction(5, 1, (), -110),
        Transaction(6, 1, (Write("check", "/c", b"", 4), Write("delete", "/b"))),
        Transaction(7, 1, (), -103),
    ]


def test_what_is_half_written_is_left_out_and_another_file_is_refused():
    log = FILE + of_session(1, 2, 2, text(b"/a")) + of_session(1, 3, 2, text(b"/b"))
    for cut in range(len(log) - len(of_session(1, 3, 2, text(b"/b"))), len(log)):
        assert [one.zxid for one in parse(log[:cut] + PADDING * (cut % 2))][:1] == [2]
    assert len(list(parse(log[:-1]))) == 1
    with pytest.raises(ValueError, match="not a transaction log"):
        list(parse(b"SNAP" + log[4:]))


def claim(zxid: int, session: int, node: int, epoch: int) -> Transaction:
    holder = {"version": 2, "brokerid": node, "timestamp": "1", "kraftControllerEpoch": epoch}
    writes = (
        Write("set", EPOCH, str(epoch + 10).encode(), epoch),
        Write("delete", CONTROLLER),
        Write("create", CONTROLLER, json.dumps(holder).encode(), 0),
        own(node, epoch),
    )
    return Transaction(zxid, session, writes)


def own(node: int, epoch: int) -> Write:
    return Write("set", OURS, json.dumps({"node_id": node, "zk_epoch": epoch + 10}).encode(), 1)


def change(zxid: int, session: int, node: int, epoch: int, error: int = 0) -> Transaction:
    writes = (Write("set", STATE, b"", 1), own(node, epoch), Write("set", MIGRATION, b"{}", 1))
    return Transaction(zxid, session, () if error else writes, error)


def story(*last: Transaction) -> Sequence[Transaction]:
    return [
        Transaction(1, BROKER, (Write("create", "/brokers", b"", 0),)),
        claim(2, OLD, 3000, 1),
        change(3, OLD, 3000, 1),
        claim(4, NEW, 3001, 2),
        change(5, NEW, 3001, 2),
        *last,
    ]


@pytest.mark.parametrize(
    "last",
    [
        (),
        (change(6, OLD, 3000, 1, error=-103),),
        (Transaction(6, BROKER, (Write("create", "/brokers/ids/1", b"", 0),)),),
        (Transaction(6, OLD, (Write("check", EPOCH, b"", 2),)),),
        (claim(6, OLD, 3000, 3), change(7, OLD, 3000, 3)),
    ],
    ids=["nothing", "refused", "a broker registers", "a look", "claims again"],
)
def test_one_writer_at_a_time(last):
    assert two_writers(story(*last)) == []


@pytest.mark.parametrize(
    "last",
    [
        change(6, OLD, 3000, 1),
        change(6, BROKER, 3001, 2),
        change(6, NEW, 3001, 1),
        change(6, NEW, 3000, 2),
        Transaction(6, OLD, (Write("delete", STATE),)),
        Transaction(6, OLD, (Write("set", EPOCH, b"13", 3),)),
    ],
    ids=["the old one", "a third", "an old epoch", "another node", "a deletion", "no claim"],
)
def test_a_second_writer_is_named(last):
    lines = two_writers(story(last))
    assert lines
    assert all(line.startswith("0x6: ") for line in lines)


def test_claims_are_those_of_kraft_controllers_that_were_applied():
    holder = json.dumps({"version": 1, "brokerid": 1, "timestamp": "1"}).encode()
    of_broker = (Write("set", EPOCH, b"1", 1), Write("create", CONTROLLER, holder, 0))
    found = claims([*story(), Transaction(6, 5, of_broker), Transaction(7, OLD, (), -103)])
    assert [(one.zxid, one.node_id, one.kraft_epoch, one.zk_epoch) for one in found] == [
        (2, 3000, 1, 11),
        (4, 3001, 2, 12),
    ]
