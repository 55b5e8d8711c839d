"""A migration of real 3.9.2 brokers: the two stores, the clients, and the tool that compares."""

from __future__ import annotations

import json
import re

import pytest

from bench.judge.stores import differences
from emulator.commands.zk.compare import compare
from tests.integration.looking import the_claim, zk_ops
from tests.integration.migrated import ZK_DELAY_MS
from tests.integration.zookeeper_frames import CHECK, CREATE, MULTI, SET_DATA

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

WRITES = {1, 2, 5, 14, 15, 19, 20, 21}


# --- both stores


@pytest.mark.requirement("G10", "P18", "O04")
def test_both_stores_hold_every_change_once_the_lag_is_gone(story):
    tree, log = story.seen["stores"]
    assert differences(tree, log) == []
    assert story.seen["equal_after_s"] < max(10, 20 * story.seen["compare_s"])
    for store in (tree, log):
        assert len(store.topics["made"]["partitions"]) == 5
        assert store.configs["topics/made"] == {"retention.ms": "99999"}
        assert {"after-loss", "quick-2", "delayed-2"} <= store.topics.keys()
        assert "doomed" not in store.topics


@pytest.mark.requirement("W01")
def test_clients_do_not_wait_for_zookeeper(story):
    assert min(story.seen["delayed_s"]) < ZK_DELAY_MS / 1000
    assert sorted(story.seen["delayed_s"])[1] < ZK_DELAY_MS / 1000
    assert story.seen["lag_while_delayed"] > 0, "the delay did hold ZooKeeper back"


@pytest.mark.requirement("W03")
def test_every_multi_in_dual_write_is_conditional_on_the_migration_znode(story):
    [(claimed, _)] = the_claim(story)
    multis = [ops for at, code, ops in zk_ops(story.zk_tap) if code == MULTI and at > claimed]
    versions = []
    for ops in multis:
        [update] = [op for op in ops if op.path == "/migration"]
        assert update.code in (SET_DATA, CHECK)
        assert update.version >= 0
        versions.append(update.version)
    assert versions == sorted(versions)
    assert len(multis) > 20


@pytest.mark.requirement("W04", "Z02")
def test_the_migration_znode_follows_what_was_written(story):
    assert story.offsets == sorted(story.offsets)
    assert len(set(story.offsets)) > 3
    status = story.seen["status_at_the_end"]
    assert story.offsets[-1] <= status["migration"]["confirmed_offset"]
    tree, log = story.seen["stores"]
    assert tree.offset <= log.offset
    written = {}
    for _, code, ops in zk_ops(story.zk_tap):
        if code != MULTI:
            continue
        offsets = [
            o.json["kraft_metadata_offset"] for o in ops if o.path == "/migration" and o.data
        ]
        for op in ops:
            if op.code == CREATE and op.path.startswith("/brokers/topics/") and offsets:
                written[op.path] = offsets[0]
    made = next(
        r["offset"]
        for r in story.records
        if r["type"] == "TOPIC_RECORD" and r["data"]["name"] == "made"
    )
    assert written["/brokers/topics/made"] >= made


@pytest.mark.requirement("I01", "P19")
def test_brokers_write_no_metadata_to_zookeeper_after_the_claim(story):
    """Whatever the path: from it on, also during the copy, each writes its registration only."""
    [(claimed, _)] = the_claim(story)
    for broker, tap in zip(story.cluster.brokers, story.broker_zk_taps, strict=True):
        writes = [(code, ops) for at, code, ops in zk_ops(tap) if code in WRITES and at > claimed]
        assert all(ops for _, ops in writes), "a kind of write that is not read here"
        written = {op.path for _, ops in writes for op in ops if op.code != CHECK}
        assert written <= {f"/brokers/ids/{broker.id}"}


@pytest.mark.requirement("Z05")
def test_a_foreign_hand_on_the_epoch_ends_its_rule(story):
    assert "/controller_epoch" in story.seen["deposed"]


# --- clients


@pytest.mark.requirement("G02", "X01")
def test_three_client_libraries_go_through_all_phases_without_an_error(story):
    produced, consumed, verdict, confluent, java = story.seen["clients"]
    assert not produced.failed
    assert not consumed.failed
    assert verdict.held
    assert min(len(produced.acknowledged), consumed.consumed, confluent.acknowledged) > 100
    assert confluent.errors == []
    names = [json.loads(line)["name"] for line in java if line.startswith("{")]
    assert names.count("producer_send_success") > 100
    assert "producer_send_error" not in names


# --- the tool that compares


def named(story):
    found, _ = compare(story.cluster.zk, story.bridge.data)
    return {difference.path for difference in found}


def other(data):
    """The same JSON with every number in it one higher."""
    raised = re.sub(rb'(?<=[":\[,])\d+(?=["\],}])', lambda found: b"%d" % (int(found[0]) + 1), data)
    assert raised != data
    return raised


def test_zk_diff_finds_nothing_where_nothing_differs(story):
    assert story.seen["compared"] == []


@pytest.mark.parametrize(
    "path",
    [
        "/brokers/topics/kept",
        "/brokers/topics/kept/partitions/0/state",
        "/config/topics/kept",
        "/config/brokers/1",
        "/config/brokers/<default>",
        "/latest_producer_id_block",
        "/controller",
        "/controller_epoch",
        "/migration",
    ],
)
def test_a_znode_changed_by_a_foreign_hand_is_named(story, path):
    assert path not in named(story)
    data, _ = story.look.get(path)
    story.look.set(path, other(data) if data.startswith(b"{") else b"%d" % (int(data) + 7))
    try:
        assert path in named(story)
    finally:
        story.look.set(path, data)


@pytest.mark.parametrize("like", ["/brokers/topics/alone", "/config/topics/alone"])
def test_a_znode_made_by_a_foreign_hand_is_named(story, like):
    path = like.replace("alone", "foreign")
    story.look.create(path, story.look.get(like)[0])
    try:
        assert path in named(story)
    finally:
        story.look.delete(path)


def test_a_znode_removed_by_a_foreign_hand_is_named(story):
    path = "/config/topics/alone"
    data, _ = story.look.get(path)
    story.look.delete(path)
    try:
        assert path in named(story)
    finally:
        story.look.create(path, data)
