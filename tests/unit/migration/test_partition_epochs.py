"""A state's version in ZooKeeper follows the partition epoch: brokers refuse lower ones."""

from __future__ import annotations

import pytest

from bench.judge.stores import Entities, from_log
from bench.judge.stores import differences as judged
from emulator.metadata import Image
from emulator.migration.plan import changes, compare
from emulator.migration.tree_diff import ahead, differences
from emulator.simulation.models.zookeeper_tree import ServerTree
from emulator.zookeeper.ops import Create, SetData, ZkOp
from tests.laws.zk_trees import (
    EPOCH,
    behind,
    differing,
    known,
    ops_of,
    read,
    replayed,
    tree_with,
    write,
)
from tests.unit.metadata.build import partition
from wire import records as r

ID = bytes(range(16))
STATE = "/brokers/topics/t/partitions/0/state"
NAMED = r.PartitionChangeRecord(
    partition_id=0, topic_id=ID, directories=(bytes([7] * 16), bytes([8] * 16))
)
"""A replica names its directory: nothing that ZooKeeper holds changes."""
SHRUNK = r.PartitionChangeRecord(partition_id=0, topic_id=ID, isr=(1,))
GROWN = r.PartitionChangeRecord(partition_id=0, topic_id=ID, isr=(1, 2))


def image_of(partition_epoch: int = 0) -> Image:
    made = partition(ID, leader_epoch=3, partition_epoch=partition_epoch)
    return replayed([r.TopicRecord(name="t", topic_id=ID), made])[0]


def written(tree: ServerTree, before: Image, *records: object) -> tuple[Image, list[ZkOp]]:
    after, touched = replayed(list(records), before)
    ops = ops_of(changes(before, after, touched, controller_epoch=EPOCH, known=known(tree)))
    write(tree, ops)
    return after, ops


@pytest.mark.parametrize(
    ("records", "version"),
    [([NAMED], 1), ([NAMED, NAMED], 2), ([SHRUNK, GROWN], 2), ([SHRUNK, NAMED, NAMED], 3)],
)
def test_a_change_that_leaves_the_state_as_it_is_is_written(
    records: list[object], version: int
) -> None:
    before = image_of()
    tree = tree_with(before)
    after, ops = written(tree, before, *records)
    assert [op.path for op in ops] == [STATE] * version
    assert tree.nodes[STATE].version == version
    assert differing(tree, after) == behind(tree, after) == []


def test_a_topic_that_changed_before_it_was_written_has_its_version_too() -> None:
    tree = tree_with(image_of())
    made = [
        r.TopicRecord(name="new", topic_id=ID[::-1]),
        partition(ID[::-1], replicas=(1,)),
        *[r.PartitionChangeRecord(partition_id=0, topic_id=ID[::-1], directories=(ID,))] * 120,
    ]
    after, ops = written(tree, image_of(), *made)
    assert behind(tree, after) == []
    assert sum(isinstance(op, SetData) and op.path.endswith("/state") for op in ops) == 120


@pytest.mark.parametrize("version", [0, 1, 119, 120, 500])
def test_a_comparison_raises_what_is_too_low_and_leaves_what_is_higher(version: int) -> None:
    image = image_of(120)
    tree = tree_with(image)
    tree.nodes[STATE].version = version
    ops = ops_of(compare(read(tree), image, controller_epoch=EPOCH))
    assert ops == [SetData(STATE, tree.nodes[STATE].data)] * max(0, 120 - version)
    found = [(one.path, one.kind) for one in differences(read(tree), image, None)]
    assert found == [(STATE, "version")] * (version < 120)
    write(tree, ops)
    assert list(differences(read(tree), image, None)) == []


@pytest.mark.parametrize("partitions", [1, 40])
def test_a_topic_made_anew_is_named_with_its_znodes(partitions: int) -> None:
    """Its own znode is deleted last and created next: these are no raises of one version."""
    old, new = (
        replayed(
            [
                r.TopicRecord(name="t", topic_id=topic_id),
                *(
                    partition(topic_id, index, replicas=(1,), partition_epoch=2)
                    for index in range(partitions)
                ),
            ]
        )[0]
        for topic_id in (ID, ID[::-1])
    )
    found = [
        (one.path, one.kind)
        for one in differences(read(tree_with(old)), new, None)
        if one.kind == "recreated"
    ]
    assert found.count(("/brokers/topics/t", "recreated")) == 1
    assert len(found) == len(set(found)) == 3 + 2 * partitions


