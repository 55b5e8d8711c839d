"""Files of several controllers, dumps without secrets, and trees as old clusters have them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from emulator.commands.status_nodes import of_files
from emulator.config.load import load
from emulator.operations.next_steps import of_preflight
from emulator.operations.preflight.engine import Severity
from emulator.operations.preflight.node_file import ENABLE
from emulator.operations.preflight.report import run
from emulator.operations.preflight.survey import REDACTED, RoundTrips, Survey, of_dump
from tests.unit.operations.preflight import changes
from tests.unit.operations.preflight.changes import claimed, marked, put, then
from tests.unit.operations.preflight.clean import ACL, clean
from tests.unit.operations.preflight.test_rules import (
    BROKER,
    CONTROLLER,
    STATE,
    at,
    changed,
    config,
    found,
    good_nodes,
    js,
    survey,
)

KEY = "listener.name.sasl.ssl.keystore.password"
SECRET = "password.encoder.secret"
HERE = "/config/brokers/1"


def controllers(one: Survey, *secrets: str | None) -> Survey:
    """The same tree, with a controller for each value of the secret (None: not set)."""
    files = [
        changed(f"c{number}", CONTROLLER, {"node.id": str(3000 + number), SECRET: secret})
        for number, secret in enumerate(secrets)
    ]
    return replace(one, properties=tuple(files))


@pytest.mark.parametrize("value", ["passwordLength:3,encryptedPassword:x", REDACTED.decode()])
def test_one_controller_of_three_without_the_secret_is_a_blocker(value: str) -> None:
    tree = at(HERE, config(**{KEY: value}))
    report = run(replace(controllers(tree, "s", None, "s"), decodes=False))
    (one,) = (one for one in report.findings if one.code == "B08")
    assert (one.znode, one.severity) == (HERE, Severity.BLOCKER)
    assert one.fact.endswith("and password.encoder.secret is not set in c1")
    assert "x" not in one.fact.split()


def test_a_password_left_out_of_a_dump_needs_the_secret_on_the_controllers() -> None:
    tree = at(HERE, config(**{KEY: REDACTED.decode()}))
    assert found(run(controllers(tree, None)), "B08") == [HERE]
    own = at(HERE, config(**{"my.token": REDACTED.decode()}))
    assert not found(run(controllers(own, None)), "B08"), "only Kafka's passwords are encoded"
    assert not found(run(replace(tree, properties=())), "B08"), "no file, nothing known"


def test_a_password_left_out_of_a_dump_is_said_to_be_not_looked_at() -> None:
    report = run(controllers(at(HERE, config(**{KEY: REDACTED.decode()})), "s"))
    assert not found(report, "B08")
    assert [one.why for one in report.not_run if one.code == "B08"] == [
        f"{HERE}: {KEY} was left out of the dump as a secret"
    ]


def test_offsets_of_old_consumers_are_counted_by_partition() -> None:
    nodes = {
        "/consumers/g/offsets": b"",
        "/consumers/g/offsets/t": b"",
        "/consumers/g/offsets/t/0": b"17",
        "/consumers/g/offsets/t/1": b"4",
    }
    report = run(survey({**good_nodes(), **nodes}))
    (one,) = (one for one in report.findings if one.code == "W17")
    assert one.fact == "offsets of 2 partitions in ZooKeeper"


def test_a_listener_of_controllers_without_a_protocol_is_a_blocker() -> None:
    """The node does not start: no warning, with which the exit code would be 0."""
    for more in (
        survey(broker={"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}),
        survey(controller={"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}),
    ):
        report = run(more)
        found_ = [one for one in report.findings if one.fact == "has no entry for CONTROLLER"]
        assert {one.severity for one in found_} == {Severity.BLOCKER}
        assert report.exit_code(strict=False) == 1


def test_configs_of_topics_without_any_topic_are_a_blocker() -> None:
    """A /brokers/topics that was deleted and made anew has no changes of its children."""
    kept = {k: v for k, v in good_nodes().items() if not k.startswith("/brokers/topics/")}
    report = run(survey(kept))
    (one,) = (one for one in report.findings if one.code == "B14")
    assert (one.znode, one.severity) == ("/brokers/topics", Severity.BLOCKER)
    assert one.fact == "empty, and 2 topics still have a config in /config/topics"
    never = {k: v for k, v in kept.items() if not k.startswith("/config/topics/")}
    assert not found(run(survey(never)), "B14"), "a new cluster has no topics yet"


@pytest.mark.parametrize(
    ("of_brokers", "of_controllers", "told"),
    [
        ("zk:2181/kafka", "zk:2181", "chroot '/kafka', and c has '/'"),
        ("zk:2181", "zk:2181/kafka", "chroot '/', and c has '/kafka'"),
    ],
)
def test_without_a_connection_chroots_are_compared_with_the_controllers(
    of_brokers: str, of_controllers: str, told: str
) -> None:
    """A dump does not say below which chroot it was read."""
    key = "zookeeper.connect"
    report = run(survey(broker={key: of_brokers}, controller={key: of_controllers}))
    (one,) = (one for one in report.findings if one.code == "B20")
    assert (one.znode, one.fact) == ("b: zookeeper.connect", told)
    assert one.severity is Severity.BLOCKER


def test_with_a_connection_a_chroot_is_compared_with_what_was_read() -> None:
    key = "zookeeper.connect"
    told = survey(broker={key: "zk:2181/kafka"}, controller={key: "zk:2181/kafka"})
    live = replace(told, round_trips=RoundTrips(1.0, 1.0), chroot="/old")
    facts = {one.znode: one.fact for one in run(live).findings if one.code == "B20"}
    fact = "chroot '/kafka', and the tree that was read has '/old'"
    assert facts == {"b: zookeeper.connect": fact, "c: zookeeper.connect": fact}


def test_files_that_agree_and_name_another_tree_than_the_one_that_was_read() -> None:
    key = "zookeeper.connect"
    told = survey(broker={key: "zk:2181/kafka"}, controller={key: "zk:2181/kafka"})
    assert found(run(replace(told, round_trips=RoundTrips(1.0, 1.0))), "B20")
    assert not found(run(told), "B20"), "a dump may have been made below that chroot"


def test_a_file_to_come_in_kraft_mode_is_not_that_of_the_migration() -> None:
    """With ``--target`` nothing said that the brokers' files are those of before step 2."""
    keys = (ENABLE, "controller.quorum.voters", "controller.listener.names")
    untouched = survey(broker=dict.fromkeys(keys))
    (told,) = (one for one in run(untouched).findings if one.code == "B11")
    assert (told.severity, told.znode) == (Severity.INFO, f"b: {ENABLE}")
    for_migration = replace(survey().brokers[0], name="m")
    both = replace(untouched, targets=(*untouched.targets, for_migration))
    assert not found(run(both), "B11"), "it is among those to come"


