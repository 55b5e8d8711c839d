"""Access rules of production's ZooKeeper in a copy: who may do what there may do it here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.rehearsal.made import document
from bench.rehearsal.rights import CONTROLLERS_LOGIN, LOGIN, owner, restricted
from bench.rehearsal.verdict import WHOSE_LOGIN, text
from bench.rehearsal.znodes import LoadedZnode, loadable
from bench.verbs.rehearsed_inputs import Given, Prepared, prepared

KAFKA = [31, "sasl", "kafka"]
OTHER = [31, "sasl", "other"]
READ = [1, "world", "anyone"]
ALL = [31, "world", "anyone"]
TOPICS = "/config/topics"
CONTROLLER = (
    "process.roles=controller\nnode.id=3000\nlisteners=CONTROLLER://:9093\n"
    "controller.quorum.voters=3000@c0:9093\ncontroller.listener.names=CONTROLLER\n"
    "listener.security.protocol.map=CONTROLLER:PLAINTEXT\nzookeeper.connect=zk1:2181\n"
    "zookeeper.metadata.migration.enable=true\n"
)


def tree(**rules: list[list[Any]]) -> dict[str, Any]:
    """A small cluster; ``config_topics`` is the rule of /config/topics."""
    found = document(topics=1, partitions=1, brokers=1)
    for name, acl in rules.items():
        found["nodes"][f"/{name.replace('_', '/')}"]["acl"] = acl
    return found


def loaded(found: dict[str, Any]) -> dict[str, LoadedZnode]:
    nodes = restricted(loadable(found, open_acls=True).nodes, found, owner(found))
    return {one.path: one for one in nodes}


def test_the_brokers_login_is_whom_most_rules_let_write() -> None:
    assert owner(tree()) == ""
    assert owner(tree(config_topics=[READ])) == ""
    found = tree(config_topics=[KAFKA, READ], config_users=[KAFKA], brokers_topics=[OTHER])
    assert owner(found) == "sasl:kafka"
    digests = tree(
        config_topics=[[31, "digest", "kafka:a"]], config_users=[[31, "digest", "kafka:b"]]
    )
    assert owner(digests) == "digest:kafka"
    reads = [1, "sasl", "monitor"]
    assert owner(tree(config_topics=[KAFKA, reads], config_users=[reads])) == "sasl:kafka"


CERTIFICATE = [31, "x509", "CN=kafka"]


def test_of_two_logins_with_as_many_rules_it_is_that_of_the_controllers() -> None:
    for rules in ([KAFKA, CERTIFICATE], [CERTIFICATE, KAFKA]):
        assert owner(tree(config_topics=rules), {"sasl:kafka"}) == "sasl:kafka"
    assert owner(tree(config_topics=[KAFKA, CERTIFICATE])) == "sasl:kafka", "the first"


def test_each_rule_grants_the_same_and_another_login_is_nobodys() -> None:
    found = loaded(
        tree(config_topics=[KAFKA, READ], config_users=[KAFKA], brokers_topics=[OTHER, READ])
    )
    ((perms, scheme, mine), world) = found[TOPICS].acl
    assert (perms, scheme, mine.partition(":")[0]) == (31, "digest", LOGIN.partition(":")[0])
    assert world == (1, "world", "anyone")
    ((_, _, others), _) = found["/brokers/topics"].acl
    assert others != mine
    assert found["/brokers/ids"].acl == ()


@pytest.mark.parametrize("rules", [[ALL], [KAFKA, ALL], [READ, ALL], []])
def test_what_everybody_may_change_stays_so(rules: list[list[Any]]) -> None:
    assert loaded(tree(config_topics=rules))[TOPICS].acl == ()


def test_what_everybody_may_only_read_stays_so() -> None:
    assert loaded(tree(config_topics=[READ]))[TOPICS].acl == ((1, "world", "anyone"),)


def given(found: dict[str, Any], folder: Path, *lines: str, **more: Any) -> Prepared:
    """With a controller's file of these lines; without any, no file."""
    dump, file = folder / "tree.json", folder / "controller.properties"
    dump.write_text(json.dumps(found))
    file.write_text(CONTROLLER + "\n".join(lines))
    return prepared(Given(str(dump), found, [file] if lines else [], **more))


