"""``zk load`` as it is typed: what it refuses, and what it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests import data
from tests.kit.joined_zookeeper import ZooKeeperMachine
from tests.kit.reads import open_acls
from tests.unit.commands.socketed_zookeeper import on_a_socket
from tests.unit.commands.test_wrong_inputs import FILES, call, judge

TREE = "3.9.2-full/tree-0-before.json"


@pytest.fixture
def tree(tmp_path: Path) -> str:
    return str(data.extract(TREE, tmp_path))


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(KazooClient, "get_acls_async", open_acls)
    with on_a_socket(ZooKeeperMachine()) as found:
        yield found


def nodes(text: str) -> dict[str, Any]:
    kept = ("text", "b64", "null", "acl")
    return {
        path: {key: one[key] for key in kept if key in one}
        for path, one in json.loads(text)["nodes"].items()
        if not one["ephemeral"]
    }


def test_dumped_again_it_is_the_same_and_a_second_time_is_refused(hosts: str, tree: str) -> None:
    where = ("--zookeeper", f"{hosts}/one/two")
    code, out, err = call("zk", "load", tree, *where)
    assert (code, err) == (0, "")
    assert out.startswith(f"{len(nodes(Path(tree).read_text()))} znodes written to {hosts}/one/two")
    assert "; 4 ephemeral left out" in out
    code, again, err = call("zk", "dump", "--with-secrets", *where)
    assert (code, err) == (0, "")
    assert nodes(again) == nodes(Path(tree).read_text())
    code, out, err = call("zk", "load", tree, *where)
    assert (code, out) == (1, "")
    assert "is not empty: nothing was written. Give an empty chroot" in err


@pytest.mark.parametrize("kind", [one for one in FILES if one not in {"binary", "bad escape"}])
def test_a_dump_that_cannot_be_read(kind: str, tmp_path: Path) -> None:
    make, said = FILES[kind]
    judge(("zk", "load", make(tmp_path), "--zookeeper", "127.0.0.1:1"), 2, said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"nodes": {"/a": {"te', "truncated (it is cut)"),
        ("[]", "not a dump of a ZooKeeper tree"),
        ('{"nodes": {}}', "there is no znode in it"),
        ('{"count": 3, "nodes": {"/a": {"null": true}}}', "says that it has 3 znodes"),
        ('{"nodes": {"/a": {}}}', "has neither text nor b64 nor null"),
    ],
)
def test_a_file_that_is_no_whole_dump_is_refused_before_anything_is_asked(
    text: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "tree.json"
    file.write_text(text)
    judge(("zk", "load", str(file), "--zookeeper", "127.0.0.1:1"), 2, said)


@pytest.mark.parametrize("where", ["10.255.255.1:2181", "127.0.0.1:1,no-such-host.invalid:2181"])
def test_another_machine_is_refused_unless_it_is_said_to_be_no_production(
    where: str, tree: str
) -> None:
    judge(("zk", "load", tree, "--zookeeper", where), 2, "--yes-not-production")


def test_a_zookeeper_that_does_not_answer_is_named(tree: str) -> None:
    judge(("zk", "load", tree, "--zookeeper", "127.0.0.1:1"), 3, "ZooKeeper at 127.0.0.1:1: ")