@pytest.mark.parametrize(("key", "value"), [("broker.id", "one"), ("node.id", "99999999999")])
def test_an_id_that_is_no_number_is_not_called_generated(key: str, value: str) -> None:
    report = run(survey(broker={"broker.id": None, key: value}))
    (one,) = (x for x in report.findings if x.code == "B11")
    assert (one.znode, one.fact) == (f"b: {key}", f"{value!r} is no id")


def test_users_and_tokens_with_a_secret_left_out_are_said_to_be_not_looked_at() -> None:
    """Only a part of their data is left out, and the copy may refuse another part."""
    hidden = REDACTED.decode()
    token = {"version": 3, "tokenId": "a", "issueTimestamp": "no number", "hmac": hidden}
    nodes = {
        "/config/users/bob": config(**{"SCRAM-SHA-256": hidden}),
        "/config/brokers/1": config(**{KEY: hidden}),
        "/delegation_token/tokens/a": js(token),
    }
    report = run(survey({**good_nodes(), **nodes}))
    assert not found(report, "B07")
    (why,) = (one.why for one in report.not_run if one.code == "B07")
    assert why.startswith("2 znodes with secrets left out of the dump, the first /config/users/bob")


def test_controllers_that_cannot_log_in_to_each_other_are_a_blocker() -> None:
    """Without a mechanism of its own a voter uses GSSAPI, whatever its listener accepts."""
    three = {"controller.quorum.voters": "3000@c:9093,3001@d:9093,3002@e:9093"}
    plain = {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
    }
    key = "sasl.mechanism.controller.protocol"
    report = run(survey(broker={**three, **plain, key: "PLAIN"}, controller={**three, **plain}))
    told = {one.znode: one for one in report.findings if one.code == "B22"}
    assert f"c: {key}" in told, "the file of one voter stands for the others"
    assert told[f"c: {key}"].fact == "not set, so GSSAPI; c accepts PLAIN"
    assert told[f"c: {key}"].severity is Severity.BLOCKER
    assert f"b: {key}" not in told
    alone = {"listeners": "CONTROLLER://c:9093", **plain}
    report = run(survey(broker={**plain, key: "PLAIN"}, controller=alone))
    assert f"c: {key}" not in found(report, "B22"), "one voter logs in to nobody"


