"""ACLs and delegation tokens in the dual write, in a world of models."""

from __future__ import annotations

import json

import pytest

from emulator.metadata.znodes import why_no_name
from emulator.migration.tree_diff import differences
from emulator.znodes import acls, delegation_tokens
from emulator.znodes.entities import ENTITIES_WITHOUT_SECRETS
from emulator.zookeeper.ops import SEQUENTIAL, Create, Delete, SetData, ZkOp
from tests.laws.zk_trees import read
from tests.unit.migration.stories import restart
from tests.unit.migration.world import World
from wire import records as r

IDS = [bytes(15) + bytes([n]) for n in range(1, 9)]
PATH = "/kafka-acl/Topic/t"
TOKEN = "/delegation_token/tokens/tok"


def entry(acl_id: bytes, operation: int = 3, name: str = "t", pattern: int = 3) -> object:
    """A record that adds an entry."""
    return r.AccessControlEntryRecord(
        id=acl_id, resource_type=2, resource_name=name, pattern_type=pattern,
        principal="User:alice", host="*", operation=operation, permission_type=3,
    )  # fmt: skip


def token(expires: int) -> object:
    """A record that adds or changes the token."""
    return r.DelegationTokenRecord(
        owner="User:a b", requester="User:a b", renewers=["User:c"], issue_timestamp=1,
        max_timestamp=9, expiration_timestamp=expires, token_id="tok",
    )  # fmt: skip


def changed(world: World, *records: object) -> list[tuple[ZkOp, ...]]:
    """Append, and return the multis this leads to, without the chain's own three ops."""
    world.multis.clear()
    world.append(*records)
    world.advance(1_000)
    return [ops[1:-2] for ops in world.multis if ops[1:-2]]


def operations(world: World) -> list[str]:
    return sorted(one["operation"] for one in json.loads(world.data(PATH) or b"")["acls"])


@pytest.mark.requirement("W12")
def test_acls_are_written_where_no_authorizer_ever_ran() -> None:
    """Kafka 3.9 answers, drops the change, and its next failover never reaches dual write."""
    world = World().dual_write()
    assert not {path for path in world.paths if path.startswith(("/kafka-acl", "/delegation"))}
    changed(world, entry(IDS[0]), entry(IDS[1], 4), entry(IDS[2], 8, "pay", 4), token(5))
    assert operations(world) == ["Read", "Write"]
    assert world.data("/kafka-acl-extended/prefixed/Topic/pay") is not None
    assert world.data("/kafka-acl-changes/acl_changes_0000000000") == b"TOPIC:t"
    assert world.data(TOKEN) is not None
    before = world.paths
    restart(world)
    world.advance(5_000)
    assert world.states[-1] == "DUAL_WRITE"
    assert world.paths == before, "the failover finds nothing to write"


def test_every_change_is_told_in_one_multi_behind_it() -> None:
    """Made, changed, removed: the notification follows the znode it is about (G08)."""
    world = World().dual_write()
    for records, data_op, path, told in (
        ([entry(IDS[0])], Create, PATH, acls.notification(PATH)),
        ([entry(IDS[1], 4)], SetData, PATH, acls.notification(PATH)),
        ([r.RemoveAccessControlEntryRecord(id=IDS[0])], SetData, PATH, acls.notification(PATH)),
        ([r.RemoveAccessControlEntryRecord(id=IDS[1])], Delete, PATH, acls.notification(PATH)),
        ([token(5)], Create, TOKEN, delegation_tokens.notification(TOKEN)),
        ([token(6)], SetData, TOKEN, delegation_tokens.notification(TOKEN)),
        ([r.RemoveDelegationTokenRecord(token_id="tok")], Delete, TOKEN,
         delegation_tokens.notification(TOKEN)),
    ):  # fmt: skip
        (ops,) = changed(world, *records)
        at = next(i for i, op in enumerate(ops) if op.path == path)
        assert type(ops[at]) is data_op
        assert [op for op in ops if getattr(op, "flags", 0) & SEQUENTIAL] == [told]
        assert ops.index(told) > at
    assert PATH not in world.paths
    assert TOKEN not in world.paths


