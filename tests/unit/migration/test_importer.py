"""The copy: against what real controllers made of the same trees, and its own rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from emulator.metadata.brokers import Broker, Brokers
from emulator.metadata.history import History
from emulator.metadata.image import EMPTY, Image
from emulator.metadata.metadata_version import MetadataVersion
from emulator.metadata.pmap import PMap
from emulator.migration.taking_over import importer
from emulator.znodes.reader import Tree, TreeNode
from tests.unit.migration.recorded import recorded_records, recorded_tree
from wire import records as r
from wire.text import uuid_text

KINDS = {"TOPIC_RECORD", "PARTITION_RECORD", "CONFIG_RECORD", "PRODUCER_IDS_RECORD"}


def copied(
    tree: Tree,
    image: Image = EMPTY,
    size: int = 200,
    brokers: Callable[[], Brokers] | None = None,
) -> list[Any]:
    pages = importer.pages(tree, image, size, brokers=brokers)
    return [record for page in pages for record in page]


def of(records: list[Any], kind: type) -> list[Any]:
    return [record for record in records if isinstance(record, kind)]


@pytest.mark.requirement("P09")
@pytest.mark.parametrize("folder", ["3.4.1-short", "3.7.2-short", "3.9.2-full"])
def test_the_copy_equals_that_of_a_real_controller(folder: str) -> None:
    ours = copied(recorded_tree(folder, "1-dualwrite"))
    theirs = recorded_records(folder, KINDS)
    topics = {record.topic_id: record.name for record in of(ours, r.TopicRecord)}
    known = {
        data["name"]: data["topicId"] for kind, data in reversed(theirs) if kind == "TOPIC_RECORD"
    }
    assert {name: known[name] for name in topics.values()} == {
        name: uuid_text(topic_id) for topic_id, name in topics.items()
    }
    for partition in of(ours, r.PartitionRecord):
        first = next(
            data
            for kind, data in theirs
            if kind == "PARTITION_RECORD"
            and data["topicId"] == uuid_text(partition.topic_id)
            and data["partitionId"] == partition.partition_id
        )
        assert first["replicas"] == list(partition.replicas)
        assert (first["leader"], first["leaderEpoch"]) == (partition.leader, partition.leader_epoch)
        if folder == "3.4.1-short":
            # In the other two the ISRs grew between the copy and the dump of the tree.
            assert first["isr"] == list(partition.isr)
            assert first["partitionEpoch"] == partition.partition_epoch
    recorded: dict[tuple[int, str, str], str] = {}
    for kind, data in theirs:
        if kind == "CONFIG_RECORD":
            key = (data["resourceType"], data["resourceName"], data["name"])
            recorded.setdefault(key, data["value"])
    for config in of(ours, r.ConfigRecord):
        key = (config.resource_type, config.resource_name, config.name)
        assert recorded[key] == config.value


def test_the_next_producer_id_is_above_every_block_given_out() -> None:
    (ids,) = of(copied(recorded_tree("3.4.1-short", "0-before")), r.ProducerIdsRecord)
    assert (ids.broker_id, ids.broker_epoch, ids.next_producer_id) == (2, -1, 1_000)


@pytest.mark.requirement("D01")
def test_a_topic_pending_deletion_is_left_out() -> None:
    tree = recorded_tree("3.9.2-full", "0d-pending-delete")
    (pending,) = tree.children("/admin/delete_topics")
    names = {record.name for record in of(copied(tree), r.TopicRecord)}
    assert pending in tree.children("/brokers/topics")
    assert names == set(tree.children("/brokers/topics")) - {pending}


def test_a_partition_that_no_controller_has_seen() -> None:
    tree = Tree()
    tree.lists["/brokers/topics"] = ("t",)
    tree.nodes["/brokers/topics/t"] = TreeNode(
        b'{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAAg","partitions":{"0":[3,1]},'
        b'"adding_replicas":{},"removing_replicas":{}}'
    )
    (partition,) = of(copied(tree), r.PartitionRecord)
    assert (partition.leader, partition.isr, partition.leader_epoch) == (3, (3, 1), 0)
    assert partition.partition_epoch == 0


def test_an_ongoing_reassignment_is_carried_over() -> None:
    tree = Tree()
    tree.lists["/brokers/topics"] = ("t",)
    tree.nodes["/brokers/topics/t"] = TreeNode(
        b'{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAAg","partitions":{"0":[1,2,3]},'
        b'"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]}}'
    )
    tree.nodes["/brokers/topics/t/partitions/0/state"] = TreeNode(
        b'{"controller_epoch":4,"leader":-1,"version":1,"leader_epoch":7,"isr":[2]}', version=9
    )
    (partition,) = of(copied(tree), r.PartitionRecord)
    assert (partition.adding_replicas, partition.removing_replicas) == ((3,), (1,))
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (-1, 7, 9)


@pytest.mark.parametrize("fenced", [False, True])
def test_a_partition_without_a_leader_gets_one_whose_broker_was_unfenced_before(
    fenced: bool,
) -> None:
    """Nothing would elect it later: an unfencing does, and it was before the copy."""
    tree = Tree()
    tree.lists["/brokers/topics"] = ("t",)
    tree.nodes["/brokers/topics/t"] = TreeNode(
        b'{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAAg","partitions":{"0":[1,2]}}'
    )
    tree.nodes["/brokers/topics/t/partitions/0/state"] = TreeNode(
        b'{"controller_epoch":4,"leader":-1,"version":1,"leader_epoch":7,"isr":[2]}', version=9
    )
    brokers = PMap({n: Broker(n, 5, bytes(16), fenced=fenced) for n in (1, 2)})
    (partition,) = of(copied(tree, brokers=lambda: brokers), r.PartitionRecord)
    found = partition.leader, partition.isr, partition.leader_epoch, partition.partition_epoch
    assert found == ((-1, (2,), 7, 9) if fenced else (2, (2,), 8, 10))


def test_pages_hold_at_least_a_batch_and_never_too_much() -> None:
    tree = Tree()
    names = [f"t{i:03}" for i in range(100)]
    tree.lists["/brokers/topics"] = tuple(names)
    for i, name in enumerate(names):
        count = 3_000 if name == "t050" else 2
        partitions = ",".join(f'"{p}":[1]' for p in range(count))
        topic_id = uuid_text((i + 10).to_bytes(16))
        tree.nodes[f"/brokers/topics/{name}"] = TreeNode(
            f'{{"version":3,"topic_id":"{topic_id}","partitions":{{{partitions}}}}}'.encode()
        )
    sizes = [len(page) for page in importer.pages(tree, EMPTY, 50)]
    assert sum(sizes) == 100 + 99 * 2 + 3_000
    assert min(sizes[:-1]) >= 50
    assert max(sizes) == importer.PAGE_RECORDS_MAX


@pytest.mark.requirement("P13", "P14")
def test_one_transaction_from_metadata_version_13_on() -> None:
    version = MetadataVersion.from_level(13)
    (opening,) = importer.begin(version)
    assert isinstance(opening, r.BeginTransactionRecord)
    assert opening.name == "ZK Migration"
    state, end = importer.complete(version)
    assert isinstance(state, r.ZkMigrationStateRecord)
    assert state.zk_migration_state == 1
    assert isinstance(end, r.EndTransactionRecord)


def test_below_13_an_unfinished_copy_is_removed_before_the_next() -> None:
    version = MetadataVersion.from_level(8)
    assert importer.begin(version) == []
    assert len(importer.complete(version)) == 1
    tree = recorded_tree("3.4.1-short", "0-before")
    history = History()
    whole = copied(tree)
    offset = 0
    for half in (whole[: len(whole) // 2], None):
        records = half if half is not None else copied(tree, history.tip)
        history.append(records, offset, 1)
        offset += len(records)
    once = History()
    once.append(whole, 0, 1)
    assert history.tip.topics == once.tip.topics
    assert history.tip.configs == once.tip.configs
    assert history.tip.producer_ids == once.tip.producer_ids


def test_a_complete_copy_can_be_repeated_too() -> None:
    tree = recorded_tree("3.4.1-short", "0-before")
    history = History()
    history.append(copied(tree), 0, 1)
    again = copied(tree, history.tip)
    assert of(again, r.ProducerIdsRecord) == [], "producer ids only grow"
    before = history.tip
    history.append(again, 1_000, 1)
    assert history.tip.topics == before.topics
    assert history.tip.configs == before.configs


def tree_with(*sizes: int) -> Tree:
    """Topics of so many partitions."""
    tree = Tree()
    names = tuple(f"t{at}" for at in range(len(sizes)))
    tree.lists["/brokers/topics"] = names
    for at, (name, size) in enumerate(zip(names, sizes, strict=True)):
        partitions = ",".join(f'"{number}":[1]' for number in range(size))
        topic_id = uuid_text(bytes([at + 1]) * 16)
        tree.nodes[f"/brokers/topics/{name}"] = TreeNode(
            f'{{"version":3,"topic_id":"{topic_id}","partitions":{{{partitions}}},'
            f'"adding_replicas":{{}},"removing_replicas":{{}}}}'.encode()
        )
    return tree


@pytest.mark.parametrize(
    ("sizes", "least", "pages"),
    [
        ((3, 3, 3), 1, [4, 4, 4]),
        ((3, 3, 3), 4, [4, 4, 4]),
        ((3, 3, 3), 5, [8, 4]),
        ((3, 3, 3), 200, [12]),
        ((998, 2), 200, [999, 3]),
        ((999, 2), 200, [1_000, 3]),
        ((1_000, 2), 200, [1_000, 4]),
        ((2_300,), 1, [1_000, 1_000, 301]),
    ],
)
def test_a_page_ends_with_a_topic_unless_that_has_over_a_thousand_records(
    sizes: tuple[int, ...], least: int, pages: list[int]
) -> None:
    assert [len(page) for page in importer.pages(tree_with(*sizes), EMPTY, least)] == pages
