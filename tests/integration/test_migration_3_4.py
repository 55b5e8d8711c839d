"""Brokers of the oldest bridge release, 3.4.1, prepared before any controller was there.

The line to ZooKeeper of our controller is slow during the copy. That of Kafka's own controller is
held from before the claim to dual write, with a change of a topic on its way.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import ExitStack
from threading import Thread

import pytest
from typer.testing import CliRunner

from bench.judge.stores import differences, dump_log, from_log, from_tree
from bench.load import cluster_api as api
from emulator.cli import app
from emulator.servers.bridge import Bridge
from emulator.servers.fault_proxy import FaultProxy, FrameProtocol
from emulator.servers.kafka import CONTROLLER_ID
from emulator.servers.seeded import connected
from emulator.servers.waiting import wait_for
from emulator.servers.zk_dump import contents, dump
from tests.integration.looking import dual_writing, prepared
from tests.integration.migrated import CONTROL, FETCH, LIFE
from tests.integration.taps import Tap, key_of
from tests.integration.zookeeper_frames import CHECK, CREATE, MULTI, SET_DATA, decode
from tests.kit.requests import create_topics, reassign
from wire import messages as m
from wire.errors import ErrorCode
from wire.frame import decode_request, decode_response

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

RELEASE = "3.4.1"
LEVEL = 8
SESSION = "zookeeper.session.timeout.ms"
ELECT_LEADERS = 43
SLOW_MS = 50
MOVED = "Controller moved to another broker when processing"
GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


class Taps:
    """Proxies on every line."""

    def __init__(self, cluster, stack):
        self.stack = stack
        zk_port = int(cluster.zk.rpartition(":")[2])
        self.zk = stack.enter_context(FaultProxy(zk_port))
        self.of_brokers, self.to_brokers = [], []
        for broker in cluster.brokers:
            own = Tap(stack.enter_context(FaultProxy(zk_port))).keep()
            broker.zk = own.proxy.hosts
            # Longer than it is held.
            broker.extra[SESSION] = 30_000
            broker.extra["auto.create.topics.enable"] = "true"
            told = self.kafka(broker.internal_port).keep(lambda frame: key_of(frame) in CONTROL)
            broker.extra["advertised.listeners"] = (
                f"INTERNAL://{told.proxy.hosts},CLIENT://{broker.bootstrap}"
            )
            self.of_brokers.append(own)
            self.to_brokers.append(told)

    def kafka(self, port):
        return Tap(self.stack.enter_context(FaultProxy(port, FrameProtocol.KAFKA)))


@pytest.fixture(scope="module")
def run(module_brokers, tmp_path_factory):
    """One run to its orderly end; returns what was seen on the way."""
    folder = tmp_path_factory.mktemp("bridge")
    cluster = module_brokers(RELEASE, count=2, start=False)
    with ExitStack() as stack:
        taps = Taps(cluster, stack)
        bridge = Bridge(folder, taps.zk.hosts, release=RELEASE)
        stack.callback(bridge.kill)
        stack.callback(cluster.kill)
        cluster.start().wait_ready()
        yield migrate(cluster, bridge, taps)


def ask(address, request, version=None):
    return asyncio.run(api.call(address, request, version))


def topic_request(name):
    return create_topics(name, timeout_ms=2_000)


def elect_leaders(address):
    """The versions of ElectLeaders that a server lists."""
    found = ask(address, m.ApiVersionsRequest("proof", "1"))
    [one] = [each for each in found.api_keys if each.api_key == ELECT_LEADERS]
    return one.min_version, one.max_version


class Copy:
    """From before the claim to dual write: what is asked meanwhile, and what is answered.

    Kafka's own controller hears nothing of ZooKeeper, and a change of a topic is on its way. Once
    /controller is ours, our controller hears nothing of it either, until brokers have asked.
    """

    def __init__(self, cluster, bridge, taps):
        self.look = taps.stack.enter_context(connected(cluster.zk))
        self.cluster, self.bridge, self.taps = cluster, bridge, taps
        self.tap = taps.kafka(bridge.port).keep(lambda frame: key_of(frame) != FETCH)
        self.tap.keep_answers(lambda frame: key_of(frame) in LIFE)
        self.answers = {}

    def begin(self, name, address, request):
        def run():
            try:
                self.answers[name] = ask(address, request)
            except OSError as error:
                self.answers[name] = error

        thread = Thread(target=run, daemon=True)
        thread.start()
        return thread

    def play(self):
        look, brokers = self.look, self.cluster.brokers
        self.old = json.loads(look.get("/controller")[0])["brokerid"]
        self.topic, self.epoch = look.get("/brokers/topics/held")[1], look.get("/controller_epoch")
        old, other = brokers[self.old], brokers[1 - self.old]
        line = self.taps.of_brokers[self.old].proxy
        line.freeze()
        target = json.loads(look.get("/brokers/topics/held")[0])["partitions"]["0"][::-1]
        self.begin("held", old.bootstrap, moved("held", target))
        self.taps.zk.delay(to_server_ms=SLOW_MS)
        self.bridge.start().wait_started()
        wait_for("the claim", lambda: self.holder() == CONTROLLER_ID)
        self.taps.zk.freeze()
        self.during = [self.driver()]
        since = len(self.tap.answers)
        self.direct = ask(f"127.0.0.1:{self.bridge.port}", topic_request("direct"))
        early = self.begin("early", other.bootstrap, topic_request("early"))
        wait_for("heartbeats of both", lambda: len(self.beats(since)) == len(brokers))
        self.beaten = self.beats(since)
        self.during.append(self.driver())
        self.early_was_answered = "early" in self.answers
        self.taps.zk.delay()
        self.taps.zk.thaw()
        self.status = self.bridge.wait_dual_write()
        line.thaw()
        self.moved = wait_for(
            "the old controller's end",
            lambda: [one for one in old.log.read_text().splitlines() if MOVED in one],
        )
        early.join()
        self.unchecked = reconcile(self.bridge, "--dry-run")
        self.repaired = reconcile(self.bridge, "--yes")
        self.topic_after = look.get("/brokers/topics/held")[1]

    def holder(self):
        return json.loads(self.look.get("/controller")[0])["brokerid"]

    def driver(self):
        return self.bridge.wait_status("an answer", bool)["migration"]["driver_state"]

    def beats(self, since):
        """Broker -> error of its last heartbeat."""
        said = (decode_both(*each) for each in self.tap.answers[since:])
        return {
            asked.broker_id: answer.error_code
            for asked, answer in said
            if isinstance(asked, m.BrokerHeartbeatRequest)
        }


def reconcile(bridge, how):
    """Exit code of ``kraft-bridge zk reconcile``, and the znodes that it names."""
    options = ["--log-dir", str(bridge.data), "--url", bridge.url, how]
    result = CliRunner().invoke(app, ["zk", "reconcile", *options])
    return result.exit_code, {line.split()[1] for line in result.stdout.splitlines()[:-1]}


def decode_both(request, reply):
    header, asked = decode_request(request)
    return asked, decode_response(header.api_key, header.api_version, reply)[1]


def moved(topic, target):
    return reassign(topic, target, 0, timeout_ms=20_000)


def migrate(cluster, bridge, taps):
    first, second = (broker.bootstrap for broker in cluster.brokers)

    def shape(address=first):
        return asyncio.run(api.shape(address))

    before = shape()
    old = [
        api.topic("old", 3, 2, {"retention.ms": "1234567"}),
        api.topic("gone", 2, 2, {}),
        api.topic("held", 1, 2, {}),
    ]
    asyncio.run(api.create_topics(before.brokers[before.controller_id], old))
    listed = elect_leaders(first)
    copy = Copy(cluster, bridge, taps)
    cluster.migrate(copy.tap.proxy.port, rolling=False)
    cluster.wait_ready()
    wait_for("replicas in sync", lambda: not shape().short() and len(shape().brokers) == 2)
    nodes = contents(dump(cluster.zk))
    found = {"prepared_first": prepared(cluster.brokers, bridge)}
    bridge.format(json.loads(nodes["/cluster/id"])["id"])
    copy.play()
    status = copy.status
    found |= {"listed": (listed, elect_leaders(f"127.0.0.1:{bridge.port}"))}
    wait_for("replicas in sync", lambda: not shape().short() and len(shape().brokers) == 2)
    asyncio.run(api.create_topics(first, [api.topic("new", 2, 2, {"cleanup.policy": "compact"})]))
    asyncio.run(api.set_configs(second, api.TOPIC, "old", {"retention.ms": "7654321"}))
    asyncio.run(api.delete_topic(second, "gone"))
    wait_for(
        "changes on both brokers",
        lambda: all("new" in s.topics and "gone" not in s.topics for s in (shape(), shape(second))),
    )
    internal_topics(first, second)
    bridge.wait_drained()
    cluster.stop()
    code = bridge.stop()
    tree = from_tree(contents(dump(cluster.zk)))
    records = dump_log(bridge.data)
    found |= {"status": status, "code": code, "tree": tree, "records": records, "old": nodes}
    found |= {"copy": copy, "taps": taps}
    found |= roll_back(cluster, shape, second)
    return found | refused(cluster, bridge)


def internal_topics(first, second):
    """A coordinator of a group is looked for, and the metadata of the other one's topic."""
    group = m.FindCoordinatorRequest(key="a-group", key_type=0)
    wait_for("a coordinator", lambda: ask(first, group, 3).error_code == 0)
    kinds = m.MetadataRequest
    wanted = kinds(topics=[kinds.MetadataRequestTopic(name=TRANSACTIONS)])
    wanted.allow_auto_topic_creation = True
    wait_for("its metadata", lambda: ask(second, wanted, 8).topics[0].error_code == 0)


