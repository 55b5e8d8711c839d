"""Comparing the topics of a tree with an image: what is as it should be costs little."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from emulator.metadata import Image
from emulator.metadata.delta import Touched
from emulator.migration import topic_compare as compared
from emulator.migration.plan import PARTITIONS_PER_PIECE, PAUSE, Piece
from emulator.migration.topic_compare import (
    ALIKE_PARTITIONS_MAX,
    LOOKED_PER_PIECE,
    topic_changes,
    topic_compare,
)
from emulator.znodes import configs, projection, topics
from emulator.znodes.projection import znodes
from emulator.znodes.tree import Tree, TreeNode
from emulator.zookeeper.ops import Create, Delete, SetData
from tests.laws.zk_trees import EPOCH, ops_of, replayed
from tests.unit.metadata.build import partition
from tests.unit.node.test_copy_grows_in_line import Work, counted
from tests.unit.znodes.test_no_long_walks import Counted, most_at_once
from wire import records as r
from wire.text import uuid_text

ZOOKEEPERS_EPOCH = 4
TOPIC = "/brokers/topics/t0000"
CONFIG = "/config/topics/t0000"


def image_of(count: int, partitions: int) -> Image:
    records: list[object] = []
    for number in range(count):
        topic_id = (number + 1).to_bytes(16, "big")
        records.append(r.TopicRecord(name=f"t{number:04}", topic_id=topic_id))
        records += [
            partition(topic_id, index, replicas=(1, 2, 3), isr=(1, 3), leader_epoch=5)
            for index in range(partitions)
        ]
        records.append(
            r.ConfigRecord(resource_type=2, resource_name=f"t{number:04}", name="a", value="b")
        )
    return replayed(records)[0]


def tree_of(image: Image) -> Tree:
    """As Kafka's ZooKeeper controller leaves it: other bytes with the same meaning."""
    tree = Tree()
    children: dict[str, list[str]] = {topics.ROOT: [], configs.TOPICS: []}
    for path, data in znodes(image, controller_epoch=ZOOKEEPERS_EPOCH).items():
        kafkas = None if data is None else json.dumps(json.loads(data), indent=1).encode()
        # The reader reads no data of folders.
        if data is not None:
            tree.nodes[path] = TreeNode(kafkas, 0)
        parent, _, name = path.rpartition("/")
        if not path.endswith("/state"):
            children.setdefault(parent, []).append(name)
    tree.lists = {path: tuple(sorted(names)) for path, names in children.items()}
    for name in image.topic_ids:
        tree.lists.setdefault(topics.partitions_path(name), ())
    return tree


def pieces_of(tree: Tree, image: Image) -> list[Piece]:
    return list(topic_compare(tree, image, EPOCH))


def test_what_is_as_it_should_be_is_parsed_once_and_not_rendered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    image = image_of(40, 3)
    tree = tree_of(image)
    parsed: Counter[str] = Counter()
    for module in (topics, configs):
        decode = module.decode

        def counted(path: str, data: bytes | None, kind: Any, inner: Any = decode) -> Any:
            parsed[path] += 1
            return inner(path, data, kind)

        monkeypatch.setattr(module, "decode", counted)

    def rendered(*_args: object, **_named: object) -> bytes:
        raise AssertionError("nothing is to be written")

    monkeypatch.setattr(topics, "encode", rendered)
    monkeypatch.setattr(configs, "encode", rendered)
    monkeypatch.setattr(projection, "topic_config", rendered)
    assert ops_of(pieces_of(tree, image)) == []
    assert set(parsed.values()) == {1}
    assert len(parsed) == 40 * (2 + 3)


def test_topics_of_one_partition_take_few_pieces() -> None:
    """A step takes six of them; three topics in a step made 20,000 topics 6,667 steps."""
    image = image_of(1_000, 1)
    pieces = pieces_of(tree_of(image), image)
    assert len(pieces) <= 1_000 * 4 // LOOKED_PER_PIECE + 1
    assert len(pieces) >= 1_000 * 4 // (LOOKED_PER_PIECE + 4)