def test_the_listener_of_a_controller_may_be_another_one_that_the_brokers_have() -> None:
    """It is odd, but they are reached there: a warning. One that they lack is a blocker."""
    protocols = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"
    both = {"listener.security.protocol.map": protocols}
    here = {**both, "listeners": "PLAINTEXT://:9092,OTHER://:9093"}
    there = {**both, "inter.broker.listener.name": "OTHER"}
    (odd,) = (x for x in run(survey(broker=here, controller=there)).findings if x.code == "B21")
    assert (odd.severity, odd.fact) == (Severity.WARNING, "OTHER; brokers have PLAINTEXT")
    (fatal,) = (x for x in run(survey(broker=both, controller=there)).findings if x.code == "B21")
    assert fatal.severity is Severity.BLOCKER
    assert fatal.fact == "OTHER; broker 1 has no listener of that name"


def test_names_of_listeners_are_compared_in_upper_case() -> None:
    """As Kafka takes them, whatever the files say."""
    upper = {"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,IN:PLAINTEXT"}
    lower = {"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,in:PLAINTEXT"}
    name = "inter.broker.listener.name"
    registered = {"version": 5, "listener_security_protocol_map": {"IN": "PLAINTEXT"}}
    nodes = {**good_nodes(), "/brokers/ids/1": js(registered)}
    for broker, controller in ((upper, lower), (lower, upper)):
        one = {**broker, "listeners": "In://:9092", name: "in"}
        report = run(survey(nodes, broker=one, controller={**controller, name: "iN"}))
        assert not found(report, "B21"), report.findings
        report = run(survey(nodes, broker=one, controller={**controller, name: "out"}))
        assert found(report, "B21")


def test_a_connect_string_of_a_config_provider_is_said_not_to_be_compared() -> None:
    key = "zookeeper.connect"
    filled_in = {key: "${file:/etc/kafka/zk.properties:zookeeper}", "config.providers": "file"}
    report = run(survey(broker=filled_in))
    assert not found(report, "B20")
    told = "b takes zookeeper.connect from a config provider, which is not asked here"
    assert told in [one.why for one in report.not_run if one.code == "B20"]


@pytest.mark.parametrize(
    ("code", "key"),
    [
        ("B16", "controller.quorum.voters"),
        ("B16", "controller.quorum.bootstrap.servers"),
        ("B11", "inter.broker.protocol.version"),
    ],
)
def test_what_a_config_provider_fills_in_is_said_not_to_be_judged(code: str, key: str) -> None:
    filled_in = {key: "${file:/etc/kafka/own.properties:told}", "config.providers": "file"}
    report = run(survey(broker=filled_in))
    assert not found(report, code), report.findings
    told = f"b takes {key} from a config provider, which is not asked here"
    assert told in [one.why for one in report.not_run if one.code == code]


def test_a_broker_that_is_not_restarted_yet_may_have_the_listener_in_its_file_only() -> None:
    registered = {"version": 5, "listener_security_protocol_map": {"OLD": "PLAINTEXT"}}
    report = run(survey({**good_nodes(), "/brokers/ids/1": js(registered)}))
    (one,) = (x for x in report.findings if x.code == "B21")
    assert one.severity is Severity.WARNING
    assert "broker 1 has it in the file or in /brokers/ids only" in one.fact
    registered["listener_security_protocol_map"] = {"PLAINTEXT": "PLAINTEXT"}
    assert not found(run(survey({**good_nodes(), "/brokers/ids/1": js(registered)})), "B21")
    report = run(survey({**good_nodes(), "/brokers/ids/2": js({**registered, **OLD})}))
    assert [x.severity for x in report.findings if x.code == "B21"] == [Severity.BLOCKER]


