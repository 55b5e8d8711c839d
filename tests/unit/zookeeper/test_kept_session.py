"""A client that keeps its session over a lost connection, and its watches."""

from __future__ import annotations

import struct

import pytest

from emulator.simulation.models.zookeeper_watches import WatchedZooKeeper
from emulator.zookeeper import jute
from emulator.zookeeper.client import ZkState
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.ops import (
    EPHEMERAL,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    MultiRead,
    SetData,
    WatchFired,
    WatchKind,
    ZkFailed,
    ZkLost,
    ZkOp,
    ZkResult,
)
from tests.unit.zookeeper.world import World


def keeping() -> World:
    return World(keeps_session=True, model=WatchedZooKeeper).start()


def others_write(world: World, op: ZkOp) -> None:
    assert isinstance(world.model, WatchedZooKeeper)
    for answer in world.model.write(op, world.now_ms):
        world.perform(world.deliver(answer))


def test_a_lost_connection_leaves_the_session_and_its_ephemerals() -> None:
    world = keeping()
    world.ask(Create("/mine", b"", flags=EPHEMERAL))
    session = world.client.session_id
    world.cut()
    assert world.client.session_id == 0
    world.advance(2_000)
    assert world.client.connected
    assert world.client.session_id == session
    assert world.client.generation == 2
    assert "/mine" in world.model.tree.nodes


def test_the_same_client_without_the_wish_ends_its_session() -> None:
    """What the test above rests on: it is not the model that keeps sessions."""
    world = World(model=WatchedZooKeeper).start()
    world.ask(Create("/mine", b"", flags=EPHEMERAL))
    world.cut()
    world.advance(2_000)
    assert world.client.connected
    assert "/mine" not in world.model.tree.nodes


def test_an_expired_session_is_followed_by_a_new_one() -> None:
    world = keeping()
    world.ask(Create("/mine", b"", flags=EPHEMERAL))
    session = world.client.session_id
    for answer in world.model.expire(session):
        world.perform(world.deliver(answer))
    world.advance(2_000)
    assert world.client.connected
    assert world.client.session_id not in (0, session)
    assert "/mine" not in world.model.tree.nodes


def test_it_is_connecting_and_not_fencing_while_the_server_is_away() -> None:
    world = keeping()
    world.refusing.add(2181)
    world.cut()
    assert world.client.state is ZkState.CONNECTING
    world.submit("late", GetData("/"))
    assert world.client.take_results() == [ZkLost("late")]
    world.refusing.clear()
    world.advance(5_000)
    assert world.client.state is ZkState.CONNECTED


def test_close_ends_the_session_and_its_ephemerals() -> None:
    world = keeping()
    world.ask(Create("/mine", b"", flags=EPHEMERAL))
    world.perform(world.client.close(world.now_ms))
    assert world.client.state is ZkState.CLOSED
    assert "/mine" not in world.model.tree.nodes


@pytest.mark.parametrize("chroot", ["", "/kafka"])
def test_a_watch_of_data_fires_once_with_the_path_below_the_chroot(chroot: str) -> None:
    world = World(keeps_session=True, model=WatchedZooKeeper, chroot=chroot).start()
    world.ask(Create("/a", b"1"))
    world.ask(GetData("/a", watch=True))
    others_write(world, SetData(f"{chroot}/a", b"2"))
    others_write(world, SetData(f"{chroot}/a", b"3"))
    assert world.client.take_fired() == [WatchFired("/a", WatchKind.CHANGED)]
    assert world.client.take_fired() == []


def test_a_watch_of_existence_fires_at_creation_and_deletion() -> None:
    world = keeping()
    assert world.ask(Exists("/a", watch=True)) == ZkFailed("ask", ZkCode.NO_NODE, -1)
    others_write(world, Create("/a", b""))
    assert world.client.take_fired() == [WatchFired("/a", WatchKind.CREATED)]
    assert isinstance(world.ask(Exists("/a", watch=True)), ZkResult)
    others_write(world, Delete("/a"))
    assert world.client.take_fired() == [WatchFired("/a", WatchKind.DELETED)]


def test_reads_without_a_watch_set_none() -> None:
    world = keeping()
    world.ask(Create("/a", b"1"))
    world.ask(GetData("/a"))
    world.ask(Exists("/a"))
    others_write(world, SetData("/a", b"2"))
    assert world.client.take_fired() == []


def test_the_flag_of_a_watch_is_the_last_byte_of_a_read() -> None:
    for watching in (GetData("/a", watch=True), Exists("/a", watch=True)):
        assert jute.encode_request(watching, 1)[-1:] == b"\1"
    assert jute.encode_request(GetChildren("/a", watch=True), 1)[-1:] == b"\1"
    assert jute.encode_request(GetChildren("/a"), 1)[-1:] == b"\0"


def test_a_multi_read_refuses_watches_instead_of_dropping_them() -> None:
    with pytest.raises(ValueError, match="no watches"):
        jute.encode_request(MultiRead((GetData("/a", watch=True),)), 1)


@pytest.mark.parametrize("cut", [0, 3, 9])
def test_a_notice_that_ends_early_is_no_notice(cut: int) -> None:
    name = b"/a"
    whole = struct.pack(">iqiiii", -1, -1, 0, 3, 3, len(name)) + name
    with pytest.raises(jute.JuteError, match="notice of a watch"):
        jute.decode_watch(whole[: 16 + cut])


@pytest.mark.parametrize("name", [b"/elsewhere", b"/kafka2/a"])
def test_a_notice_from_outside_of_the_chroot_is_refused(name: bytes) -> None:
    whole = struct.pack(">iqiiii", -1, -1, 0, 3, 3, len(name)) + name
    with pytest.raises(jute.JuteError, match="not below /kafka"):
        jute.decode_watch(whole, "/kafka")