def test_differences_of_small_topics_share_pieces_of_some_fifty_operations() -> None:
    image = image_of(500, 1)
    pieces = pieces_of(Tree(), image)
    assert len(ops_of(pieces)) == 500 * 6, (
        "topic, config, its notification, folder, partition, state"
    )
    assert max(map(len, pieces)) <= 50
    assert len(pieces) <= 500 // 5


@pytest.mark.parametrize("partitions", [LOOKED_PER_PIECE + 1, ALIKE_PARTITIONS_MAX])
def test_a_wide_topic_ends_the_step(partitions: int) -> None:
    image = image_of(3, partitions)
    pieces = pieces_of(tree_of(image), image)
    assert [piece is PAUSE for piece in pieces] == [True, False, True, False, True, False, False]


def test_of_a_wider_one_a_step_looks_at_some_partitions() -> None:
    """All of them were walked to find znodes beside the partitions; the head is a step alone."""
    image = image_of(1, 5_000)
    tree = tree_of(image)
    nodes = tree.nodes = Counted(tree.nodes)
    pieces, most = most_at_once(topic_compare(tree, image, EPOCH), nodes)
    assert PAUSE in pieces[:2]
    assert most <= 10 * PARTITIONS_PER_PIECE
    assert nodes.looked >= 5_000


def test_a_wider_one_is_compared_part_by_part() -> None:
    image = image_of(1, ALIKE_PARTITIONS_MAX + 1)
    pieces = pieces_of(tree_of(image), image)
    looked = PARTITIONS_PER_PIECE * LOOKED_PER_PIECE // compared.PLANNED_AS_LOOKED
    assert len(pieces) >= ALIKE_PARTITIONS_MAX // (looked + PARTITIONS_PER_PIECE)
    assert ops_of(pieces) == []


def longest_of(count: int) -> int:
    """Lines and calls of C until the next piece of a delta that touches so many topics."""
    image, touched = image_of(count, 1), Touched()
    for topic_id, one in sorted(image.topics.items(), reverse=True):
        touched.topics[topic_id] = one.name
        touched.partitions.add((topic_id, 0))
    source, longest, left = topic_changes(image, image, touched, EPOCH), 0, True
    while left:
        work, found = Work(), list[Piece | None]()
        counted(work, lambda found=found: found.append(next(source, None)) or [])
        longest = max(longest, work.run)
        left = found != [None]
    return longest


def test_what_a_delta_touches_is_gathered_in_slices() -> None:
    """A broker that dies touches all that it led: 100,000 partitions took 24 ms in one step."""
    assert longest_of(9_000) <= 1.2 * longest_of(3_000)


def test_a_delta_goes_through_topics_by_name_each_once() -> None:
    """Also one that was deleted and made again under its name, and one whose config changed too."""
    before, again = image_of(5_000, 1), bytes([255] * 16)
    after, touched = before, Touched()
    for topic_id, one in sorted(before.topics.items(), reverse=True):
        touched.topics[topic_id] = one.name
        touched.configs.add((2, one.name))
        after = replayed([r.RemoveTopicRecord(topic_id=topic_id)], after)[0]
    after = replayed([r.TopicRecord(name="t0007", topic_id=again)], after)[0]
    touched.topics[again] = "t0007"
    pieces = topic_changes(before, after, touched, EPOCH)
    paths = [op.path for piece in pieces for group in piece for op in group]
    heads = [one for one in paths if one.count("/") == 3 and one.startswith(f"{topics.ROOT}/")]
    names = [one.rpartition("/")[2] for one in heads]
    assert names == sorted([*(f"t{number:04}" for number in range(5_000)), "t0007"])


def state(**changed: object) -> bytes:
    fields = {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 5, "isr": [1, 3]}
    return json.dumps(fields | changed).encode()


def topic(**changed: object) -> bytes:
    fields = {
        "version": 3,
        "topic_id": uuid_text((1).to_bytes(16, "big")),
        "partitions": {"0": [1, 2, 3], "1": [1, 2, 3]},
        "adding_replicas": {},
        "removing_replicas": {},
    }
    return json.dumps(fields | changed).encode()