def roll_back(cluster, shape, second):
    """The controller is gone: free /controller, start the brokers as they were before."""
    with connected(cluster.zk) as client:
        client.delete("/controller")
        # Those who come after a rollback delete them too, or are refused.
        client.delete("/migration")
        client.delete("/kraft_bridge")
    for broker in cluster.brokers:
        broker.migration, broker.controller_port = False, None
        del broker.extra[SESSION]
    cluster.start().wait_ready()
    back = shape()
    controller = back.brokers[back.controller_id]
    asyncio.run(api.create_topics(controller, [api.topic("back", 2, 2, {})]))
    wait_for(
        "the topic on both brokers",
        lambda: all("back" in one.topics for one in (shape(), shape(second))),
    )
    return {"shape": shape(), "rolled_back": contents(dump(cluster.zk))}


def refused(cluster, bridge):
    """One of the brokers is sent to controllers above its level: it is told so, or cannot read on.

    At 3.5-IV2 a log holds nothing that 3.4.1 cannot decode; at 3.9-IV0 it does.
    """
    _, broker = cluster.brokers
    cluster_id = json.loads(contents(dump(cluster.zk))["/cluster/id"])["id"]
    asked = 'kraft_bridge_request_errors_total{api="BrokerRegistration",error="'
    found = {}
    for level in ("3.5", "3.9"):
        newer = Bridge(bridge.folder / level, cluster.zk)
        broker.stop()
        # What it had fetched of another log is gone as well.
        shutil.rmtree(broker.data / "__cluster_metadata-0", ignore_errors=True)
        try:
            newer.format(cluster_id, level).start().wait_started()
            broker.migrate(newer.port).start()
            if level == "3.5":
                wait_for("a refusal", lambda at=newer: asked in (at.page("/metrics") or ""))
            else:
                wait_for("the end of the broker", lambda: not broker.alive)
            page = newer.wait_page("/metrics")
            errors = [line.split('"')[3] for line in page.splitlines() if line.startswith(asked)]
            found[level] = errors, newer.wait_status("an answer", bool)
        finally:
            broker.kill()
            newer.kill()
    return {"refused": found}


