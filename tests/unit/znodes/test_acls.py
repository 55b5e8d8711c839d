"""Access control entries as znodes: what is read, what is written, what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from emulator.metadata import MetadataVersion
from emulator.metadata.acls import Acl, Operation, PatternType, Permission, Resource, ResourceType
from emulator.simulation.models.zookeeper_tree import RefusedOp
from emulator.znodes import acls
from emulator.znodes.entity import Refusal, RefusalKind
from emulator.znodes.tree import Tree, TreeNode, ZnodeError
from emulator.zookeeper.ops import SEQUENTIAL, Create
from tests.laws.zk_trees import tree_of
from wire.text import uuid_text

ORDERS = Resource(ResourceType.TOPIC, PatternType.LITERAL, "orders")
NEWEST = MetadataVersion.from_level(21)


def tree(nodes: Mapping[str, bytes | None]) -> Tree:
    """A tree that holds some znodes and nothing else."""
    found = Tree()
    for path, data in nodes.items():
        found.nodes[path] = TreeNode(data)
        parent, _, name = path.rpartition("/")
        found.lists[parent] = tuple(sorted({*found.lists.get(parent, ()), name}))
    return found


def entries(*some: dict[str, str]) -> bytes:
    """Data of a resource's znode."""
    return json.dumps({"version": 1, "acls": list(some)}).encode()


ALICE = {"principal": "User:alice", "permissionType": "Allow", "operation": "Read", "host": "*"}


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/kafka-acl/Topic/orders", (2, 3, "orders")),
        ("/kafka-acl/Group/*", (3, 3, "*")),
        ("/kafka-acl/Cluster/kafka-cluster", (4, 3, "kafka-cluster")),
        ("/kafka-acl/TransactionalId/a:b", (5, 3, "a:b")),
        ("/kafka-acl/DelegationToken/tok", (6, 3, "tok")),
        ("/kafka-acl/User/alice", (7, 3, "alice")),
        ("/kafka-acl-extended/prefixed/Topic/pay", (2, 4, "pay")),
        ("/kafka-acl", None),
        ("/kafka-acl/Topic", None),
        ("/kafka-acl/TOPIC/a", None),
        ("/kafka-acl/Topics/a", None),
        ("/kafka-acl/Topic/a/b", None),
        ("/kafka-acl-extended/Prefixed/Topic/a", None),
        ("/kafka-acl-extended/match/Topic/a", None),
        ("/kafka-acl-extended/prefixed/Topic", None),
        ("/kafka-acl-changes/acl_changes_0000000001", None),
    ],
)
def test_a_resource_has_one_path(path: str, resource: tuple[int, int, str] | None) -> None:
    found = acls.resource_of(path)
    assert found == resource
    assert found is None or acls.path_of(found) == path


def test_names_are_kafkas_and_the_order_means_nothing() -> None:
    """Written in PascalCase; read in PascalCase or capitals; twice the same is once."""
    path = acls.path_of(ORDERS)
    every = [
        Acl(ORDERS, "User:CN=a:b", "10.0.0.1", operation, permission)
        for operation in Operation
        if operation >= Operation.ALL
        for permission in (Permission.DENY, Permission.ALLOW)
    ]
    data = acls.entries_data([*every, *every])
    shown = json.loads(data)
    assert {entry["operation"] for entry in shown["acls"]} == {
        "All", "Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction",
        "DescribeConfigs", "AlterConfigs", "IdempotentWrite", "CreateTokens", "DescribeTokens",
    }  # fmt: skip
    assert len(shown["acls"]) == len(every)
    assert acls.parse(path, data) == set(every)
    shown["acls"] = [
        entry | {"operation": entry["operation"].upper(), "ours": [1]}
        for entry in reversed([*shown["acls"], *shown["acls"]])
    ]
    again = json.dumps(shown | {"more": None}, indent=1).encode()
    assert acls.same(path, data, again)
    assert not acls.same(path, data, acls.entries_data(every[1:]))
    assert acls.parse(path, None) == acls.parse(path, b"") == frozenset()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{", "truncated"),
        (b"[]", "Expected `object`"),
        (b'{"version":1}', "missing required field `acls`"),
        (b'{"version":2,"acls":[]}', "version 2"),
        (entries(ALICE | {"principal": "alice"}), "'alice' has no type"),
        (entries(ALICE | {"operation": "Any"}), "'Any' is no operation"),
        (entries(ALICE | {"operation": "Unknown"}), "'Unknown' is no operation"),
        (entries(ALICE | {"operation": "cluster_action"}), "'cluster_action' is no operation"),
        (entries(ALICE | {"permissionType": "Any"}), "'Any' is no permission"),
        (entries(ALICE | {"permissionType": "Grant"}), "'Grant' is no permission"),
        (entries({k: v for k, v in ALICE.items() if k != "host"}), "`host`"),
        (entries(ALICE | {"host": "h" * 32_768}), "more than 32767 bytes"),
    ],
)
def test_what_is_no_entry_is_refused_by_its_znode(data: bytes, why: str) -> None:
    good = "/kafka-acl/Group/fine"
    bad = "/kafka-acl-extended/prefixed/Topic/bad"
    with pytest.raises(ZnodeError, match=r".") as refused:
        acls.parse(bad, data)
    assert why in refused.value.why
    found = [
        one
        for one in acls.AccessControlEntries().refusals(
            tree({good: entries(ALICE), bad: data}), NEWEST
        )
        if one is not None
    ]
    assert found == [Refusal(RefusalKind.MALFORMED, bad, refused.value.why)]


