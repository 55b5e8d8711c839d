"""``zk load`` on a real ZooKeeper: what was dumped is there again, data, null and access rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kazoo.security import ACL, Id, make_digest_acl

from emulator.servers.seeded import connected
from emulator.servers.zookeeper import ZooKeeper
from tests import data
from tests.unit.commands.test_wrong_inputs import call

pytestmark = pytest.mark.jvm

KEPT = ("text", "b64", "null", "acl")


def kept(tree: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What loading keeps, by path."""
    return {
        path: {key: one[key] for key in KEPT if key in one}
        for path, one in tree["nodes"].items()
        if not one["ephemeral"]
    }


def dumped(hosts: str) -> dict[str, Any]:
    code, out, err = call("zk", "dump", "--with-secrets", "--zookeeper", hosts)
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize("tree", ["3.9.2-full/tree-0-before", "3.4.1-short/tree-0-before"])
def test_a_recorded_tree_is_there_again(tree: str, zookeeper: ZooKeeper, tmp_path: Path) -> None:
    file = data.extract(f"{tree}.json", tmp_path)
    hosts = f"{zookeeper.hosts}/again/{tree.partition('/')[0]}"
    code, out, err = call("zk", "load", str(file), "--zookeeper", hosts)
    assert (code, err) == (0, ""), out
    assert kept(dumped(hosts)) == kept(json.loads(file.read_text()))
    code, _, err = call("zk", "load", str(file), "--zookeeper", hosts)
    assert (code, "is not empty" in err) == (1, True)


def test_access_rules_are_set_when_what_is_below_is_there(
    zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    """Children of what only another login may change; a scheme that this server does not know."""
    hosts = f"{zookeeper.hosts}/rules"
    with connected(zookeeper.hosts) as client:
        client.ensure_path("/rules/a/b")
        client.create("/rules/a/b/c", b"\xff\x00")
        open_to_read = ACL(1, Id("world", "anyone"))
        client.set_acls("/rules/a", [make_digest_acl("u", "p", all=True), open_to_read])
        client.set_acls("/rules/a/b", [ACL(31, Id("ip", "127.0.0.1"))])
    tree = dumped(hosts)
    file = tmp_path / "tree.json"
    file.write_text(json.dumps(tree))
    code, _, err = call("zk", "load", str(file), "--zookeeper", f"{hosts}-again")
    assert (code, err) == (0, "")
    assert kept(dumped(f"{hosts}-again")) == kept(tree)
    tree["nodes"]["/a/b"]["acl"] = [[31, "sasl", "kafka"]]
    file.write_text(json.dumps(tree))
    code, _, err = call("zk", "load", str(file), "--zookeeper", f"{hosts}-sasl")
    assert (code, "does not take sasl" in err, "--open-acls" in err) == (1, True, True)
    again = ("--zookeeper", f"{hosts}-open", "--open-acls")
    assert call("zk", "load", str(file), *again)[0] == 0
    assert {str(one["acl"]) for one in dumped(f"{hosts}-open")["nodes"].values()} == {
        str([[31, "world", "anyone"]])
    }


def test_a_znode_that_is_too_large_for_the_server_is_named(
    zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    file = tmp_path / "tree.json"
    nodes = {"/small": {"text": "x"}, "/large": {"text": "x" * 1_100_000}}
    file.write_text(json.dumps({"nodes": nodes}))
    code, _, err = call("zk", "load", str(file), "--zookeeper", f"{zookeeper.hosts}/large")
    assert code == 1
    assert "/large has 1,100,000 bytes, which jute.maxbuffer of ZooKeeper must allow" in err
