"""The judge sees what differs, and only that."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.demo.narrator import Narrator
from bench.demo.strain import unled
from bench.demo.verdict import elected_ns, never_there, stop, undeleted, unlike
from bench.judge import stores
from bench.judge.stores import at_one_offset, differences, from_log, from_tree, read_dump
from bench.load.admin import AdminResult
from bench.load.changes import TopicState
from bench.load.cluster_api import Shape
from bench.load.records import UNKNOWN_OFFSET, Acknowledged, ConsumeResult
from emulator.servers.zk_dump import UnreadableError

ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def record(kind, **data):
    return {"type": kind, "data": data}


def log(*more):
    partition = {
        "partitionId": 0,
        "topicId": ID,
        "replicas": [0, 1],
        "isr": [0, 1],
        "addingReplicas": [],
        "removingReplicas": [],
        "leader": 0,
        "leaderEpoch": 3,
        "partitionEpoch": 0,
    }
    records = [
        record("TOPIC_RECORD", name="t", topicId=ID),
        record("PARTITION_RECORD", **partition),
        record("CONFIG_RECORD", resourceType=2, resourceName="t", name="a", value="1"),
        record("CONFIG_RECORD", resourceType=4, resourceName="", name="b", value="2"),
        record("PRODUCER_IDS_RECORD", nextProducerId=1000),
        *more,
    ]
    return from_log({**one, "offset": offset} for offset, one in enumerate(records))


def nodes():
    state = {"isr": [0, 1], "leader": 0, "leader_epoch": 3, "version": 1, "controller_epoch": 1}
    found = {
        "/brokers/topics/t": {"topic_id": ID, "partitions": {"0": [0, 1]}, "version": 3},
        "/brokers/topics/t/partitions/0/state": state,
        "/config/topics/t": {"version": 1, "config": {"a": "1"}},
        "/config/brokers/<default>": {"version": 1, "config": {"b": "2"}},
        "/latest_producer_id_block": {"block_start": "0", "block_end": "999"},
    }
    return {path: json.dumps(value).encode() for path, value in found.items()}


def test_equal_stores_differ_in_nothing():
    assert differences(from_tree(nodes()), log()) == []


@pytest.mark.parametrize(
    ("path", "change", "named"),
    [
        ("/brokers/topics/t", {"partitions": {"0": [1, 0]}}, "topic t partitions 0 replicas"),
        ("/brokers/topics/t", {"topic_id": "B"}, "topic t id"),
        ("/brokers/topics/t/partitions/0/state", {"isr": [0]}, "topic t partitions 0 isr"),
        ("/brokers/topics/t/partitions/0/state", {"leader_epoch": 4}, "leader_epoch"),
        ("/config/topics/t", {"config": {"a": "2"}}, "config topics/t a"),
        ("/config/topics/t", {"config": {}}, "config topics/t"),
        ("/config/brokers/<default>", {"config": {"b": "2", "c": "3"}}, "brokers/<default> c"),
        ("/latest_producer_id_block", {"block_end": "1999"}, "next producer id"),
    ],
)
def test_each_difference_is_named(path, change, named):
    tree = nodes()
    tree[path] = json.dumps({**json.loads(tree[path]), **change}).encode()
    [line] = differences(from_tree(tree), log())
    assert named in line


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        ("user", "CN=a *~", "users/CN%3Da%20%2A%7E"),
        ("client-id", "..", "clients/%2E%2E"),
        ("ip", "::1", "ips/::1"),
        ("user", None, "users/<default>"),
    ],
)
def test_a_quota_is_found_under_the_name_of_its_znode(kind, name, path):
    entity = [{"entityType": kind, "entityName": name}]
    quota = record("CLIENT_QUOTA_RECORD", entity=entity, key="k", value=1.5, remove=False)
    tree = nodes()
    tree[f"/config/{path}"] = json.dumps({"version": 1, "config": {"k": "1.5"}}).encode()
    assert differences(from_tree(tree), log(quota)) == []


def test_changes_of_partitions_and_deletions_are_replayed():
    changed = record("PARTITION_CHANGE_RECORD", topicId=ID, partitionId=0, leader=1, isr=[1])
    partition = log(changed).topics["t"]["partitions"][0]
    assert (partition["leader"], partition["leader_epoch"], partition["isr"]) == (1, 4, [1])
    gone = log(record("REMOVE_TOPIC_RECORD", topicId=ID))
    assert gone.topics == {}
    assert set(gone.configs) == {"brokers/<default>"}


@pytest.mark.parametrize("ends", [[], ["ABORT_TRANSACTION_RECORD"]])
def test_a_transaction_that_did_not_end_well_leaves_no_trace(ends):
    inside = record("CONFIG_RECORD", resourceType=2, resourceName="t", name="a", value="9")
    found = log(
        record("BEGIN_TRANSACTION_RECORD", name="x"),
        copy.deepcopy(inside),
        *(record(one) for one in ends),
    )
    before = log()
    assert (found.topics, found.configs) == (before.topics, before.configs)


def test_a_deletion_that_was_answered_and_not_done_is_named():
    """Both stores agree on the topic: only who asked for its end knows."""
    held = log(record("TOPIC_RECORD", name="load-7", topicId="B" * 22))
    result = AdminResult(topics={}, doubtful=set())
    assert undeleted(result, held) == ["topic load-7 is there, though its deletion was answered"]
    assert undeleted(AdminResult(topics={"load-7": TopicState(1)}), held) == []
    assert undeleted(AdminResult(doubtful={"load-7"}), held) == []


def test_a_topic_that_was_lost_before_it_was_to_be_deleted_is_named():
    """The deletion was in doubt, and met no topic: no store says that there ever was one."""
    result = AdminResult(deleted={"t"})
    [line] = never_there(result, log())
    assert line == "topic t was deleted, as was answered, and the log says nothing of it"
    assert never_there(result, log(record("REMOVE_TOPIC_RECORD", topicId=ID))) == []


@pytest.mark.parametrize(
    ("brokers", "controllers", "held"),
    [
        ([143, 143, 143], [0, 0, 0], True),
        ([143, -9, 143], [0, 0, 0], False),  # it had to be killed
        ([143, 1, 143], [0, 0, 0], False),  # it had ended by itself
        ([143, None, 143], [0, 0, 0], False),
        ([143, 143, 143], [0, -9, 0], False),
        ([143, 143, 143], [0, 0, 143], False),
    ],
)
def test_a_server_that_ended_by_itself_has_not_stopped_in_order(brokers, controllers, held):
    stage = SimpleNamespace(
        cluster=SimpleNamespace(
            stop=lambda _: None, brokers=[SimpleNamespace(exit_code=code) for code in brokers]
        ),
        controllers=SimpleNamespace(wait_level=lambda: None, stop=lambda _: controllers),
    )
    narrator = Narrator()
    stop(stage, narrator)
    assert [(one.what, one.held) for one in narrator.checks] == [("stopped in order", held)]


def test_topics_are_not_as_they_were_left():
    wanted = {"t": TopicState(1, {"a": "1"}), "gone": TopicState(1)}
    assert unlike(wanted, log()) == ["topic gone is missing"]
    assert unlike({"t": TopicState(2, {"a": "1"})}, log()) == ["topic t has 1 partitions"]
    assert unlike({"t": TopicState(1)}, log()) == ["topic t has configs {'a': '1'}"]


@pytest.mark.parametrize(("position", "unread"), [(None, True), (3, True), (4, False)])
def test_a_partition_that_the_group_has_not_read_to_its_end_is_named(position, unread):
    known = [Acknowledged("t", 0, offset, offset) for offset in (UNKNOWN_OFFSET, 2, 3)]
    found = ConsumeResult(positions={} if position is None else {("t", 0): position})
    assert found.unread(known) == ({("t", 0)} if unread else set())


def test_what_nobody_took_over_from_a_killed_broker_is_named():
    partitions = {0: (1, (0, 1), (1,)), 1: (0, (0, 1), (0, 1)), 2: (-1, (0, 1), (0,))}
    seen = Shape(controller_id=1, brokers={1: "h:1"}, topics={"t": partitions})
    assert unled(seen, 0) == ["t-1"]
    assert unled(seen, 2) == ["t-2"]


def test_stores_are_compared_at_an_offset_behind_which_only_no_ops_came():
    kinds = ["TOPIC_RECORD", "NO_OP_RECORD", "NO_OP_RECORD", "TOPIC_RECORD"]
    records = [
        record(kind, name=f"t{at}", topicId=f"{at}") | {"offset": at}
        for at, kind in enumerate(kinds)
    ]
    with pytest.raises(UnreadableError, match="at offset 2 lacks TOPIC_RECORD at 3"):
        at_one_offset(lambda: 2, str, lambda: records)
    with pytest.raises(UnreadableError, match="ahead of the leader's log"):
        at_one_offset(lambda: 3, str, lambda: records[:3])
    for reached, known in ((0, 3), (1, 3), (3, 4)):
        assert at_one_offset(lambda: reached, str, lambda: records[:known])[1] == records[:known]  # noqa: B023


DUMPED = """
baseOffset: 0 lastOffset: 0 count: 1 partitionLeaderEpoch: 1 isControl: true CreateTime: 100
| offset: 0 CreateTime: 100 keySize: 4 LeaderChange: {"version":0}
baseOffset: 1 lastOffset: 2 count: 2 partitionLeaderEpoch: 1 isControl: false CreateTime: 150
| offset: 1 payload: {"type":"NO_OP_RECORD","version":0,"data":{}}
| offset: 2 payload: {"type":"NO_OP_RECORD","version":0,"data":{}}
baseOffset: 3 lastOffset: 3 count: 1 partitionLeaderEpoch: 4 isControl: true CreateTime: 200
| offset: 3 CreateTime: 200 keySize: 4 LeaderChange: {"version":0}
baseOffset: 4 lastOffset: 4 count: 1 partitionLeaderEpoch: 4 isControl: false CreateTime: 900
| offset: 4 payload: {"type":"NO_OP_RECORD","version":0,"data":{}}
"""


def test_a_log_is_copied_beside_it_as_the_temporary_folder_may_be_full(tmp_path, monkeypatch):
    (tmp_path / "data" / "__cluster_metadata-0").mkdir(parents=True)
    (tmp_path / "data" / "__cluster_metadata-0" / "0.log").write_bytes(b"x")

    def run(command, **_):
        copied = Path(command[-1])
        assert copied.read_bytes() == b"x"
        assert copied.parent.parent == tmp_path
        return SimpleNamespace(stdout=DUMPED)

    monkeypatch.setattr(stores, "find_java", lambda: SimpleNamespace(executable="java"))
    monkeypatch.setattr(stores, "kafka_jars", lambda _: [])
    monkeypatch.setattr(stores.subprocess, "run", run)
    monkeypatch.setattr(stores.tempfile, "tempdir", "/not/there")
    assert len(stores.dump_log(tmp_path / "data")) == 3
    assert [one.name for one in tmp_path.iterdir()] == ["data"]


def test_the_log_tells_when_each_controller_came_to_lead():
    records = list(read_dump(DUMPED))
    assert [one["offset"] for one in records] == [1, 2, 4]
    assert [one["at_ms"] for one in records] == [150, 150, 900]
    assert elected_ns(records, ahead_ns=50_000_000) == [50_000_000, 150_000_000]