@pytest.mark.requirement("T06", "P08")
def test_brokers_that_were_prepared_first_migrate_when_the_controller_comes(run):
    """The other order is in test_migration_real_brokers.py."""
    assert run["prepared_first"] == {"brokers": [True] * 2, "controller": False}
    assert "/migration" not in run["old"], "no controller had been there"
    assert run["status"]["metadata_version"]["level"] == LEVEL
    dual_writing(run["status"], brokers=2)
    for store in (run["tree"], from_log(run["records"])):
        assert "new" in store.topics, "a change of afterwards is in both"


def test_below_metadata_version_13_the_copy_needs_no_transaction(run):
    kinds = [record["type"] for record in run["records"]]
    assert "BEGIN_TRANSACTION_RECORD" not in kinds
    assert kinds.index("ZK_MIGRATION_STATE_RECORD") < kinds.index("TOPIC_RECORD")


def test_both_stores_are_equal_after_an_orderly_end(run):
    assert run["code"] == 0
    log = from_log(run["records"])
    assert differences(run["tree"], log) == []
    assert {"old", "new"} <= log.topics.keys()
    assert "gone" not in log.topics
    assert log.configs["topics/old"] == {"retention.ms": "7654321"}
    assert log.configs["topics/new"] == {"cleanup.policy": "compact"}