def rules_of(one: Prepared) -> set[str]:
    return {x.path for x in one.nodes if x.acl}


NO_LOGIN = ("zookeeper.set.acl=false",)
A_LOGIN = ("kraftbridge.zookeeper.digest=kafka:secret",)
ELSEWHERE = ("zookeeper.set.acl=true",)
BY_CERTIFICATE = ("zookeeper.ssl.client.enable=true",)
DIGEST = [31, "digest", "kafka:hash"]


@pytest.mark.parametrize(
    ("lines", "kept", "login", "has"),
    [
        ((), False, False, False),
        (ELSEWHERE, False, False, False),
        (BY_CERTIFICATE, False, False, False),
        (NO_LOGIN, True, True, False),
        (A_LOGIN, True, True, True),
    ],
    ids=["no file", "elsewhere", "certificate", "none", "its own"],
)
def test_controllers_have_the_login_that_their_files_have(
    lines: tuple[str, ...], kept: bool, login: bool, has: bool, tmp_path: Path
) -> None:
    for more in ({}, {"table": tmp_path / "names.json"}):
        found = given(tree(config_topics=[DIGEST, READ]), tmp_path, *lines, **more)
        assert rules_of(found) == ({TOPICS} if kept else set())
        assert (found.found.login, found.controllers_login) == (login, has)
        assert (WHOSE_LOGIN in text(found.found)) is login
        assumed = [one for one in found.found.assumed if "may write every znode" in one]
        assert bool(assumed) is not kept
        blocked = any("PF-B09" in one for one in found.found.blockers)
        assert blocked is (kept and not has), "as preflight judges it"


def users(one: LoadedZnode) -> list[str]:
    return [name.partition(":")[0] for _, scheme, name in one.acl if scheme == "digest"]


def test_a_second_login_that_the_controllers_have_is_not_nobodys(tmp_path: Path) -> None:
    brokers, controllers = (one.partition(":")[0] for one in (LOGIN, CONTROLLERS_LOGIN))
    both = tree(config_topics=[KAFKA, DIGEST], config_users=[KAFKA], brokers_topics=[OTHER])
    found = given(both, tmp_path, *A_LOGIN)
    assert found.controllers_login
    rules = {one.path: users(one) for one in found.nodes}
    assert rules[TOPICS] == [brokers, controllers]
    assert rules["/config/users"] == [brokers]
    assert not {brokers, controllers} & {*rules["/brokers/topics"]}
    same = given(tree(config_topics=[DIGEST]), tmp_path, *A_LOGIN)
    assert [users(one) for one in same.nodes if one.acl] == [[brokers, controllers]]


def test_without_names_whose_login_it_is_is_decided_by_the_real_ones(tmp_path: Path) -> None:
    hashes = {f"config_{one}": [[31, "digest", f"kafka:{one}"]] for one in ("topics", "users")}
    found = tree(**hashes, brokers_topics=[OTHER])
    real = given(found, tmp_path, *A_LOGIN)
    shown = given(found, tmp_path, *A_LOGIN, table=tmp_path / "names.json")
    assert shown.anonymous
    (mine, theirs) = ({one.path: one.acl for one in x.nodes if one.acl} for x in (shown, real))
    assert mine == theirs
    assert len(mine) == 3


def test_without_a_named_login_what_nobody_may_write_stays_so(tmp_path: Path) -> None:
    found = given(tree(config_topics=[READ]), tmp_path)
    assert rules_of(found) == {TOPICS}
    assert (found.found.login, found.controllers_login) == (False, False)


def test_the_login_in_a_brokers_file_is_not_that_of_the_controllers(tmp_path: Path) -> None:
    broker = tmp_path / "broker.properties"
    broker.write_text("broker.id=1\nzookeeper.connect=zk1:2181\n" + "\n".join(A_LOGIN))
    tree_ = tree(config_topics=[DIGEST, READ])
    (tmp_path / "tree.json").write_text(json.dumps(tree_))
    found = prepared(Given(str(tmp_path / "tree.json"), tree_, [broker]))
    assert (rules_of(found), found.controllers_login) == (set(), False)
    assert any("may write every znode" in one for one in found.found.assumed)
