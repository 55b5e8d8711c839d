"""Our copy of the trees that Kafka's controllers copied, beside the records they made of them.

The trees are those at the claim: between the dump ``0-before`` and the copy every broker was
restarted, so the states of the partitions have moved on.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Any

import pytest

from emulator.metadata.acls import of_record, record_of
from emulator.migration.plan import compare
from emulator.znodes.reader import Tree as ReadTree
from tests.conformance.recorded_run import (
    COMPARED,
    FULL,
    OLD,
    ROLLBACK,
    SHORT,
    Run,
    claims,
    copied,
    dumped,
    our_copy,
    tree_before,
)
from tests.data import tree
from tests.laws.zk_trees import ops_of, tree_of
from wire import records as r
from wire.record_serde import encode_record

NO_ID = bytes(16)


def told(record: object) -> bytes:
    """A record as it stands in the log, its random id aside."""
    if isinstance(record, r.AccessControlEntryRecord):
        record = record_of(NO_ID, of_record(record))
    return encode_record(record, 0)


def kinds(records: list[object]) -> list[type]:
    """The order of the classes; topics come one by one, and a user's entities together."""
    one = {
        r.TopicRecord: r.TopicRecord,
        r.PartitionRecord: r.TopicRecord,
        r.ConfigRecord: r.TopicRecord,
        r.UserScramCredentialRecord: r.ClientQuotaRecord,
    }
    return [kind for kind, _ in groupby(one.get(type(each), type(each)) for each in records)]


@pytest.mark.parametrize("folder", [FULL, SHORT])
def test_the_copy_is_kafkas_to_the_last_byte(folder: str) -> None:
    """Every class: topics, configs, partitions, SCRAM, quotas, producer ids, ACLs, tokens."""
    ours, theirs = our_copy(tree_before(folder, claims)), list(copied(folder))
    assert Counter(map(told, ours)) == Counter(map(told, theirs))
    assert len(ours) == {FULL: 65, SHORT: 23}[folder]
    assert kinds(ours) == kinds(theirs)


def test_the_copy_of_3_4_1_but_for_its_two_defects() -> None:
    """Ids that were handed out already, and quotas of entities that no broker looks for.

    3.4.1 goes on with the first id of the block in ZooKeeper instead of the one behind its last
    (ground truth 5.6), and records quotas under ``users`` and ``<default>``, the names of znodes,
    where a record has ``user`` and null: after finalising, neither quota would be in force.
    """
    ours, theirs = our_copy(tree_before(OLD, claims)), list(copied(OLD))
    assert len(ours) == len(theirs) == 20
    odd = (r.ProducerIdsRecord, r.ClientQuotaRecord)
    assert Counter(told(one) for one in ours if not isinstance(one, odd)) == Counter(
        told(one) for one in theirs if not isinstance(one, odd)
    )
    again, block = ([i.next_producer_id for i in of(side, odd[0])] for side in (theirs, ours))
    assert again == [0], "ids 0 to 999 are given out twice"
    assert block == [1_000]
    lost, quotas = (of(side, r.ClientQuotaRecord) for side in (theirs, ours))
    entities = [(e.entity_type, e.entity_name) for one in lost for e in one.entity]
    assert entities == [("users", "alice"), ("users", "<default>")]
    entities = sorted((e.entity_type, e.entity_name or "") for one in quotas for e in one.entity)
    assert entities == [("user", ""), ("user", "alice")]
    assert {one.value for one in quotas} == {one.value for one in lost} == {1024.0, 55.5}


def of(records: list[object], kind: type) -> list[Any]:
    return [record for record in records if isinstance(record, kind)]


@pytest.mark.parametrize("folder", [FULL, SHORT])
def test_the_dump_before_gives_the_same_but_for_what_moved_since(folder: str) -> None:
    """Leaders, ISRs and epochs moved with the restarts; one topic was deleted meanwhile."""
    ours, theirs = our_copy(tree_of(dumped(folder, "0-before"))), list(copied(folder))
    deleted = {r.TopicRecord: 1, r.PartitionRecord: 2} if folder == FULL else {}
    counts = Counter(map(type, ours))
    counts.subtract(Counter(map(type, theirs)))
    assert {kind: count for kind, count in counts.items() if count} == deleted
    same = Counter(told(one) for one in ours if not isinstance(one, r.PartitionRecord))
    missing = Counter(told(one) for one in theirs if not isinstance(one, r.PartitionRecord)) - same
    assert not missing
    held = {
        (one.topic_id, one.partition_id): one for one in ours if isinstance(one, r.PartitionRecord)
    }
    for one in theirs:
        if isinstance(one, r.PartitionRecord):
            mine = held[one.topic_id, one.partition_id]
            assert list(mine.replicas) == list(one.replicas)
            assert mine.leader_epoch <= one.leader_epoch


@pytest.mark.parametrize("folder", [FULL, SHORT, OLD, ROLLBACK])
def test_the_replayed_transactions_are_the_tree(folder: str) -> None:
    """What this file rests on: ZooKeeper's log up to a dump gives that dump."""
    dump = tree(folder, "0-before")
    upto = int(dump["time"] * 1_000)
    model = tree_before(folder, lambda entry: entry["time"] > upto)
    assert {path: one.data for path, one in model.nodes.items() if path.startswith(COMPARED)} == (
        dumped(folder, "0-before")
    )
    for path, node in model.nodes.items():
        if path.startswith("/brokers/topics/"):
            assert node.version == dump["nodes"][path]["version"], path


@pytest.mark.parametrize("folder", [FULL, SHORT, OLD])
def test_after_the_copy_only_the_pending_deletion_is_left_to_write(folder: str) -> None:
    """Kafka's first full sync rewrites every quota, SCRAM user and token; see the defects."""
    run = Run(folder)
    run.follow("1-dualwrite")
    assert run.differing("1-dualwrite") == {}
    found: ReadTree = run.read()
    assert ops_of(compare(found, run.image, controller_epoch=run.image.epoch)) == []
    assert found.children("/admin/delete_topics") == ()