@pytest.mark.requirement("A05")
def test_after_a_rollback_a_zookeeper_controller_rules_on_the_tree_we_wrote(run):
    nodes = run["rolled_back"]
    holder = json.loads(nodes["/controller"])
    assert holder["kraftControllerEpoch"] == -1
    assert holder["brokerid"] in run["shape"].brokers
    assert int(nodes["/controller_epoch"]) > int(run["old"]["/controller_epoch"]) + 1
    assert {"old", "new", "back"} <= set(run["shape"].topics)
    assert json.loads(nodes["/config/topics/new"])["config"] == {"cleanup.policy": "compact"}
    state = json.loads(nodes["/brokers/topics/back/partitions/0/state"])
    assert state["controller_epoch"] == int(nodes["/controller_epoch"])


@pytest.mark.requirement("J06", "R11")
def test_a_broker_of_3_4_is_refused_above_its_level(run):
    """It offers 8 to 8. At 3.9 it does not come as far: its log reader ends it (Kafka 3.4.1)."""
    errors, status = run["refused"]["3.5"]
    assert errors == ["UNSUPPORTED_VERSION"]
    assert status["metadata_version"]["level"] == 11
    assert status["brokers"] == []
    assert "1" in {one["subject"] for one in status["migration"]["waiting"]}
    _, status = run["refused"]["3.9"]
    assert status["metadata_version"]["level"] == 21
    assert status["brokers"] == []


@pytest.mark.requirement("V02")
def test_at_3_4_iv0_brokers_forward_what_clients_ask_of_them(run):
    """The changes were asked of brokers, and stand in the controller's log behind the copy."""
    kinds = [record["type"] for record in run["records"]]
    copied = len(kinds) - kinds[::-1].index("ZK_MIGRATION_STATE_RECORD")
    assert run["status"]["metadata_version"]["level"] == LEVEL
    named = {
        record["data"]["name"]
        for record in run["records"][copied:]
        if record["type"] == "TOPIC_RECORD"
    }
    assert {"new"} <= named
    assert {"CONFIG_RECORD", "REMOVE_TOPIC_RECORD"} <= set(kinds[copied:])


@pytest.mark.requirement("R11")
def test_brokers_of_3_4_are_served_by_the_versions_that_they_know(run):
    """The newest registration is version 4; theirs has no field of it."""
    asked = run["copy"].tap.decoded
    versions = {h.api_version for _, h, x in asked if isinstance(x, m.BrokerRegistrationRequest)}
    assert versions == {1}
    said = [answer for _, _, answer in run["copy"].tap.answered()]
    assert ErrorCode.NONE in {one.error_code for one in said if hasattr(one, "broker_epoch")}
    assert [one["fenced"] for one in run["status"]["brokers"]] == [False, False]


