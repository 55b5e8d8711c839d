"""What the client says about its session, and what a real ZooKeeper then knows of it."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient

from emulator.config.zookeeper import ZooKeeperLogin, ZooKeeperSecurity
from emulator.servers.fault_proxy import FaultProxy, Kind
from emulator.servers.ports import HOST, free_port
from emulator.servers.zookeeper import Secured, ZooKeeper
from emulator.zookeeper import jute
from emulator.zookeeper.ops import (
    EPHEMERAL,
    Create,
    Exists,
    GetChildren,
    GetData,
    MultiRead,
    ZkOutcome,
    ZkResult,
)
from tests.integration.zookeeper_wire import Wire

pytestmark = pytest.mark.jvm

MINE = "/of-the-session"
"""An ephemeral znode: it is there as long as the session that made it lives."""


def pump(wire: Wire, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        wire.pump()


def cut(wire: Wire) -> None:
    wire.drop(wire.conn, "cut by test")


@pytest.mark.requirement("W07")
@pytest.mark.parametrize("kind", [Kind.LOSE_REQUEST, Kind.LOSE_REPLY])
def test_a_fence_that_is_cut_is_begun_again(
    zookeeper: ZooKeeper,
    zk_client: KazooClient,
    fault_proxy: Callable[..., FaultProxy],
    kind: Kind,
) -> None:
    """The next session serves only when ZooKeeper has ended the one before."""
    proxy = fault_proxy(zookeeper.port)
    wire = Wire(proxy.port, session_timeout_ms=30_000)
    wire.ask(Create(MINE, b"", flags=EPHEMERAL))
    closing = proxy.plan(kind, jute.OP_CLOSE_SESSION)
    cut(wire)
    wire.until_connected()
    assert closing.struck
    assert zk_client.exists(MINE) is None
    assert wire.client.fenced
    wire.end()


@pytest.mark.requirement("W07")
def test_a_fence_that_is_cut_before_its_handshake_is_begun_again(
    zookeeper: ZooKeeper, zk_client: KazooClient, fault_proxy: Callable[..., FaultProxy]
) -> None:
    proxy = fault_proxy(zookeeper.port)
    wire = Wire(proxy.port, session_timeout_ms=30_000)
    wire.ask(Create(MINE, b"", flags=EPHEMERAL))
    proxy.freeze()
    cut(wire)
    pump(wire, 0.2)
    assert not wire.client.connected
    proxy.cut()
    proxy.thaw()
    wire.until_connected()
    assert zk_client.exists(MINE) is None
    wire.end()


@pytest.mark.requirement("W07")
def test_a_fence_that_finds_a_server_down_is_begun_at_the_next_one(
    zookeeper: ZooKeeper, zk_client: KazooClient
) -> None:
    wire = Wire(zookeeper.port, free_port(), session_timeout_ms=30_000)
    wire.ask(Create(MINE, b"", flags=EPHEMERAL))
    cut(wire)
    assert wire.client.server != zookeeper.hosts
    wire.until_connected()
    assert wire.client.server == zookeeper.hosts
    assert zk_client.exists(MINE) is None
    wire.end()


@pytest.mark.requirement("W07")
def test_a_server_that_lacks_what_we_have_seen_is_not_believed(
    zookeeper: ZooKeeper,
    zk_client: KazooClient,
    make_zookeeper: Callable[..., ZooKeeper],
    fault_proxy: Callable[..., FaultProxy],
) -> None:
    """A server that lags, or was emptied, does not know our session: that does not end it."""
    emptied = make_zookeeper(fsync=False)
    proxy = fault_proxy(zookeeper.port)
    wire = Wire(proxy.port, session_timeout_ms=30_000)
    wire.ask(Create(MINE, b"", flags=EPHEMERAL))
    proxy.target_port = emptied.port
    cut(wire)
    pump(wire, 1)
    assert not wire.client.connected
    assert zk_client.exists(MINE) is not None
    proxy.target_port = zookeeper.port
    wire.until_connected()
    assert zk_client.exists(MINE) is None
    wire.end()


def test_the_servers_session_timeout_counts(make_zookeeper: Callable[..., ZooKeeper]) -> None:
    """It grants no less than its least: a silence that is short for it is no loss."""
    server = make_zookeeper(fsync=False, tick_ms=3_000)
    wire = Wire(server.port, session_timeout_ms=300)
    with server.paused():
        wire.submit("w", Create("/w", b""))
        pump(wire, 0.7)
    assert wire.collect(1) == [ZkResult("w", "/w")]
    assert wire.client.generation == 1
    wire.end()


def test_reading_leaves_no_watch(zookeeper: ZooKeeper) -> None:
    wire = Wire(zookeeper.port)
    wire.ask(Create("/read", b""))
    for request in (
        GetData("/read"),
        GetChildren("/read"),
        Exists("/read"),
        MultiRead((GetData("/read"), GetChildren("/read"))),
    ):
        assert isinstance(wire.ask(request), ZkResult)
    assert b"Total watches:0" in four_letters(zookeeper.port, b"wchs")
    wire.end()


def test_an_answer_may_be_longer_than_any_request(zookeeper: ZooKeeper) -> None:
    """A server limits what it is sent, not what it answers."""
    wire = Wire(zookeeper.port)
    paths = [f"/large-{number}" for number in range(3)]
    for path in paths:
        wire.ask(Create(path, b"x" * 600_000))
    found = value(wire.ask(MultiRead(tuple(map(GetData, paths)))))
    assert [len(one.data) for one in found] == [600_000] * 3
    wire.end()


def four_letters(port: int, word: bytes) -> bytes:
    with socket.create_connection((HOST, port), 300) as conn:
        conn.sendall(word)
        return b"".join(iter(lambda: conn.recv(4_096), b""))


# ---------------------------------------------------------------- below a chroot
def test_every_request_means_the_same_below_a_chroot(
    zookeeper: ZooKeeper, zk_client: KazooClient
) -> None:
    zk_client.create("/a", b"not ours")
    wire = Wire(zookeeper.port, chroot="/kafka/one")
    assert wire.ask(Create("/a", b"ours")) == ZkResult("ask", "/a")
    wire.ask(Create("/a/b", b""))
    both = MultiRead((GetChildren("/"), GetData("/a"), GetChildren("/a")))
    top, found, below = value(wire.ask(both))
    assert (top, found.data, below) == (("a",), b"ours", ("b",))
    assert value(wire.ask(GetChildren("/"))) == ("a",)
    assert value(wire.ask(GetData("/a"))).data == b"ours"
    assert value(wire.ask(Exists("/a"))).children_count == 1
    wire.end()


def value(outcome: ZkOutcome) -> Any:
    assert isinstance(outcome, ZkResult), outcome
    return outcome.value


# ---------------------------------------------------------------- who we are
@pytest.mark.requirement("C10")
def test_the_chroot_that_we_make_is_ours(zookeeper: ZooKeeper, zk_client: KazooClient) -> None:
    """Every znode on the way to it: else others may delete what is below."""
    login = ZooKeeperSecurity(digest=ZooKeeperLogin("kafka", "secret"), set_acl=True)
    wire = Wire(zookeeper.port, chroot="/owned/below", security=login)
    assert wire.client.connected
    for path in ("/owned", "/owned/below"):
        acls, _ = zk_client.get_acls(path)
        kept = {(acl.perms, acl.id.scheme, acl.id.id.partition(":")[0]) for acl in acls}
        assert kept == {(31, "digest", "kafka"), (1, "world", "anyone")}
    wire.end()


@pytest.mark.requirement("C10")
def test_a_real_server_takes_our_login(make_zookeeper: Callable[..., ZooKeeper]) -> None:
    """And takes it again for the session that is only reattached to be closed."""
    server = make_zookeeper(fsync=False, secured=Secured(users={"kafka": "secret"}))
    login = ZooKeeperSecurity(sasl=ZooKeeperLogin("kafka", "secret"), set_acl=True)
    wire = Wire(server.port, security=login)
    assert wire.ask(Create("/owned", b"")) == ZkResult("ask", "/owned")
    cut(wire)
    wire.until_connected()
    assert wire.client.fenced
    assert isinstance(wire.ask(GetData("/owned")), ZkResult)
    wire.end()
