"""One script of requests on a real ZooKeeper 3.9.5 and on the model: the same answers."""

from __future__ import annotations

import socket
import time

import pytest

from emulator.servers.waiting import PATIENCE_S
from emulator.servers.zookeeper import ZooKeeper
from emulator.zookeeper import jute
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import (
    EPHEMERAL,
    SEQUENTIAL,
    Check,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    MultiRead,
    NodeData,
    SetData,
    Stat,
    Sync,
    ZkFailed,
    ZkLost,
    ZkOutcome,
    ZkRequest,
    ZkResult,
    ZnodeAcl,
)
from tests.integration.zookeeper_wire import Wire
from tests.unit.zookeeper.world import World

pytestmark = pytest.mark.jvm


def plain(outcome: ZkOutcome, zxid: int) -> object:
    """An outcome without clock and with zxids counted from the first request."""

    def strip(value: object) -> object:
        match value:
            case Stat():
                return value._replace(
                    ctime_ms=0,
                    mtime_ms=0,
                    czxid=max(0, value.czxid - zxid),
                    mzxid=max(0, value.mzxid - zxid),
                    pzxid=max(0, value.pzxid - zxid),
                    ephemeral_owner=int(bool(value.ephemeral_owner)),
                )
            case NodeData(data=data, stat=stat):
                return data, strip(stat)
            case list():
                return [strip(one) for one in value]
            case tuple():
                return tuple(sorted(value))
        return value

    return strip(outcome.value) if isinstance(outcome, ZkResult) else outcome


SCRIPT: list[ZkRequest] = [
    Create("/r", b""),
    Create("/r", b""),
    Create("/r/no/parent", b""),
    Create("/r/null", None),
    Create("/r/a", b"1"),
    Exists("/r"),
    Exists("/nothing"),
    GetData("/r/null"),
    GetData("/r/a"),
    GetData("/nothing"),
    GetChildren("/r"),
    GetChildren("/nothing"),
    SetData("/r/a", b"2", 0),
    SetData("/r/a", b"2", 0),
    SetData("/r/a", None, -1),
    SetData("/nothing", b""),
    GetData("/r/a"),
    Delete("/r"),
    Delete("/r/a", 1),
    Delete("/nothing"),
    Delete("/"),
    Delete("/zookeeper"),
    Create("/r/s-", b"", flags=SEQUENTIAL),
    Create("/r/s-", b"", flags=SEQUENTIAL),
    Delete("/r/s-0000000003"),
    Exists("/r"),
    Create("/r/s-", b"", flags=SEQUENTIAL),
    Create("/r/", b"", flags=SEQUENTIAL),
    Create("/r/e", b"", flags=EPHEMERAL),
    Create("/r/e/child", b""),
    GetData("/r/e"),
    Create("/r/bad/", b""),
    Create("/r//bad", b""),
    Create("/r/./bad", b""),
    Create("/r/bad\u0001", b""),
    Create("/r/acl", b"", acl=()),
    Create("/r/acl", b"", acl=(ZnodeAcl(1, "world", "anyone"), ZnodeAcl(31, "world", "anyone"))),
    Create("/r/flags", b"", flags=9),
    Create("/r/über straße", "ß".encode()),
    GetChildren("/r"),
    Multi(()),
    Multi((Create("/m", b""), Create("/m/1", None), SetData("/m", b"x", 0), Check("/m", 1))),
    Exists("/m"),
    Multi((Create("/m/2", b""), Check("/m", 0), Create("/m/3", b""))),
    Multi((Check("/m", 0), Create("/m/3", b""))),
    Multi((Create("/m/2", b""), Create("/m/1", b""))),
    Multi((Create("/m/2", b""), Delete("/m"))),
    Multi((SetData("/m", b"y"), Check("/nothing", 0))),
    Exists("/m"),
    Multi((Delete("/m/1"), Create("/m/1", b"new"), SetData("/m/1", b"newer", 0))),
    GetData("/m/1"),
    Multi((Create("/m/q-", b"", flags=SEQUENTIAL), Create("/m/q-", b"", flags=SEQUENTIAL))),
    Multi((Delete("/m/1"), Delete("/m/q-0000000002"), Delete("/m/q-0000000003"), Delete("/m"))),
    GetData("/m"),
    MultiRead((GetData("/r/null"), GetData("/m"), GetChildren("/r"), GetChildren("/m"))),
    MultiRead(()),
    Sync("/r"),
    Sync("/nothing"),
    Exists("/zookeeper"),
]