@pytest.mark.requirement("G08")
def test_a_notification_never_comes_before_its_data_whatever_class_it_is() -> None:
    """In the order of ZooKeeper's own zxids; W11 for what is removed."""
    world = World().dual_write()
    config = r.ConfigRecord(resource_type=4, resource_name="1", name="k", value="v")
    changed(world, config, *(entry(acl_id, n) for n, acl_id in enumerate(IDS, 3)), token(5))
    changed(world, *(r.RemoveAccessControlEntryRecord(id=one) for one in IDS))
    told = 0
    for ops in world.multis:
        for at, op in enumerate(ops):
            for entity in ENTITIES_WITHOUT_SECRETS:
                for told_op in entity.notifications(op) if entity.owns(op.path) else ():
                    assert told_op in ops[at + 1 :]
                    told += 1
    assert told == 1
    nodes = world.model.tree.nodes
    assert (
        nodes["/config/changes/config_change_0000000000"].czxid >= nodes["/config/brokers/1"].czxid
    )
    assert nodes["/delegation_token/token_changes/token_change_0000000000"].czxid >= (
        nodes[TOKEN].czxid
    )
    assert len([p for p in nodes if p.startswith("/kafka-acl-changes/")]) == 2
    assert PATH not in nodes


def test_entries_alike_stand_once_and_go_with_the_last() -> None:
    world = World().dual_write()
    changed(world, entry(IDS[0]), entry(IDS[1]))
    assert operations(world) == ["Read"]
    assert changed(world, r.RemoveAccessControlEntryRecord(id=IDS[0])) == []
    changed(world, r.RemoveAccessControlEntryRecord(id=IDS[1]))
    assert PATH not in world.paths


def test_a_tampered_resource_is_mended_and_a_stranger_is_left_alone() -> None:
    world = World().dual_write()
    changed(world, entry(IDS[0]), token(5))
    world.put(PATH, b"{")
    world.put("/kafka-acl/Group/surplus", b'{"version":1,"acls":[]}')
    world.put("/kafka-acl/Weird/x", b"{}")
    world.remove(TOKEN)
    restart(world)
    world.advance(5_000)
    assert operations(world) == ["Read"]
    assert TOKEN in world.paths
    assert "/kafka-acl/Group/surplus" not in world.paths
    assert world.data("/kafka-acl/Weird/x") == b"{}"


@pytest.mark.parametrize("name", ["a/b", "..", "a\x00", "😀"])
@pytest.mark.parametrize("pattern", [3, 4])
def test_entries_for_a_name_no_znode_can_have_are_left_out(name: str, pattern: int) -> None:
    """A log that a Kafka controller began may hold them; ours refuses to make them."""
    world = World().dual_write()
    assert changed(world, entry(IDS[0], name=name, pattern=pattern)) == []
    assert world.driver.status(world.now_ms).poisoned == ()
    assert changed(world, entry(IDS[1])) != [], "what comes behind is written"
    assert [why for _, why in acls.left_out(world.journal.stable)] == [
        f"the resource name {name!r} {why_no_name(name)}, so it cannot be the name of a znode"
    ]
    for _ in range(2):
        restart(world)
        world.advance(2_000)
        status = world.driver.status(world.now_ms)
        assert (status.state, status.lag_changed_records, status.poisoned) == ("DUAL_WRITE", 0, ())
        kinds = [op for ops in world.multis for op in ops[1:-2]]
        assert [op.path for op in kinds if "acl" in op.path] == [], "nothing is written anew"
    assert list(differences(read(world.model.tree), world.journal.stable, None)) == []
    removed = r.RemoveAccessControlEntryRecord(id=IDS[0])
    assert changed(world, removed) == []
    assert list(acls.left_out(world.journal.stable)) == []
