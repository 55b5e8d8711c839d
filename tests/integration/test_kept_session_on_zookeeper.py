"""A session that is kept over a lost connection, and watches, by a real ZooKeeper."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from emulator.servers.fault_proxy import FaultProxy
from emulator.servers.waiting import PATIENCE_S, wait_for
from emulator.servers.zookeeper import ZooKeeper
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import (
    EPHEMERAL,
    Create,
    Exists,
    GetChildren,
    GetData,
    WatchFired,
    WatchKind,
    ZkFailed,
)
from tests.integration.zookeeper_wire import Wire

pytestmark = pytest.mark.jvm


def fired(wire: Wire) -> WatchFired:
    end = time.monotonic() + PATIENCE_S
    while not (seen := wire.client.take_fired()):
        assert time.monotonic() < end
        wire.pump()
    return seen[0]


def test_ephemerals_outlive_a_lost_connection(
    zookeeper: ZooKeeper, zk_client: KazooClient, fault_proxy: Callable[..., FaultProxy]
) -> None:
    wire = Wire(fault_proxy(zookeeper.port).port, session_timeout_ms=30_000, keeps_session=True)
    wire.ask(Create("/kept", b"", flags=EPHEMERAL))
    session = wire.client.session_id
    wire.drop(wire.conn, "cut by test")
    wire.until_connected()
    assert wire.client.session_id == session
    assert zk_client.exists("/kept").ephemeralOwner == session
    wire.end()


def test_a_session_that_expired_meanwhile_is_replaced(
    zookeeper: ZooKeeper, zk_client: KazooClient, fault_proxy: Callable[..., FaultProxy]
) -> None:
    proxy = fault_proxy(zookeeper.port)
    wire = Wire(proxy.port, session_timeout_ms=1_000, keeps_session=True)
    wire.ask(Create("/gone", b"", flags=EPHEMERAL))
    session = wire.client.session_id
    proxy.freeze()
    wait_for("the end of the session", lambda: zk_client.exists("/gone") is None)
    proxy.cut()
    proxy.thaw()
    wire.until_connected()
    end = time.monotonic() + PATIENCE_S
    while wire.client.session_id in {0, session}:
        assert time.monotonic() < end
        wire.pump()
    wire.until_connected()
    assert zk_client.exists("/gone") is None
    wire.end()


@pytest.mark.parametrize("chroot", ["", "/below"])
def test_watches_report_what_another_client_does(
    zookeeper: ZooKeeper, zk_client: KazooClient, chroot: str
) -> None:
    wire = Wire(zookeeper.port, chroot=chroot, keeps_session=True)
    path = "/watched"
    assert wire.ask(Exists(path, watch=True)) == ZkFailed("ask", ZkCode.NO_NODE, -1)
    zk_client.create(chroot + path, b"1")
    assert fired(wire) == WatchFired(path, WatchKind.CREATED)
    wire.ask(GetData(path, watch=True))
    zk_client.set(chroot + path, b"2")
    assert fired(wire) == WatchFired(path, WatchKind.CHANGED)
    wire.ask(GetChildren(path, watch=True))
    zk_client.create(f"{chroot}{path}/child", b"")
    assert fired(wire) == WatchFired(path, WatchKind.CHILDREN_CHANGED)
    zk_client.delete(f"{chroot}{path}/child")
    wire.ask(GetData(path, watch=True))
    zk_client.delete(chroot + path)
    assert fired(wire) == WatchFired(path, WatchKind.DELETED)
    wire.end()