def run(wire: Wire | World) -> list[object]:
    wire.ask(Create("/zero", b""))
    zero = wire.ask(Exists("/zero"))
    assert isinstance(zero, ZkResult)
    assert isinstance(zero.value, Stat)
    return [plain(wire.ask(request), zero.value.czxid) for request in SCRIPT]


def test_the_model_answers_like_zookeeper(zookeeper: ZooKeeper) -> None:
    wire = Wire(zookeeper.port)
    real = run(wire)
    model = run(World().start())
    differing = [
        (request, r, m) for request, r, m in zip(SCRIPT, real, model, strict=True) if r != m
    ]
    wire.end()
    assert differing == []


def test_cut_with_multis_in_flight_is_fenced_and_ends_in_a_clean_prefix(
    zookeeper: ZooKeeper,
) -> None:
    wire = Wire(zookeeper.port, max_in_flight=60)
    wire.ask(Create("/cut", b""))
    old = wire.client.session_id
    for i in range(50):
        ops = (Check("/cut", i), *(Create(f"/cut/{i}-{j}", b"x" * 100) for j in range(20)))
        wire.submit(i, Multi((*ops, SetData("/cut", b"", i))))
    sock = wire.sockets[wire.conn]
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # reset, not FIN
    conn = wire.conn
    wire.drop(conn, "reset by test")
    wire.until_connected()
    outcomes = wire.client.take_results()
    assert sorted(o.tag for o in outcomes) == list(range(50))  # type: ignore[type-var]
    assert all(isinstance(o, ZkLost | ZkResult) for o in outcomes)
    assert wire.client.fenced
    assert wire.client.session_id != old
    read = wire.ask(MultiRead((GetData("/cut"), GetChildren("/cut"))))
    assert isinstance(read, ZkResult)
    data, names = read.value  # type: ignore[misc]
    applied = data.stat.version
    assert sorted(names) == sorted(f"{i}-{j}" for i in range(applied) for j in range(20))
    time_before = data.stat.mtime_ms
    again = wire.ask(GetData("/cut"))
    assert isinstance(again, ZkResult)
    assert again.value.stat.mtime_ms == time_before  # type: ignore[union-attr]
    wire.end()


def test_the_frame_limit_is_the_servers(zookeeper: ZooKeeper) -> None:
    """Our limit is exactly accepted; one byte more, sent past the check, closes the connection."""
    wire = Wire(zookeeper.port)
    wire.ask(Create("/frame", b""))
    room = jute.FRAME_BYTES_MAX - (len(jute.encode_request(SetData("/frame", b""), 1)) - 4)
    assert isinstance(wire.ask(SetData("/frame", b"x" * room)), ZkResult)
    frame = jute.encode_request(SetData("/frame", b"y" * room), 9)
    too_long = (jute.FRAME_BYTES_MAX + 1).to_bytes(4, "big") + frame[4:] + b"y"
    wire.sockets[wire.conn].sendall(too_long)
    generation = wire.client.generation
    end = time.monotonic() + PATIENCE_S
    while wire.client.generation == generation:
        assert time.monotonic() < end
        wire.pump()
    wire.end()


def test_chroot_is_made_and_close_ends_the_session(zookeeper: ZooKeeper) -> None:
    wire = Wire(zookeeper.port, chroot="/some/where")
    assert wire.ask(Create("/e", b"", flags=EPHEMERAL)) == ZkResult("ask", "/e")
    other = Wire(zookeeper.port)
    assert isinstance(other.ask(GetData("/some/where/e")), ZkResult)
    wire.perform(wire.client.close(wire.now()))
    end = time.monotonic() + PATIENCE_S
    while wire.client.state.name != "CLOSED":
        assert time.monotonic() < end
        wire.pump()
    assert other.ask(GetData("/some/where/e")) == ZkFailed("ask", ZkCode.NO_NODE, -1)
    other.end()