@pytest.mark.requirement("V04")
def test_at_3_4_iv0_control_requests_have_their_new_versions(run):
    sent = {
        (type(message).__name__, header.api_version)
        for tap in run["taps"].to_brokers
        for _, header, message in tap.decoded
        if header.client_id == str(CONTROLLER_ID)
    }
    assert sent == {
        ("LeaderAndIsrRequest", 7),
        ("StopReplicaRequest", 4),
        ("UpdateMetadataRequest", 8),
    }


@pytest.mark.requirement("K21")
def test_the_versions_of_an_election_are_those_that_the_releases_own_broker_lists(run):
    theirs, ours = run["listed"]
    assert theirs == ours == (0, 2)


@pytest.mark.requirement("P11")
def test_during_the_copy_a_change_is_refused_and_heartbeats_are_answered(run):
    copy = run["copy"]
    assert "DUAL_WRITE" not in copy.during, "void: the copy had ended"
    [direct] = copy.direct.topics
    assert direct.error_code == ErrorCode.NOT_CONTROLLER
    assert not copy.early_was_answered
    assert copy.beaten == {0: ErrorCode.NONE, 1: ErrorCode.NONE}
    made = [r["data"]["name"] for r in run["records"] if r["type"] == "TOPIC_RECORD"]
    assert set(made[:3]) == {"old", "gone", "held"}, "what was copied"
    assert not {"direct", "early"} & {*made}


@pytest.mark.requirement("E01")
def test_what_kafkas_own_controller_had_on_its_way_at_the_claim_is_refused(run):
    copy = run["copy"]
    _, before = copy.epoch
    wrote = [
        ops
        for code, ops in (decode(frame) for _, frame in run["taps"].of_brokers[copy.old].kept)
        if code == MULTI
        and any(op.code == SET_DATA and op.path == "/brokers/topics/held" for op in ops)
    ]
    assert wrote, "void: it wrote nothing"
    for ops in wrote:
        [check] = [op for op in ops if op.code == CHECK]
        assert (check.path, check.version) == ("/controller_epoch", before.version)
    assert copy.moved
    assert copy.topic_after.mzxid == copy.topic.mzxid


def test_what_the_old_controller_writes_without_a_check_is_named_and_was_no_success(run):
    """A topic that it was asked for; ZooKeeper cannot refuse it, as no epoch is checked with it."""
    copy = run["copy"]
    decoded = [decode(frame) for _, frame in run["taps"].of_brokers[copy.old].kept]
    plain = {ops[0].path for code, ops in decoded if code == CREATE}
    early = {"/brokers/topics/early", "/config/topics/early"}
    assert early <= plain
    assert [one.error_code for one in copy.answers["early"].topics] == [ErrorCode.REQUEST_TIMED_OUT]
    assert copy.unchecked == (1, early)
    assert copy.repaired == (0, early)


@pytest.mark.requirement("I06", "I07")
@pytest.mark.parametrize("name", [GROUPS, TRANSACTIONS])
def test_internal_topics_that_brokers_need_are_created_by_the_controller(run, name):
    """Of the group's coordinator when it is looked for, the other by a request for metadata."""
    tap = run["copy"].tap
    forwarded = [decode_request(one.request_data)[1] for one in tap.of(m.EnvelopeRequest)]
    asked = [*tap.of(m.CreateTopicsRequest), *forwarded]
    assert name in {
        topic.name
        for one in asked
        if isinstance(one, m.CreateTopicsRequest)
        for topic in one.topics
    }
    assert f"/brokers/topics/{name}" not in run["old"], "void: it was there"
    assert name in run["tree"].topics
    assert name in {r["data"].get("name") for r in run["records"] if r["type"] == "TOPIC_RECORD"}