@pytest.mark.parametrize("lost", ["state", "topic"])
def test_a_znode_that_somebody_deleted_comes_back_with_its_version(lost: str) -> None:
    image = image_of(120)
    tree = tree_with(image)
    below = STATE if lost == "state" else "/brokers/topics/t"
    for path in [path for path in tree.nodes if path.startswith(below)]:
        del tree.nodes[path]
    parent, _, name = below.rpartition("/")
    tree.nodes[parent].children.discard(name)
    ops = ops_of(compare(read(tree), image, controller_epoch=EPOCH))
    paths = [op.path for op in ops]
    assert paths.count(STATE) == 121
    assert isinstance(ops[paths.index(STATE)], Create)
    found = [(one.path, one.kind) for one in differences(read(tree), image, None)]
    assert found.count((STATE, "missing")) == 1
    assert len(found) == len({path for path, _ in found})
    write(tree, ops)
    assert behind(tree, image) == []


def test_an_epoch_out_of_all_proportion_is_raised_by_and_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log may name any: ZooKeeper is not to be written two billion times at once."""
    monkeypatch.setattr("emulator.migration.topic_compare.RAISES_MAX", 70)
    image = image_of(2**31 - 1)
    tree = tree_with(image)
    tree.nodes[STATE].version = 0
    for after in (70, 140):
        write(tree, ops_of(compare(read(tree), image, controller_epoch=EPOCH)))
        assert tree.nodes[STATE].version == after
        assert [one.kind for one in differences(read(tree), image, None)] == ["version"]


def test_a_million_writes_at_most_raise_one_state_at_once() -> None:
    """As many as an epoch that was reached by changes, not by a wrong log, may need."""
    for epoch, raised in ((400_000, 400_000), (2**31 - 1, 1_000_000)):
        image = image_of(epoch)
        tree = tree_with(image)
        tree.nodes[STATE].version = 0
        pieces = compare(read(tree), image, controller_epoch=EPOCH)
        assert sum(len(piece) for piece in pieces) == raised


@pytest.mark.parametrize("count", [3, 60])
def test_each_znode_of_a_topic_that_is_made_anew_is_named_once(count: int) -> None:
    """A wide one is deleted and made in several pieces, and raised besides."""

    def topic(topic_id: bytes) -> Image:
        partitions = [
            partition(topic_id, index, replicas=(1,), partition_epoch=index)
            for index in range(count)
        ]
        return replayed([r.TopicRecord(name="t", topic_id=topic_id), *partitions])[0]

    found = list(differences(read(tree_with(topic(ID))), topic(ID[::-1]), None))
    paths = [one.path for one in found]
    assert len(paths) == len(set(paths))
    states = [one.kind for one in found if one.path.endswith("/state")]
    assert states == ["recreated"] * count


def test_the_judge_of_the_stores_sees_it_too() -> None:
    """It shares no code with the writer."""
    shown = {
        "topicId": "a", "partitionId": 0, "replicas": [1], "addingReplicas": [],
        "removingReplicas": [], "isr": [1], "leader": 1, "leaderEpoch": 0, "partitionEpoch": 4,
    }  # fmt: skip
    change = {"topicId": "a", "partitionId": 0}
    log = from_log(
        [
            {"type": "TOPIC_RECORD", "data": {"topicId": "a", "name": "t"}, "offset": 0},
            {"type": "PARTITION_RECORD", "data": shown, "offset": 1},
            {"type": "PARTITION_CHANGE_RECORD", "data": change, "offset": 2},
        ]
    )
    (line,) = judged(Entities(topics=log.topics, versions={STATE: 4}), log)
    assert "version 4" in line
    assert "partition epoch 5" in line
    assert judged(Entities(topics=log.topics, versions={STATE: 5}), log) == []
    assert judged(Entities(topics=log.topics), log) == []


def test_a_version_above_the_epoch_is_told_as_long_as_the_state_is_the_one_of_the_log() -> None:
    image = image_of(2)
    tree = tree_with(image)
    assert list(ahead(read(tree), image)) == []
    for _ in range(3):
        write(tree, [SetData(STATE, tree.nodes[STATE].data)])
    (told,) = ahead(read(tree), image)
    assert (told.path, told.kind, told.version, told.epoch) == (STATE, "ahead", 5, 2)
    assert differing(tree, image) == [], "a comparison leaves it"
    for other in (
        b'{"leader":2,"leader_epoch":4,"isr":[2],"controller_epoch":9,"version":1}',
        b"{",
    ):
        write(tree, [SetData(STATE, other)])
        assert list(ahead(read(tree), image)) == [], "it has another leader epoch, or none"