def test_folders_no_broker_reads_are_left_alone() -> None:
    nodes = {
        "/kafka-acl/Weird/a": entries(ALICE),
        "/kafka-acl-extended/match/Topic/a": entries(ALICE),
        "/kafka-acl/Topic/a": entries(ALICE),
    }
    found = tree(nodes)
    kind = acls.AccessControlEntries()
    records = [record for group in kind.records(found, None) for record in group]  # type: ignore[arg-type]
    assert [record.resource_name for record in records] == ["a"]  # type: ignore[attr-defined]
    assert [path for path in nodes if kind.owns(path)] == ["/kafka-acl/Topic/a"]


def test_the_id_of_a_copied_entry_follows_from_it() -> None:
    """Of the shape of those that Kafka draws: version 4, and no dash in front."""
    some = [
        Acl(ORDERS._replace(name=name), principal, "*", operation, 3)
        for name in ("a", "b", "ab", "*")
        for principal in ("User:a", "User:b", 'User:"', "User:")
        for operation in range(2, 15)
    ]
    ids = [acls.entry_id(acl) for acl in some]
    assert len(set(ids)) == len(some)
    assert ids == [acls.entry_id(acl) for acl in some]
    assert all(one[6] >> 4 == 4 and one[8] >> 6 == 2 for one in ids)
    assert not [one for one in ids if uuid_text(one).startswith("-")]


NAMES = ["a", "*", "a b", "ä€", "a:b", "zookeeper", "...", "\u00a0", "\ud7ff"]
REFUSED = ["", ".", "..", "a/b", "/", "\x00", "\x1f", "\x7f", "\x9f", "\ue000", "\ufff0", "😀"]


@pytest.mark.parametrize("name", NAMES)
def test_what_zookeeper_can_hold_is_storable(name: str) -> None:
    resource = ORDERS._replace(name=name)
    assert acls.storable(resource) is None
    tree_of({"/kafka-acl": None, "/kafka-acl/Topic": None, acls.path_of(resource): b""})


@pytest.mark.parametrize("name", REFUSED)
def test_what_zookeeper_cannot_hold_is_named(name: str) -> None:
    """Such a CreateAcls is to be refused: Kafka answers it and then never gets past it."""
    resource = ORDERS._replace(name=name)
    assert "znode" in str(acls.storable(resource))
    model = tree_of({"/kafka-acl/Topic": None})
    with pytest.raises(RefusedOp):
        model.write(Create(acls.path_of(resource), b""), 0, 0)


def test_notifications_are_kafkas() -> None:
    literal = acls.notification("/kafka-acl/DelegationToken/a:b")
    assert literal == Create("/kafka-acl-changes/acl_changes_", b"DELEGATION_TOKEN:a:b", flags=2)
    assert literal.flags == SEQUENTIAL
    prefixed = acls.notification("/kafka-acl-extended/prefixed/TransactionalId/tx-")
    assert prefixed.path == "/kafka-acl-extended-changes/acl_changes_"
    assert json.loads(prefixed.data or b"") == {
        "version": 1,
        "resourceType": "TRANSACTIONAL_ID",
        "name": "tx-",
        "patternType": "PREFIXED",
    }
