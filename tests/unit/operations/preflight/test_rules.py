"""Every rule of the preflight: silent on a good tree, loud on a bad one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from emulator.operations.preflight.controller_folder import ControllerFolder
from emulator.operations.preflight.engine import RULES, Severity
from emulator.operations.preflight.node_file import Properties
from emulator.operations.preflight.report import PreflightReport, run
from emulator.operations.preflight.survey import REDACTED, DumpedZnode, RoundTrips, Survey, of_dump
from tests import data
from tests.unit.operations.preflight.every_change import EVERY_CHANGE

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
STATE = {"controller_epoch": 3, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1, 2]}
IDS3 = "AAAAAAAAAAAAAAAAAAAAAw"
IDS = ["AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"]


def topic(topic_id: str | None, **more: Any) -> bytes:
    found = {"version": 3, "partitions": {"0": [1, 2]}, "topic_id": topic_id, **more}
    found.setdefault("adding_replicas", {})
    return js({key: value for key, value in found.items() if value is not None})


def js(value: object) -> bytes:
    return json.dumps(value).encode()


def config(**entries: str) -> bytes:
    return js({"version": 1, "config": {k.replace("_", "."): v for k, v in entries.items()}})


def good_nodes() -> dict[str, bytes | None]:
    nodes: dict[str, bytes | None] = {
        "/admin": None,
        "/admin/delete_topics": None,
        "/cluster/id": js({"version": "1", "id": CLUSTER}),
        "/controller": js({"version": 2, "brokerid": 1, "timestamp": "1"}),
        "/controller_epoch": b"3",
        "/feature": js({"version": 2, "status": 1, "features": {}}),
        "/kafka-acl/Topic/t": acls(["User:a", "Read", "Allow"]),
        "/kafka-acl-changes": None,
        "/latest_producer_id_block": None,
        "/config/users/alice": js({"version": 1, "config": {"producer_byte_rate": "1"}}),
        "/config/brokers/1": config(),
    }
    for broker in (1, 2):
        nodes[f"/brokers/ids/{broker}"] = js({"version": 5, "host": "h", "port": 1})
    for name, topic_id in zip(("t", "u"), IDS, strict=True):
        nodes[f"/brokers/topics/{name}"] = topic(topic_id)
        nodes[f"/brokers/topics/{name}/partitions"] = None
        nodes[f"/brokers/topics/{name}/partitions/0"] = None
        nodes[f"/brokers/topics/{name}/partitions/0/state"] = js(STATE)
        nodes[f"/config/topics/{name}"] = config(retention_ms="1")
    return with_parents(nodes)


def acls(*entries: list[str]) -> bytes:
    keys = ("principal", "operation", "permissionType")
    return js(
        {
            "version": 1,
            "acls": [{"host": "*", **dict(zip(keys, one, strict=True))} for one in entries],
        }
    )


def with_parents(nodes: Mapping[str, bytes | None]) -> dict[str, bytes | None]:
    found = dict(nodes)
    for path in nodes:
        parent = path.rpartition("/")[0]
        while parent:
            found.setdefault(parent, None)
            parent = parent.rpartition("/")[0]
    return found


BROKER = {
    "broker.id": "1",
    "inter.broker.protocol.version": "3.9",
    "zookeeper.metadata.migration.enable": "true",
    "zookeeper.connect": "zk:2181",
    "controller.quorum.voters": "3000@c:9093",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}
CONTROLLER = {
    "listeners": "CONTROLLER://:9093",
    **{key: value for key, value in BROKER.items() if not key.startswith(("broker", "inter.b"))},
    "process.roles": "controller",
    "node.id": "3000",
    "inter.broker.listener.name": "PLAINTEXT",
    "password.encoder.secret": "s",
}
META = {"cluster.id": CLUSTER}
TARGET = {
    **{
        key: value for key, value in BROKER.items() if not key.startswith(("zoo", "inter.broker.p"))
    },
    "process.roles": "broker",
    "node.id": "1",
}
FOLDER = ControllerFolder("d", {**META, "version": "1", "node.id": "3000"}, bootstrap_level=21)


def survey(
    nodes: Mapping[str, bytes | None] | None = None,
    *,
    broker: Mapping[str, str | None] | None = None,
    controller: Mapping[str, str | None] | None = None,
    **more: Any,
) -> Survey:
    tree = {path: DumpedZnode(one) for path, one in with_parents(nodes or good_nodes()).items()}
    files = (changed("b", BROKER, broker), changed("c", CONTROLLER, controller))
    target = changed("t", TARGET, {"broker.id": None})
    return Survey(tree, files, **{"targets": (target,), "folders": (FOLDER,), **more})


def changed(
    name: str, base: Mapping[str, str], changes: Mapping[str, str | None] | None
) -> Properties:
    given = {**base, **(changes or {})}
    values = {k: v for k, v in given.items() if v is not None}
    if "controller" in values.get("process.roles", ""):
        return Properties(name, values, {**META, "version": "1", "node.id": values["node.id"]})
    meta = {"version": "0", "broker.id": values.get("broker.id") or values.get("node.id", "")}
    return Properties(name, values, {**META, **meta})


def tree(**changes: bytes | None) -> Survey:
    """The good tree with some znodes changed; ``...`` in a keyword stands for a slash."""
    nodes = good_nodes()
    nodes.update({path.replace("__", "/"): value for path, value in changes.items()})
    return survey(nodes)


def without(*paths: str) -> Survey:
    nodes = {k: v for k, v in good_nodes().items() if not k.startswith(paths)}
    return survey(nodes)


def found(report: PreflightReport, code: str) -> list[str]:
    return [one.znode for one in report.findings if one.code == code]


def at(path: str, value: bytes | None) -> Survey:
    return survey({**good_nodes(), path: value})


def locked() -> Survey:
    nodes = {path: DumpedZnode(one) for path, one in good_nodes().items()}
    nodes["/config/users"] = DumpedZnode(None, acl=((31, "sasl", "kafka"), (1, "world", "anyone")))
    return replace(survey(), nodes=nodes)


SCRAM = f"salt=c2FsdA==,stored_key={'A' * 43}=,server_key={'A' * 43}=,iterations=4096"
STALE = js(
    {
        "version": 0,
        "kraft_controller_id": 3000,
        "kraft_controller_epoch": 2,
        "kraft_metadata_offset": 247,
        "kraft_metadata_epoch": 2,
    }
)
KRAFT = js({"version": 2, "brokerid": 4000, "timestamp": "1", "kraftControllerEpoch": 1})
SICK: tuple[dict[str, Any], ...] = (
    {"leader": -1},
    {"isr": []},
    {"isr": [1, 9]},
    {"leader": 9},
)
BAD: list[tuple[str, str, Survey]] = [
    ("B01", "/migration", at("/migration", None)),
    ("B01", "/migration", at("/migration", b"{")),
    ("B02", "/migration", at("/migration", STALE)),
    ("B03", "/controller", at("/controller", KRAFT)),
    ("B04", "/cluster/id", without("/cluster")),
    ("B04", "/cluster/id", at("/cluster/id", js({"version": "1", "id": "another"}))),
    ("B05", "/brokers/ids/3000", at("/brokers/ids/3000", js({"version": 5}))),
    ("B06", "/brokers/topics/t", at("/brokers/topics/t", topic(None))),
    ("B06", "/brokers/topics/u", at("/brokers/topics/u", topic(IDS[0]))),
    ("B07", "/config/topics/t", at("/config/topics/t", b"{oops")),
    ("B07", "/brokers/topics/t", at("/brokers/topics/t", None)),
    ("B07", "/config/users/alice", at("/config/users/alice", config(no_such="1"))),
    ("B07", "/config/users/bob", at("/config/users/bob", config(**{"SCRAM-SHA-256": "salt=x"}))),
    ("B07", "/controller", at("/controller", js({"version": 2, "brokerid": "1"}))),
    ("B07", "/controller_epoch", without("/controller_epoch")),
    (
        "B07",
        "/config/users/bob",
        survey(
            {**good_nodes(), "/config/users/bob": config(**{"SCRAM-SHA-256": SCRAM})},
            broker={"inter.broker.protocol.version": "3.4"},
        ),
    ),
    (
        "B08",
        "/config/brokers/1",
        at("/config/brokers/1", config(ssl_key_password="passwordLength:3,encryptedPassword:x")),
    ),
    (
        "B08",
        "/config/brokers/1",
        replace(
            at("/config/brokers/1", config(ssl_key_password="a:b,encryptedPassword:x")),
            properties=(changed("c", CONTROLLER, {"password.encoder.secret": None}),),
        ),
    ),
    ("B09", "/config/users", locked()),
    ("B10", "/brokers/ids/1", at("/brokers/ids/1", js({"version": 4}))),
    ("B10", "/brokers/ids/2", without("/brokers/ids/2")),
    ("B10", "/feature", at("/feature", js({"version": 1, "features": {}}))),
    (
        "B11",
        "b: inter.broker.protocol.version",
        survey(broker={"inter.broker.protocol.version": "3.3"}),
    ),
    (
        "B11",
        "b: zookeeper.metadata.migration.enable",
        survey(broker={"zookeeper.metadata.migration.enable": None}),
    ),
    ("B11", "b: controller.quorum.voters", survey(broker={"controller.quorum.voters": None})),
    ("B11", "b: broker.id.generation.enable", survey(broker={"broker.id": None})),
    (
        "B11",
        "b: log.dirs",
        survey(broker={"log.dirs": "/a,/b", "inter.broker.protocol.version": "3.6"}),
    ),
    ("B12", "c: process.roles", survey(controller={"process.roles": "broker,controller"})),
    ("B12", "c: zookeeper.connect", survey(controller={"zookeeper.connect": None})),
    ("B12", "c: node.id", survey(controller={"node.id": "3009"})),
    (
        "B12",
        "c: zookeeper.metadata.migration.enable",
        survey(controller={"zookeeper.metadata.migration.enable": "false"}),
    ),
    ("W01", "/admin/delete_topics/t", at("/admin/delete_topics/t", None)),
    ("W01", "/admin/reassign_partitions", at("/admin/reassign_partitions", b"{}")),
    ("W01", "/admin/preferred_replica_election", at("/admin/preferred_replica_election", b"{}")),
    *(
        (
            "W02",
            "/brokers/topics/t/partitions/0/state",
            at("/brokers/topics/t/partitions/0/state", js({**STATE, **change})),
        )
        for change in SICK
    ),
    (
        "W02",
        "/brokers/topics/t/partitions/0/state",
        without("/brokers/topics/t/partitions/0/state"),
    ),
    (
        "W03",
        "/brokers/topics/t",
        at("/brokers/topics/t", topic(IDS[0], adding_replicas={"0": [3]})),
    ),
    (
        "W04",
        "/brokers/topics/t/partitions/0/state",
        at("/brokers/topics/t/partitions/0/state", js({**STATE, "controller_epoch": 9})),
    ),
    (
        "W04",
        "/controller",
        at("/controller", js({**json.loads(KRAFT), "brokerid": 3000, "kraftControllerEpoch": 3})),
    ),
    ("W04", "/controller_epoch", at("/controller_epoch", b"x")),
    ("W05", "/kafka-acl/Topic/t", at("/kafka-acl/Topic/t", acls(["User:a", "Fly", "Allow"]))),
    ("W05", "/kafka-acl/Planet/t", at("/kafka-acl/Planet/t", acls())),
    (
        "W05",
        "/kafka-acl/Topic/t",
        replace(
            at("/kafka-acl/Topic/t", acls(["User:a", "Read", "Deny"])),
            properties=(changed("c", CONTROLLER, {"kraftbridge.release": "3.6"}),),
        ),
    ),
    (
        "W05",
        "/kafka-acl/Topic/t",
        survey(
            {**good_nodes(), "/kafka-acl/Topic/t": acls(["User:a", "Read", "Deny"])},
            broker={"inter.broker.protocol.version": "3.6"},
        ),
    ),
    (
        "W05",
        "/kafka-acl-changes",
        survey({**good_nodes(), **{f"/kafka-acl-changes/{n}": b"" for n in range(1_000)}}),
    ),
    ("W06", "/config/users/<default>", at("/config/users/<default>", config(SCRAM="x"))),
    ("W07", "/config/topics/t", at("/config/topics/t", config(message_format_version="3.0"))),
    ("W07", "/config/topics/t", at("/config/topics/t", config(no_such="3.0"))),
    ("W07", "/config/brokers/1", at("/config/brokers/1", config(log_retention_ms="1"))),
    ("B07", "/brokers/topics/x", at("/brokers/topics/x", topic(IDS3, partitions={}))),
    ("B07", "/brokers/topics/x", at("/brokers/topics/x", topic(IDS3, partitions={"1": [1]}))),
    ("W08", "/config/topics/x", at("/config/topics/x", config())),
    ("W08", "/brokers/topics/t/partitions/7", at("/brokers/topics/t/partitions/7", None)),
    (
        "W09",
        "/brokers/topics/a_b",
        survey(
            {
                **good_nodes(),
                "/brokers/topics/a.b": topic("AAAAAAAAAAAAAAAAAAAAAw"),
                "/brokers/topics/a_b": topic("AAAAAAAAAAAAAAAAAAAABA"),
            }
        ),
    ),
    ("B20", "b: zookeeper.connect", survey(broker={"zookeeper.connect": "zk:2181/kafka"})),
    ("W10", "/k", survey({f"/k{path}": one for path, one in good_nodes().items()})),
    ("W11", "b: authorizer.class.name", survey(broker={"authorizer.class.name": "com.me.Mine"})),
    (
        "W11",
        "c: alter.config.policy.class.name",
        survey(controller={"alter.config.policy.class.name": "com.me.Policy"}),
    ),
    ("W12", "/config/topics/t", at("/config/topics/t", config(x="y" * 600_000))),
    (
        "W13",
        "b: inter.broker.protocol.version",
        survey(broker={"inter.broker.protocol.version": "3.5"}),
    ),
    (
        "W13",
        "b: inter.broker.protocol.version",
        survey(broker={"inter.broker.protocol.version": None}),
    ),
    (
        "B11",
        "b: listener.security.protocol.map",
        survey(broker={"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}),
    ),
    (
        "W14",
        "b: control.plane.listener.name",
        survey(broker={"control.plane.listener.name": "CONTROLLER"}),
    ),
    (
        "B21",
        "c: inter.broker.listener.name",
        survey(controller={"inter.broker.listener.name": "INTERNAL"}),
    ),
    (
        "W14",
        "c: authorizer.class.name",
        survey(
            broker={"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"},
        ),
    ),
    (
        "B12",
        "c: authorizer.class.name",
        survey(
            controller={"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"},
        ),
    ),
]


def test_a_good_tree_has_nothing_but_information() -> None:
    one = survey(round_trips=RoundTrips(1.0, 2.0))
    report = run(one)
    assert {one.severity for one in report.findings} == {Severity.INFO}
    assert ("B11", "no file of broker 2 given, which is not looked at") in [
        (one.code, one.why) for one in report.not_run
    ]
    ids = {"broker.id": "2", "node.id": "2"}
    second, later = changed("b2", BROKER, ids), changed("t2", TARGET, ids)
    whole = replace(one, properties=(*one.properties, second), targets=(*one.targets, later))
    left = [(one.code, one.why) for one in run(whole).not_run]
    assert left == [
        ("B26", "no listener was connected to: use --connect"),
        ("W18", "what a release of 4.x refuses: give --target-release 4.x"),
        ("W25", "the folders of brokers 1, 2 are not on this machine"),
    ]
    assert report.exit_code(strict=True) == 0


@pytest.mark.parametrize(("code", "znode", "bad"), BAD, ids=lambda one: str(one)[:20])
def test_a_bad_tree_is_found(code: str, znode: str, bad: Survey) -> None:
    good = run(survey(round_trips=RoundTrips(1.0, 2.0)))
    report = run(bad)
    assert znode in found(report, code)
    assert znode not in found(good, code)
    one = next(x for x in report.findings if x.code == code and x.znode == znode)
    assert one.fact
    assert one.consequence
    assert one.remedy
    assert one.reference
    letter = {"B": Severity.BLOCKER, "W": Severity.WARNING}[code[0]]
    assert one.severity in {letter, Severity.INFO}


def test_brokers_that_the_controller_cannot_call_are_said_to_get_nothing() -> None:
    report = run(survey(controller={"inter.broker.listener.name": "INTERNAL"}))
    said = [one.consequence for one in report.findings if one.code == "B21"]
    assert "the controller cannot connect to them: they get no leaders and no metadata" in said


def test_every_rule_has_a_bad_tree() -> None:
    judged = {code for code in RULES if not code.startswith("I")}
    assert judged == {code for code, _, _ in BAD} | {one.code for one in EVERY_CHANGE}


@pytest.mark.parametrize(
    ("severity", "strict", "code"),
    [
        (Severity.BLOCKER, False, 1),
        (Severity.WARNING, True, 4),
        (Severity.WARNING, False, 0),
        (Severity.INFO, True, 0),
    ],
)
def test_the_exit_code(severity: Severity, code: int, *, strict: bool) -> None:
    worst = {
        Severity.BLOCKER: at("/migration", None),
        Severity.WARNING: at("/admin/delete_topics/t", None),
        Severity.INFO: survey(),
    }
    assert run(worst[severity]).exit_code(strict=strict) == code


def test_what_is_not_there_is_not_to_be_repaired_or_deleted() -> None:
    (missing,) = [one for one in run(without("/controller_epoch")).findings if one.code == "B07"]
    assert missing.remedy.startswith("check the chroot of zookeeper.connect")
    (odd,) = [one for one in run(at("/brokers/ids/1", b"x")).findings if one.code == "B07"]
    assert odd.remedy.startswith("repair or delete the znode")


def test_an_offline_broker_that_is_known_only_warns() -> None:
    nodes = {k: v for k, v in good_nodes().items() if k != "/brokers/ids/1"}
    report = run(survey(nodes))
    (one,) = (x for x in report.findings if x.code == "B10")
    assert (one.znode, one.severity) == ("/brokers/ids/1", Severity.WARNING)


def test_a_topic_that_is_being_deleted_is_told_of_once() -> None:
    doomed = {
        "/admin/delete_topics/t": None,
        "/brokers/topics/t": topic(None, partitions={"0": [9]}, removing_replicas={"0": [9]}),
        "/brokers/topics/t/partitions/0/state": js({**STATE, "leader": -1}),
        "/config/topics/t": config(no_such="1"),
    }
    report = run(survey({**good_nodes(), **doomed}))
    told = [one for one in report.findings if one.severity is not Severity.INFO]
    assert [(one.code, one.znode) for one in told] == [("W01", "/admin/delete_topics/t")]


@pytest.mark.parametrize(
    ("broker", "code"),
    [
        ({"broker.id": None, "node.id": "1"}, "B11"),
        ({"inter.broker.protocol.version": "3.9-IV0"}, "W13"),
        ({"inter.broker.protocol.version": "3.9.2"}, "W13"),
    ],
)
def test_another_way_to_say_the_same_is_right(broker: dict[str, str | None], code: str) -> None:
    files = (*survey().properties, changed("another", BROKER, broker))
    assert not found(run(replace(survey(), properties=files)), code)


@pytest.mark.parametrize("strange", [None, 1, "x", [1], {"0": 1}, {"0": ["a", {}, None]}, [{}]])
@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/brokers/topics/t", "partitions"),
        ("/brokers/topics/t/partitions/0/state", "isr"),
        ("/cluster/id", "id"),
        ("/config/users/alice", "config"),
        ("/feature", "version"),
        ("/kafka-acl/Topic/t", "acls"),
    ],
)
def test_whatever_a_znode_holds_something_is_said(path: str, key: str, strange: object) -> None:
    value = json.loads(good_nodes()[path] or b"")
    bad = at(path, js({**value, key: strange}))
    report = run(bad)
    assert {one.code for one in report.findings} >= {"I01", "I02", "I03"}
    refused = {one.znode for one in bad.copy.refusals}
    assert refused <= {one.znode for one in report.findings if one.severity is Severity.BLOCKER}


def test_brokers_that_disagree_are_named() -> None:
    files = (*survey().properties, changed("a", BROKER, {"inter.broker.protocol.version": "3.8"}))
    (one,) = (x for x in run(replace(survey(), properties=files)).findings if x.code == "W13")
    assert (one.znode, one.fact) == (
        "inter.broker.protocol.version",
        "brokers disagree: 3.8, 3.9",
    )


def test_the_credentials_of_the_controller_open_what_is_its_own() -> None:
    assert not found(run(replace(locked(), identities=frozenset({"sasl:kafka"}))), "B09")
    assert found(run(replace(locked(), identities=frozenset({"sasl:other"}))), "B09")


def test_what_cannot_be_looked_at_is_listed() -> None:
    nodes = good_nodes()
    nodes["/config/brokers/1"] = config(ssl_key_password=REDACTED.decode())
    nodes["/config/users/bob"] = REDACTED
    nodes = {k: v for k, v in nodes.items() if not k.startswith("/brokers/ids/")}
    blind = replace(survey(nodes), properties=(), targets=(), folders=())
    listed = {one.code for one in run(blind).not_run}
    by_file = {"B04", "B05", "B11", "B12", "B15", "B17", "B20", "B21", "B22", "B23", "B24", "B25"}
    by_file |= {"W11", "W13", "W14", "W20", "W24"}
    assert listed == {*by_file, "B07", "B08", "B10", "B26", "I02", "W07", "W18"}


def test_a_real_cluster_may_migrate_and_one_rolled_back_may_not() -> None:
    before = run(of_dump(data.tree("3.9.2-full", "0-before")))
    assert before.count(Severity.BLOCKER) == 0
    assert found(before, "W03") == ["/brokers/topics/moving"]
    folder = "3.9.2-rollback-and-stale-migration-znode"
    rolled_back = run(of_dump(data.tree(folder, "5-rolled-back")))
    assert found(rolled_back, "B02") == ["/migration"]
    during = run(of_dump(data.tree(folder, "1-dualwrite")))
    assert found(during, "B03") == ["/controller"]


def test_counts_are_those_of_the_tree() -> None:
    report = run(of_dump(data.tree("3.9.2-full", "0-before")))
    (amounts,) = (one.fact for one in report.findings if one.code == "I01")
    assert amounts.startswith("151 znodes: 6 topics, 18 partitions, ")


def test_a_document_that_is_no_dump_is_refused() -> None:
    with pytest.raises(ValueError, match="nodes is missing"):
        of_dump({"tree": {}})
    with pytest.raises(ValueError, match="not as zk dump writes it"):
        of_dump({"nodes": {"/a": {"version": 0}}})


def test_without_the_extra_for_passwords_they_are_not_looked_at() -> None:
    encoded = at("/config/brokers/1", config(ssl_key_password="a:b,encryptedPassword:x"))
    report = run(replace(encoded, decodes=False))
    assert not found(report, "B08")
    assert any("[passwords]" in one.why for one in report.not_run)


def test_a_tree_of_one_owner_needs_the_login_only_where_a_login_is_configured() -> None:
    logs_in = (changed("c", CONTROLLER, {"zookeeper.set.acl": "true"}),)
    secured = replace(locked(), properties=logs_in)
    report = run(secured)
    assert not found(report, "B09")
    assert "sasl:kafka" in next(one.why for one in report.not_run if one.code == "B09")
    nodes = {**secured.nodes, "/config/ips": DumpedZnode(None, acl=((31, "sasl", "other"),))}
    assert len(found(run(replace(secured, nodes=nodes)), "B09")) == 2


def test_a_file_for_after_the_migration_is_no_file_to_begin_with() -> None:
    final = changed("f", CONTROLLER, {"zookeeper.metadata.migration.enable": None})
    one = survey()
    report = run(replace(one, properties=one.brokers, targets=(*one.targets, final)))
    assert not found(report, "B12")
    assert any(x.code == "B12" and "after the migration" in x.why for x in report.not_run)


def test_one_path_named_by_files_of_several_machines_is_of_the_node_that_it_names() -> None:
    def named(broker_id: str, meta_id: str) -> Properties:
        meta = {"version": "0", "broker.id": meta_id, **META}
        return replace(
            changed("b" + broker_id, BROKER, {"broker.id": broker_id}), metas={"/d": meta}
        )

    def b18(*files: Properties) -> list[str]:
        return found(run(replace(survey(), properties=files, targets=())), "B18")

    assert not b18(named("1", "2"), named("2", "2"))
    assert not b18(named("1", "7"), named("2", "7"))
    assert b18(named("1", "7")) == ["b1: meta.properties"]


@pytest.mark.parametrize("path", ["", "a", "//", "/a/", "/a//b", "a/b"])
def test_a_dump_with_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="no path of a znode"):
        of_dump({"nodes": {path: {"null": True}}})


def test_the_root_in_a_dump_is_no_tool() -> None:
    assert not found(run(of_dump({"nodes": {"/": {"null": True}}})), "W16")


def test_a_path_may_have_any_depth() -> None:
    deep = {"/a" * depth: None for depth in range(1, 1_500)}
    assert found(run(survey({**good_nodes(), **deep})), "W16") == ["/a"]