OLD = {"listener_security_protocol_map": {"OLD": "PLAINTEXT"}}


def test_the_deletion_of_no_topic_names_no_brokers() -> None:
    report = run(survey({**good_nodes(), "/admin/delete_topics/none": None}))
    (one,) = (x for x in report.findings if x.code == "W01")
    assert one.remedy == "delete the znode"
    assert "no topic of that name" in one.fact


def test_a_pending_deletion_names_the_brokers_that_it_waits_for() -> None:
    nodes = {**good_nodes(), "/admin/delete_topics/t": None}
    (one,) = (x for x in run(survey(nodes)).findings if x.code == "W01")
    assert one.fact == "its deletion is pending"
    del nodes["/brokers/ids/2"]
    (one,) = (x for x in run(survey(nodes)).findings if x.code == "W01")
    assert one.fact == "its deletion is pending; replicas of it are on broker 2, absent"
    assert one.remedy == "let the deletion end: start broker 2"


@pytest.mark.parametrize(
    ("change", "fact", "remedy"),
    [
        ({"leader": -1}, "no leader", "its brokers are all there: elect a leader"),
        ({"isr": []}, "empty ISR", "start the brokers that hold its replicas"),
        ({"isr": [1, 9]}, "9 of the ISR is no replica (1, 2)", "move the partition"),
        ({"isr": [2]}, "leader 1 is not in the ISR (2)", "move the partition"),
    ],
)
def test_the_remedy_of_a_partition_fits_what_is_wrong(
    change: dict[str, object], fact: str, remedy: str
) -> None:
    path = "/brokers/topics/t/partitions/0/state"
    report = run(at(path, js({**STATE, **change})))
    (one,) = (x for x in report.findings if x.code == "W02")
    assert (one.fact, one.remedy[: len(remedy)]) == (fact, remedy)


def test_one_of_a_kind_is_named_in_the_singular() -> None:
    report = run(survey({**good_nodes(), "/config/users/bob": config(**{"SCRAM-SHA-256": "x"})}))
    (amounts,) = (one.fact for one in report.findings if one.code == "I01")
    assert ", 1 SCRAM credential, " in amounts
    (records,) = (x.fact for x in report.findings if x.code == "I02" and "batch" in x.fact)
    assert records.endswith(" in about 1 batch of 200")


def test_a_file_for_after_the_migration_need_not_reach_zookeeper_mode_brokers() -> None:
    """Nor does the connect string count that a KRaft broker's file still has."""
    one = survey(controller={"inter.broker.listener.name": None})
    later = changed(
        "f",
        CONTROLLER,
        {"zookeeper.metadata.migration.enable": None, "inter.broker.listener.name": "OTHER"},
    )
    kraft = changed("k", CONTROLLER, {"process.roles": "broker", "zookeeper.connect": "zk:2181/x"})
    report = run(replace(one, properties=(*one.brokers, kraft), targets=(later,)))
    assert not found(report, "B21")
    assert not found(report, "B20")
    assert any(x.code == "B21" and "after the migration" in x.why for x in report.not_run)


@pytest.mark.parametrize(
    "node",
    [
        {},
        {"text": 1},
        {"text": None},
        {"b64": 1},
        {"text": "", "version": None},
        {"text": "", "acl": [[31]]},
        {"text": "", "acl": ["31"]},
        {"text": "", "acl": 1},
        {"text": "", "mtime": None},
        {"null": True, "cversion": 1e999},
        {"b64": "no base64"},
        {"text": "", "version": "a"},
        {"text": "", "mtime": "a"},
        [],
        "text",
        None,
    ],
)
def test_a_znode_that_zk_dump_did_not_write_is_a_sentence(node: object) -> None:
    with pytest.raises(ValueError, match=r"^/a is not as zk dump writes it: "):
        of_dump({"nodes": {"/": {"null": True}, "/a": node}})


@pytest.mark.parametrize("time", [float("nan"), 1e999])
def test_a_time_that_is_none_is_a_sentence(time: float) -> None:
    with pytest.raises(ValueError, match=r"^time (nan|inf) is not as zk dump writes it"):
        of_dump({"nodes": {}, "time": time})


