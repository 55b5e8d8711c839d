"""Which ACL a znode gets: the class of its whole path decides, whoever creates it and how."""

from __future__ import annotations

import pytest

from emulator.config.zookeeper import ZooKeeperSecurity
from emulator.zookeeper import jute
from emulator.zookeeper.acl import acls
from emulator.zookeeper.ops import OPEN, SEQUENTIAL, Create, Multi, SetData, ZkResult, ZnodeAcl
from tests.unit.zookeeper.world import World

ALL = ZnodeAcl(31, "auth", "")
READ = ZnodeAcl(1, "world", "anyone")
BY_CLASS = {
    (ALL, READ): (
        "/controller",
        "/controller_epoch",
        "/migration",
        "/kraft_bridge",
        "/brokers/topics/users",
        "/config/topics/t",
        "/config/clients/c",
        "/config/ips/127.0.0.1",
        "/config/changes/config_change_",
        "/admin/delete_topics/t",
        "/kafka-acl/Topic/t",
        "/kafka-acl-extended/prefixed/Topic/t",
        "/delegation_token",
        "/consumers/group",
    ),
    (ALL,): (
        "/config/users",
        "/config/users/alice",
        "/config/users/alice/clients/c",
        "/config/brokers",
        "/config/brokers/0",
        "/delegation_token/tokens",
        "/delegation_token/tokens/abc",
    ),
    OPEN: ("/consumers",),
}


@pytest.mark.parametrize(("wanted", "paths"), BY_CLASS.items())
@pytest.mark.requirement("C10")
def test_the_class_of_the_path(wanted: tuple[ZnodeAcl, ...], paths: tuple[str, ...]) -> None:
    assert {path: acls(path) for path in paths} == dict.fromkeys(paths, wanted)


def secured(**world: object) -> World:
    security = ZooKeeperSecurity(set_acl=True)
    return World(security=security, **world).start()


def test_every_create_gets_it_alone_in_a_multi_and_under_a_chroot() -> None:
    world = secured(chroot="/a/b")
    world.ask(Create("/config", None))
    world.ask(Multi((Create("/config/users", None), Create("/config/users/u", b"x"))))
    world.ask(Multi((Create("/consumers", None), SetData("/config/users/u", b"y"))))
    made = {path: node.acl for path, node in world.model.tree.nodes.items()}
    assert made["/a"] == made["/a/b"] == made["/a/b/config"] == (ALL, READ)
    assert made["/a/b/config/users"] == made["/a/b/config/users/u"] == (ALL,)
    assert made["/a/b/consumers"] == OPEN


def test_without_it_everything_stays_open() -> None:
    world = World(chroot="/a").start()
    world.ask(Create("/config", None))
    assert world.model.tree.get("/a/config").acl == OPEN
    assert world.model.tree.get("/a").acl == OPEN


@pytest.mark.parametrize("chroot", ["", "/kafka"])
@pytest.mark.parametrize("set_acl", [False, True])
def test_the_size_of_an_op_is_what_leaves(chroot: str, set_acl: bool) -> None:
    """A multi is cut by these sizes: one byte less than is sent, and a full one does not leave."""
    security = ZooKeeperSecurity(set_acl=set_acl)
    world = World(security=security, chroot=chroot).start()
    ops = (Create("/x", b"1"), Create("/consumers", None), SetData("/x", b"2"))
    (sent,) = world.client.submit("m", Multi(ops), world.now_ms)
    sizes = sum(world.client.op_size(op) for op in ops)
    assert len(sent.data) - 4 == jute.MULTI_OVERHEAD_BYTES + sizes  # type: ignore[union-attr]


def test_a_notification_keeps_its_sequence() -> None:
    world = secured()
    world.ask(Create("/config", None))
    made = world.ask(Create("/config/changes_", b"", flags=SEQUENTIAL))
    assert isinstance(made, ZkResult)
    assert made.value == "/config/changes_0000000000"