SET_STATE = [(SetData, f"{TOPIC}/partitions/0/state")]
SET_TOPIC = [(SetData, TOPIC)]
SET_CONFIG = [(SetData, CONFIG), (Create, "/config/changes/config_change_")]


@pytest.mark.parametrize(
    ("path", "data", "writes"),
    [
        (f"{TOPIC}/partitions/0/state", state(leader=3), SET_STATE),
        (f"{TOPIC}/partitions/0/state", state(leader_epoch=6), SET_STATE),
        (f"{TOPIC}/partitions/0/state", state(isr=[3, 1]), SET_STATE),
        (f"{TOPIC}/partitions/0/state", state(leader_recovery_state=1), SET_STATE),
        (f"{TOPIC}/partitions/0/state", b"{", SET_STATE),
        (f"{TOPIC}/partitions/0/state", None, SET_STATE),
        (f"{TOPIC}/partitions/0/state", state(controller_epoch=99, more=1), []),
        (TOPIC, topic(), []),
        (TOPIC, topic(more=1, adding_replicas={"0": []}), []),
        (TOPIC, topic(topic_id=None), SET_TOPIC),
        (TOPIC, topic(partitions={"0": [1, 2, 3]}), SET_TOPIC),
        (TOPIC, topic(partitions={"0": [1, 2, 3], "1": [1, 3, 2]}), SET_TOPIC),
        (TOPIC, topic(adding_replicas={"0": [3]}), SET_TOPIC),
        (TOPIC, topic(removing_replicas={"1": [3]}), SET_TOPIC),
        (TOPIC, b"", SET_TOPIC),
        (CONFIG, b'{"config":{"a":"b"},"version":1}', []),
        (CONFIG, b'{"config":{},"version":1}', SET_CONFIG),
        (CONFIG, b'{"config":{"a":"b"},"version":2}', SET_CONFIG),
        (CONFIG, None, SET_CONFIG),
    ],
)
def test_one_difference_among_topics_that_are_alike(
    path: str, data: bytes | None, writes: list[tuple[type, str]]
) -> None:
    image = image_of(30, 2)
    tree = tree_of(image)
    tree.nodes[path] = TreeNode(data, 0)
    assert [(type(op), op.path) for op in ops_of(pieces_of(tree, image))] == writes


def test_what_is_missing_is_created_and_what_is_surplus_deleted() -> None:
    image = image_of(2, 2)

    def writes(tree: Tree) -> list[tuple[type, str]]:
        return [(type(op), op.path) for op in ops_of(pieces_of(tree, image))]

    folder = f"{TOPIC}/partitions"
    tree = tree_of(image)
    del tree.nodes[f"{folder}/1/state"]
    assert writes(tree) == [(Create, f"{folder}/1/state")]
    tree.lists[folder] = ("0",)
    assert writes(tree) == [(Create, f"{folder}/1"), (Create, f"{folder}/1/state")]
    tree = tree_of(image)
    tree.lists[folder] = ("0", "1", "odd")
    assert writes(tree) == [(Delete, f"{folder}/odd")]
    # Another client's znode in the place of a partition: as many, but not the same.
    del tree.nodes[f"{folder}/1/state"]
    tree.lists[folder] = ("0", "odd")
    assert writes(tree) == [
        (Delete, f"{folder}/odd"),
        (Create, f"{folder}/1"),
        (Create, f"{folder}/1/state"),
    ]
    tree = tree_of(image)
    del tree.nodes[CONFIG]
    tree.lists[configs.TOPICS] = ("t0001",)
    assert writes(tree) == [(Create, CONFIG), (Create, "/config/changes/config_change_")]


@pytest.mark.parametrize("more", [0, 1])
def test_a_wide_topic_that_differs_is_paused_at(more: int) -> None:
    image = image_of(1, ALIKE_PARTITIONS_MAX + more)
    tree = tree_of(image)
    tree.nodes[CONFIG] = TreeNode(b"{", 0)
    pieces = pieces_of(tree, image)
    assert sum(piece is PAUSE for piece in pieces) == more