def test_a_brokers_folder_of_another_cluster_is_not_to_be_formatted() -> None:
    """It holds the broker's data; only a controller's folder may be made anew."""
    one = survey()
    files = [replace(x, meta={**x.meta, "cluster.id": "other"}) for x in one.properties]
    told = [x for x in run(replace(one, properties=files)).findings if x.code == "B04"]
    by_kind = {"of c says" in x.fact: x for x in told}
    assert by_kind[True].remedy.startswith("format the folder anew")
    assert "INCONSISTENT_CLUSTER_ID" in by_kind[True].consequence
    assert "format" not in by_kind[False].remedy
    assert by_kind[False].consequence.startswith("the broker does not start")


def test_acls_of_zookeeper_let_the_brokers_in_after_the_copy_only() -> None:
    """Before it they are not in the controllers' log, and the brokers do not get in to begin it."""
    entry = {"principal": "User:broker", "permissionType": "Allow", "operation": "ClusterAction"}
    acl = js({"version": 1, "acls": [{**entry, "host": "*"}]})
    lacking = changes.controller({"super.users": "User:nobody", "authorizer.class.name": ACL})
    before = lacking(put("/kafka-acl/Cluster/kafka-cluster", acl)(clean("secured")))
    told = [x for x in run(before).findings if x.code == "B19"]
    assert {x.severity for x in told} == {Severity.BLOCKER}
    assert any("/kafka-acl/Cluster/kafka-cluster lets it do ClusterAction" in x.fact for x in told)
    assert not found(run(then(claimed(), marked(758))(before)), "B19")


def test_a_broker_whose_id_zookeeper_made_is_not_taken_for_another_than_its_target() -> None:
    """Its file has no id: that it cannot migrate so is B11's finding, and no address is twice."""
    one = clean("plain")
    files = [
        replace(x, values={k: v for k, v in x.values.items() if k != "broker.id"})
        if x.is_zookeeper_broker
        else x
        for x in one.properties
    ]
    report = run(replace(one, properties=files))
    assert found(report, "B11")
    assert not found(report, "B24")


@pytest.mark.parametrize(
    ("folders", "log_dir"),
    [
        ({"metadata.log.dir": "/m,1", "log.dirs": "/a,/b", "log.dir": "/c"}, "/m,1"),
        ({"log.dirs": "/a/../a, /b", "log.dir": "/c"}, "/a/../a"),
        ({"log.dir": "/c,/d"}, "/c"),
    ],
)
def test_every_verb_looks_for_a_controllers_log_where_it_writes_it(
    folders: dict[str, str], log_dir: str, tmp_path: Path
) -> None:
    """Three functions had three answers where a value has a comma, or a longer path."""
    file = changed("c", CONTROLLER, folders)
    assert load(file.values)[0].log_dir == log_dir
    path = tmp_path / "c.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in file.values.items()))
    assert [one.folder for one in of_files([path])] == [Path(log_dir)]
    brokers = changed("b", BROKER, {"log.dirs": "/x"})
    formatted = replace(survey(), properties=(brokers, file), folders=())
    typed = [one.command for one in of_preflight(run(formatted))]
    assert typed == [f"kraft-bridge preflight OPTIONS --controller-dir {log_dir}"]


@pytest.mark.parametrize(
    ("ibp", "severity", "remedy"),
    [
        ("3.8", Severity.WARNING, "set it to 3.8 too"),
        ("3.9", Severity.INFO, "nothing to do while all brokers run the same release; else "),
        (None, Severity.INFO, "nothing to do while all brokers run the same release; else "),
    ],
)
def test_a_protocol_that_only_some_brokers_set_may_be_another_one(
    ibp: str | None, severity: Severity, remedy: str
) -> None:
    """What is not set is the newest of a release, and 3.9 is the last in ZooKeeper mode.

    *Set it* was the remedy, also where nothing is to be done.
    """
    key = "inter.broker.protocol.version"
    files = [
        changed("a", BROKER, {key: ibp}),
        changed("b", BROKER, {key: None, "broker.id": "2", "node.id": "2"}),
    ]
    report = run(replace(survey(), properties=files))
    told = [x for x in report.findings if (x.code, x.znode) == ("W13", f"b: {key}")]
    assert [x.severity for x in told] == [severity]
    assert told[0].remedy.startswith(remedy)
