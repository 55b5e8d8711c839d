"""What of a tree cannot be copied, and after how many znodes the look at it pauses."""

from __future__ import annotations

import pytest

from emulator.metadata.image import EMPTY
from emulator.metadata.metadata_version import LATEST
from emulator.metadata.pmap import PMap
from emulator.metadata.topics import Partition, Topic
from emulator.migration.taking_over.preconditions import Reason, Why, unreadable
from emulator.znodes import configs, topics
from emulator.znodes.projection import partition_nodes, topic_head
from emulator.znodes.tree import Tree, TreeNode


def _partition(*replicas: int) -> Partition:
    return Partition(
        replicas=replicas, isr=replicas, leader=replicas[0], leader_epoch=0, partition_epoch=0
    )


def _tree(*made: Topic) -> Tree:
    tree = Tree()
    for topic in made:
        nodes = topic_head(EMPTY, topic)
        for index, partition in topic.partitions.items():
            nodes |= partition_nodes(topic.name, index, partition, 1)
        tree.nodes |= {path: TreeNode(data) for path, data in nodes.items() if data is not None}
        indices = tuple(str(index) for index in topic.partitions)
        tree.lists[topics.partitions_path(topic.name)] = indices
    names = tuple(topic.name for topic in made)
    tree.lists |= {topics.ROOT: names, configs.TOPICS: names}
    return tree


def _topic(name: str, *partitions: Partition, of: int = 0) -> Topic:
    topic_id = (of or 1 + int(name, 36)).to_bytes(16, "big")
    return Topic(name, topic_id, PMap(dict(enumerate(partitions))))


def _sized(*sizes: int) -> Tree:
    made = enumerate(sizes, 100)
    return _tree(*(_topic(f"t{at}", *[_partition(1)] * size) for at, size in made))


@pytest.mark.parametrize(
    ("sizes", "pauses"),
    [
        ([1] * 16, 0),
        ([1] * 17, 1),
        ([1] * 33, 1),
        ([1] * 34, 2),
        ([1] * 15 + [2], 0),
        ([1] * 16 + [2], 2),
        ([47], 0),
        ([48], 1),
        ([49], 1),
        ([50], 2),
        ([99], 2),
        ([100], 3),
        ([48, 47], 1),
        ([48, 48], 2),
        ([47, 1], 2),
        ([46, 1], 1),
    ],
)
def test_a_pause_after_each_fifty_znodes(sizes: list[int], pauses: int) -> None:
    """A topic is two, and each of its partitions one."""
    assert list(unreadable(_sized(*sizes), LATEST, entities=())) == [None] * pauses


def test_the_topics_that_each_broker_has_replicas_of() -> None:
    assigned: dict[int, list[str]] = {}
    tree = _tree(
        _topic("a", _partition(2, 1), _partition(2, 3)),
        _topic("b", _partition(3)),
        _topic("c", _partition(4)),
    )
    tree.lists["/admin/delete_topics"] = ("c",)
    assert list(unreadable(tree, LATEST, assigned, ())) == []
    assert assigned == {1: ["a"], 2: ["a"], 3: ["a", "b"]}


@pytest.mark.parametrize(
    "path", ["/brokers/topics/a", "/config/topics/a", "/brokers/topics/a/partitions/0/state"]
)
def test_a_znode_that_cannot_be_read_is_named_and_its_topic_counts_for_no_broker(path: str) -> None:
    assigned: dict[int, list[str]] = {}
    tree = _tree(_topic("a", _partition(1)), _topic("b", _partition(2)))
    tree.nodes[path] = TreeNode(b"{")
    (reason,) = unreadable(tree, LATEST, assigned, ())
    assert isinstance(reason, Reason)
    assert (reason.why, reason.subject, reason.fatal) == (Why.MALFORMED_ZNODE, path, False)
    assert assigned == {2: ["b"]}


def test_two_topics_of_one_id_are_named() -> None:
    assigned: dict[int, list[str]] = {}
    same = [_topic(name, _partition(at), of=7) for at, name in enumerate("abc", 1)]
    found = list(unreadable(_tree(*same), LATEST, assigned, ()))
    text = "has the same topic_id as a"
    assert [(one.subject, text in one.text) for one in found if one is not None] == [
        ("/brokers/topics/b", True),
        ("/brokers/topics/c", True),
    ]
    assert assigned == {1: ["a"]}
