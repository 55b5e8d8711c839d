"""Brokers of the oldest bridge release, 3.4.1, prepared before any controller was there."""

from __future__ import annotations

import asyncio
import json
import shutil

import pytest
from kazoo.client import KazooClient

from bench.judge.stores import differences, dump_log, from_log, from_tree
from bench.load import cluster_api as api
from bench.rig.bridge import Bridge
from bench.rig.waiting import wait_for
from bench.rig.zk_dump import contents, dump

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

RELEASE = "3.4.1"
LEVEL = 8


@pytest.fixture(scope="module")
def run(module_brokers, tmp_path_factory):
    """One run to its orderly end; returns what was seen on the way."""
    folder = tmp_path_factory.mktemp("bridge")
    cluster = module_brokers(RELEASE, count=2)
    bridge = Bridge(folder, cluster.zk, release=RELEASE)
    try:
        yield migrate(cluster, bridge)
    finally:
        bridge.kill()


def migrate(cluster, bridge):
    first, second = (broker.bootstrap for broker in cluster.brokers)

    def shape(address=first):
        return asyncio.run(api.shape(address))

    before = shape()
    old = [api.topic("old", 3, 2, {"retention.ms": "1234567"}), api.topic("gone", 2, 2, {})]
    asyncio.run(api.create_topics(before.brokers[before.controller_id], old))
    cluster.migrate(bridge.port, rolling=False)
    nodes = contents(dump(cluster.zk))
    bridge.format(json.loads(nodes["/cluster/id"])["id"]).start().wait_started()
    status = bridge.wait_dual_write()
    wait_for("replicas in sync", lambda: not shape().short() and len(shape().brokers) == 2)
    asyncio.run(api.create_topics(first, [api.topic("new", 2, 2, {"cleanup.policy": "compact"})]))
    asyncio.run(api.set_configs(second, api.TOPIC, "old", {"retention.ms": "7654321"}))
    asyncio.run(api.delete_topic(second, "gone"))
    wait_for(
        "changes on both brokers",
        lambda: all("new" in s.topics and "gone" not in s.topics for s in (shape(), shape(second))),
    )
    bridge.wait_drained()
    cluster.stop()
    code = bridge.stop()
    tree = from_tree(contents(dump(cluster.zk)))
    records = dump_log(bridge.data)
    found = {"status": status, "code": code, "tree": tree, "records": records, "old": nodes}
    found |= roll_back(cluster, shape, second)
    return found | refused(cluster, bridge)


def roll_back(cluster, shape, second):
    """The controller is gone: free /controller, start the brokers as they were before."""
    client = KazooClient(cluster.zk)
    client.start()
    client.delete("/controller")
    # Those who come after a rollback delete them too, or are refused.
    client.delete("/migration")
    client.delete("/kraft_bridge")
    client.stop()
    client.close()
    for broker in cluster.brokers:
        broker.migration, broker.controller_port = False, None
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
                wait_for("a refusal", lambda at=newer: asked in (at.page("/metrics") or ""), 60)
            else:
                wait_for("the end of the broker", lambda: not broker.alive, 60)
            page = newer.page("/metrics") or ""
            errors = [line.split('"')[3] for line in page.splitlines() if line.startswith(asked)]
            found[level] = errors, newer.status()
        finally:
            broker.kill()
            newer.kill()
    return {"refused": found}


@pytest.mark.requirement("T06", "P08")
def test_brokers_that_were_prepared_first_migrate_when_the_controller_comes(run):
    assert "/migration" not in run["old"], "no controller had been there"
    assert run["status"]["metadata_version"]["level"] == LEVEL
    assert [one["kind"] for one in run["status"]["brokers"]] == ["zookeeper", "zookeeper"]


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


@pytest.mark.requirement("J06")
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
    copied = kinds.index("ZK_MIGRATION_STATE_RECORD", kinds.index("TOPIC_RECORD") - 50)
    assert run["status"]["metadata_version"]["level"] == LEVEL
    named = {
        record["data"]["name"]
        for record in run["records"][copied:]
        if record["type"] == "TOPIC_RECORD"
    }
    assert {"new"} <= named
    assert {"CONFIG_RECORD", "REMOVE_TOPIC_RECORD"} <= set(kinds[copied:])
