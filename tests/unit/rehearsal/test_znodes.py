"""What of a dump can be written, and that it is written as it was."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.client import KazooClient

from bench.rehearsal.znodes import (
    DumpContentError,
    LoadedZnode,
    LoadError,
    is_empty,
    loadable,
    write,
)
from emulator.servers.seeded import connected
from emulator.servers.zk_dump import contents, dump
from tests import data
from tests.kit.joined_zookeeper import ZooKeeperMachine
from tests.kit.reads import open_acls
from tests.unit.commands.socketed_zookeeper import on_a_socket

OPEN = [[31, "world", "anyone"]]


def node(text: str | None = None, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"null": True} if text is None else {"text": text}
    return {**found, "ephemeral": False, "ephemeralOwner": 0, "acl": OPEN, **more}


def document(**nodes: dict[str, Any]) -> dict[str, Any]:
    named = {f"/{path.replace('__', '/')}": one for path, one in nodes.items()}
    return {"count": len(named), "nodes": named}


def test_parents_come_first_and_ephemeral_znodes_are_left_out() -> None:
    found = loadable(
        document(
            b__c=node("x"),
            b=node(),
            a=node("y"),
            e=node("z", ephemeral=True),
            f__g=node(),
            f=node(),
        )
    )
    assert [one.path for one in found.nodes] == ["/a", "/b", "/f", "/b/c", "/f/g"]
    assert [one.data for one in found.nodes] == [b"y", None, None, b"x", None]
    assert found.ephemeral == 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"nodes": {}}, "no znode in it"),
        ({"count": 2, "nodes": {"/a": node()}}, "says that it has 2 znodes, and has 1"),
        ({"nodes": {"/a/b": node()}}, "/a/b is in it and /a is not"),
        (
            document(a=node(acl=[[31, "digest", "u:<redacted>"]])),
            "a password of the access rule of /a was left out",
        ),
        (document(a=node(acl=5)), "the access rule of /a is not as zk dump writes it"),
        (document(a=node(acl=[[1]])), "the access rule of /a is not as zk dump writes it"),
    ],
)
def test_what_is_cut_or_empty_is_a_sentence(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(DumpContentError, match=said):
        loadable(wrong)


def test_access_rules_are_kept_unless_everybody_may_do_all() -> None:
    tree = document(a=node(acl=[[1, "world", "anyone"], [31, "sasl", "kafka"]]), b=node())
    assert [one.acl for one in loadable(tree).nodes] == [
        ((1, "world", "anyone"), (31, "sasl", "kafka")),
        (),
    ]
    assert [one.acl for one in loadable(tree, open_acls=True).nodes] == [(), ()]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The model keeps ACLs, and does not tell them."""
    monkeypatch.setattr(KazooClient, "get_acls_async", open_acls)
    with on_a_socket(ZooKeeperMachine()) as hosts:
        yield hosts


@pytest.mark.parametrize("below", ["", "/a/chroot"])
def test_a_recorded_tree_is_the_same_when_it_is_dumped_again(model: str, below: str) -> None:
    tree = data.tree("3.9.2-full", "0-before")
    found = loadable(tree)
    with connected(model) as client:
        assert is_empty(client, below)
        write(client, below, found.nodes)
        assert not is_empty(client, below)
    again = contents(dump(f"{model}{below}", with_secrets=True))
    kept = contents(
        {"nodes": {path: one for path, one in tree["nodes"].items() if not one["ephemeral"]}}
    )
    assert again == kept
    assert found.ephemeral > 0


def test_a_znode_that_is_there_already_stops_it_and_says_how_far_it_came(model: str) -> None:
    nodes = [LoadedZnode(f"/n{number:04d}", b"") for number in range(700)]
    with connected(model) as client:
        client.create("/n0600", b"")
        with pytest.raises(LoadError, match="500 znodes were created, then NodeExistsError"):
            write(client, "", nodes)
