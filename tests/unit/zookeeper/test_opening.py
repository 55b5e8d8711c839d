"""What a connection says before it serves, against a server that answers by hand."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from emulator.config.zookeeper import ZooKeeperLogin, ZooKeeperSecurity
from emulator.seam import Closed, Connect, Connected, Received, Send
from emulator.zookeeper import jute
from emulator.zookeeper.channel import AuthError, Channel, Opening
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.jute import JuteError
from emulator.zookeeper.ops import Create
from emulator.zookeeper.states import Step
from tests.unit.zookeeper.world import World

CHALLENGE = b'realm="zk-sasl-md5",nonce="n",charset=utf-8,algorithm=md5-sess'
EVERYTHING = ZooKeeperSecurity(
    sasl=ZooKeeperLogin("kafka", "secret"), digest=ZooKeeperLogin("me", "word")
)


class Server:
    """Takes requests apart and answers the oldest of them."""

    def __init__(self, security: ZooKeeperSecurity, *, chroot: str = "", closes: bool = False):
        self.channel = Channel(1, chroot, 0)
        self.opening = Opening(self.channel, security, chroot, lambda: "c0ffee", closes=closes)
        self.asked: list[tuple[int, int]] = []  # (xid, opcode) not answered yet
        self.opcodes: list[int] = []
        self.bodies: list[bytes] = []
        self.take(self.opening.begin(0))

    def take(self, data: bytes) -> None:
        while data:
            size, xid, opcode = struct.unpack_from(">iii", data)
            self.bodies.append(data[12 : 4 + size])
            self.opcodes.append(opcode)
            self.asked.append((xid, opcode))
            data = data[4 + size :]

    def answer(self, body: bytes = b"", code: int = 0) -> None:
        xid, _ = self.asked.pop(0)
        frame = struct.pack(">iqi", xid, 7, code) + body
        answered = self.channel.reply(frame)
        assert answered is not None
        step, value = answered
        assert isinstance(step, Step)
        self.take(self.opening.answer(step, value, 0))

    def token(self, token: bytes | None) -> None:
        self.answer(struct.pack(">i", -1) if token is None else _buffer(token))


def _buffer(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


STAT = b"\0" * 68


def test_everything_in_its_order() -> None:
    server = Server(EVERYTHING, chroot="/k")
    assert server.bodies == [_buffer(b"")], "the first token is empty"
    server.token(CHALLENGE)
    assert server.opcodes == [jute.OP_SASL, jute.OP_SASL]
    server.token(b"rspauth=" + _expected(server).encode())
    assert server.asked == [(jute.XID_AUTH, jute.OP_AUTH)]
    assert server.bodies[-1] == struct.pack(">i", 0) + _buffer(b"digest") + _buffer(b"me:word")
    server.answer()
    assert server.opcodes[3:] == [jute.OP_SYNC, jute.OP_EXISTS]
    server.answer(_buffer(b"/k"))
    assert not server.opening.done
    server.answer(code=ZkCode.NO_NODE)
    assert server.opcodes[5:] == [jute.OP_CREATE]
    server.answer(_buffer(b"/k"))
    assert server.opening.done


def _expected(server: Server) -> str:
    return server.opening._sasl._expected


def test_an_old_session_is_closed_by_who_has_logged_in() -> None:
    """An ensemble that demands a login would take the closing itself for a stranger's."""
    server = Server(ZooKeeperSecurity(digest=ZooKeeperLogin("me", "word")), closes=True)
    assert server.opcodes == [jute.OP_AUTH]
    server.answer()
    assert server.opcodes == [jute.OP_AUTH, jute.OP_CLOSE_SESSION]
    assert not server.opening.done
    server.answer()
    assert server.opening.done


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([lambda s: s.answer(code=ZkCode.AUTH_FAILED)], r"refuses the user kafka \(AUTH_FAILED\)"),
        (
            [
                lambda s: s.token(CHALLENGE),
                lambda s: s.answer(code=ZkCode.SESSION_CLOSED_REQUIRE_AUTH),
            ],
            r"refuses the user kafka \(SESSION_CLOSED_REQUIRE_AUTH\)",
        ),
        ([lambda s: s.token(None)], "the server does not support it"),
        ([lambda s: s.token(b"realm=x")], "as kafka: the challenge has no nonce"),
        (
            [lambda s: s.token(CHALLENGE), lambda s: s.token(b"rspauth=0")],
            "does not prove that it knows",
        ),
    ],
)
def test_a_login_that_fails_is_named_without_its_password(
    answers: list[Callable[[Server], None]], why: str
) -> None:
    server = Server(EVERYTHING)
    *before, last = answers
    for answer in before:
        answer(server)
    with pytest.raises(AuthError, match=why) as error:
        last(server)
    assert "secret" not in str(error.value)
    assert not server.opening.done


def test_addauth_and_the_chroot_can_be_refused() -> None:
    server = Server(ZooKeeperSecurity(digest=ZooKeeperLogin("me", "word")), chroot="/k")
    with pytest.raises(AuthError, match=r"digest: ZooKeeper refuses the user me \(AUTH_FAILED\)"):
        server.answer(code=ZkCode.AUTH_FAILED)
    server = Server(ZooKeeperSecurity(), chroot="/k")
    server.answer(_buffer(b"/k"))
    server.answer(code=ZkCode.NO_NODE)
    with pytest.raises(JuteError, match="the chroot /k: NO_AUTH"):
        server.answer(code=ZkCode.NO_AUTH)


def test_a_demand_to_log_in_is_understood() -> None:
    server = Server(ZooKeeperSecurity())
    with pytest.raises(JuteError, match="another kind of login"):
        server.answer(code=ZkCode.SESSION_CLOSED_REQUIRE_AUTH)


# ---------------------------------------------------------------- the client around it
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda conn: Received(conn, b"\x15\x03\x03\x00\x02\x02\x46"), "speaks TLS at this port"),
        (lambda conn: Closed(conn, "closed by peer"), "it expects TLS at this port"),
    ],
)
def test_a_port_that_wants_tls_is_recognised(answer: Callable[[int], object], why: str) -> None:
    world = World()
    world.silent = {2181}
    world.start()
    conn = next(e.conn for e in world.log if isinstance(e, Connect))
    assert any(isinstance(e, Send) for e in world.log)
    world.client.handle(answer(conn), world.now_ms)  # type: ignore[arg-type]
    assert why in world.client.servers.down.why


def test_a_server_that_is_behind_what_was_seen_is_recognised() -> None:
    """ZooKeeper was restored: it hangs up on clients that have seen later transactions."""
    world = World().start()
    world.ask(Create("/made", b""))
    seen = world.client._last_zxid
    assert seen > 0
    world.silent = {2181}
    world.cut()
    world.advance(2_000)
    conn = [e.conn for e in world.log if isinstance(e, Connect)][-1]
    world.client.handle(Closed(conn, "closed by peer"), world.now_ms)
    why = world.client.servers.down.why
    assert f"it is behind transaction {seen:#x}" in why
    assert "restart this process" in why
    assert "TLS" not in why


def test_a_client_with_tls_asks_for_it() -> None:
    from emulator.config.tls import TlsSettings
    from emulator.config.zookeeper import TLS

    world = World(security=ZooKeeperSecurity(tls=TlsSettings()))
    (connect,) = world.client.start(0)
    assert isinstance(connect, Connect)
    assert connect.tls == TLS
    assert world.client.handle(Connected(connect.conn), 0)
    (plain,) = World().client.start(0)
    assert isinstance(plain, Connect)
    assert plain.tls == ""
