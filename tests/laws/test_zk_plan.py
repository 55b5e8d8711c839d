"""Laws of the writes to ZooKeeper: any image to any other, cut anywhere, from any tree."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from msgspec.structs import replace

from emulator.metadata import EMPTY, Image
from emulator.metadata.configs import BROKER
from emulator.migration.plan import PARTITIONS_PER_PIECE, Group, changes, compare, plan
from emulator.migration.taking_over import importer
from emulator.migration.tree_diff import differences, last_path, of_piece
from emulator.simulation.models.zookeeper_tree import ServerTree
from emulator.znodes.projection import same, znodes
from emulator.znodes.tree import Tree, TreeNode
from emulator.zookeeper.ops import Create, Delete, SetData
from tests.laws.metadata_records import LAW
from tests.laws.zk_trees import (
    EPOCH,
    FOREIGN,
    behind,
    differing,
    known,
    mend,
    ops_of,
    owned,
    read,
    replayed,
    stories,
    tree_of,
    tree_with,
    versions,
    write,
    written,
)
from tests.unit.metadata.build import partition


@LAW
@given(stories(), stories(), st.data())
def test_a_plan_turns_one_tree_into_another_and_can_be_cut_anywhere(
    one: list[object], other: list[object], data: DataObject
) -> None:
    """Of topics. Parents precede children and children go first, or the tree would refuse."""
    a, b = _topics_of(replayed(one)[0]), _topics_of(replayed(other)[0])
    ops = plan(a, b)
    tree = tree_of(a)
    cut = data.draw(st.integers(0, len(ops)))
    write(tree, ops[:cut])
    write(tree, plan(owned(tree), b))
    have = owned(tree)
    assert have.keys() == b.keys()
    assert all(same(path, have[path], b[path]) for path in b)
    assert plan(have, b) == []


def _topics_of(image: Image) -> dict[str, bytes | None]:
    return znodes(image, controller_epoch=EPOCH, entities=())


@LAW
@given(stories(40), st.data())
@pytest.mark.requirement("W11")
def test_changes_follow_the_records(records: list[object], data: DataObject) -> None:
    """Also a topic created and deleted, deleted and created again, changed and changed back."""
    cut = data.draw(st.integers(0, len(records)))
    before, _ = replayed(records[:cut])
    after, touched = replayed(records[cut:], before)
    tree = tree_with(before)
    pieces = list(changes(before, after, touched, controller_epoch=EPOCH, known=known(tree)))
    write(tree, ops_of(pieces))
    assert differing(tree, after) == []
    assert behind(tree, after) == []
    assert all(len(piece) <= 2 * PARTITIONS_PER_PIECE for piece in pieces)


@LAW
@given(stories(), st.data())
def test_changes_one_by_one_and_all_at_once_end_in_the_same_tree(
    records: list[object], data: DataObject
) -> None:
    steps = sorted({0, len(records), *data.draw(st.lists(st.integers(0, len(records))))})
    tree = tree_of({})
    there = known(tree)
    image, _ = replayed([])
    for low, high in pairwise(steps):
        after, touched = replayed(records[low:high], image)
        write(tree, ops_of(changes(image, after, touched, controller_epoch=EPOCH, known=there)))
        image = after
        assert behind(tree, image) == []
    assert differing(tree, image) == []


@LAW
@given(stories(), stories(), st.data())
@pytest.mark.requirement("W13")
def test_a_reconcile_mends_any_tree_and_can_be_cut_anywhere(
    records: list[object], others: list[object], data: DataObject
) -> None:
    """The tree holds another image, of which znodes are missing, malformed or surplus."""
    image, _ = replayed(records)
    other, _ = replayed(others)
    tree = tree_with(other)
    paths = sorted(owned(tree))
    for path in data.draw(st.lists(st.sampled_from(paths), max_size=5)):
        _tamper(tree, path, data.draw(st.sampled_from(TAMPERING)))
    ops = ops_of(compare(read(tree), image, controller_epoch=EPOCH))
    cut = data.draw(st.integers(0, len(ops)))
    for op in ops[:cut]:
        if not written(tree, op):
            break
    mend(tree, image)
    assert differing(tree, image) == []
    assert behind(tree, image) == []
    wanted = znodes(image, controller_epoch=EPOCH)
    kept = {path.partition(FOREIGN)[0] for path in tree.nodes if FOREIGN in path}
    assert not [path for path in kept if path.startswith("/brokers/") and path not in wanted]
    assert ops_of(compare(read(tree), image, controller_epoch=EPOCH)) == []
    assert list(differences(read(tree), image, None)) == []


TAMPERING = ("garbage", "null", "remove", "add", "foreign")


def _tamper(tree: ServerTree, path: str, how: str) -> None:
    node = tree.nodes.get(path)
    if node is None:
        return
    if how == "garbage":
        write(tree, [SetData(path, b"{")])
    elif how == "null":
        write(tree, [SetData(path, None)])
    elif how == "remove":
        below = [p for p in tree.nodes if p == path or p.startswith(path + "/")]
        write(tree, [Delete(p) for p in sorted(below, reverse=True)])
    elif how == "foreign":
        foreign = path + FOREIGN
        if foreign not in tree.nodes:
            write(tree, [Create(foreign, b"x"), Create(f"{foreign}/below", None)])
    elif path.endswith("/partitions") and f"{path}/99" not in tree.nodes:
        write(tree, [Create(f"{path}/99", None), Create(f"{path}/99/state", b"{}")])


@LAW
@given(stories())
def test_a_tree_that_equals_the_image_needs_no_write(records: list[object]) -> None:
    image, _ = replayed(records)
    tree = tree_with(image, EPOCH + 1)
    assert ops_of(compare(read(tree), image, controller_epoch=EPOCH)) == []


@LAW
@given(stories(), st.data())
def test_every_tampered_znode_is_named(records: list[object], data: DataObject) -> None:
    image, _ = replayed(records)
    tree = tree_with(image)
    wanted = [p for p, d in owned(tree).items() if d is not None]
    if not wanted:
        return
    path = data.draw(st.sampled_from(sorted(wanted)))
    write(tree, [SetData(path, b"garbage")])
    assert [(d.path, d.kind) for d in differences(read(tree), image, None)] == [(path, "malformed")]


@LAW
@given(stories(), st.data())
def test_every_state_whose_version_is_too_low_is_named_once(
    records: list[object], data: DataObject
) -> None:
    """Also one that lacks more versions than a piece has writes."""
    image, _ = replayed(records)
    tree = tree_with(image)
    wanted = {path: version for path, version in versions(image).items() if version}
    if not wanted:
        return
    low = data.draw(st.sets(st.sampled_from(sorted(wanted)), min_size=1))
    for path in low:
        tree.nodes[path].version = data.draw(st.integers(0, wanted[path] - 1))
    found = list(differences(read(tree), image, None))
    named = [(one.path, one.kind, one.version, one.epoch) for one in found]
    assert sorted(named) == [
        (path, "version", tree.nodes[path].version, wanted[path]) for path in sorted(low)
    ]


@LAW
@given(stories())
def test_importing_the_znodes_of_an_image_gives_the_image(records: list[object]) -> None:
    """As far as ZooKeeper holds it: not brokers, features and directories."""
    image, _ = _without_gaps(replayed(records)[0])
    tree = read(tree_with(image))
    back, _ = replayed([one for page in importer.pages(tree, EMPTY, 200) for one in page])
    assert [_told(back, name) for name in back.topic_ids] == [
        _told(image, name) for name in image.topic_ids
    ]
    assert back.configs == {
        (kind, name): config
        for (kind, name), config in image.configs.items()
        if kind == BROKER or name in image.topic_ids
    }
    # Ids of entries are not in ZooKeeper, and an entry stands there once.
    assert back.client_quotas == image.client_quotas
    assert back.scram_credentials == image.scram_credentials
    assert set(back.acls.values()) == set(image.acls.values())
    assert back.delegation_tokens == image.delegation_tokens
    ids, were = back.producer_ids, image.producer_ids
    assert ids.next_producer_id == were.next_producer_id
    assert ids.broker_id == (were.broker_id if were.next_producer_id else -1)


def _without_gaps(image: Image) -> tuple[Image, object]:
    """With the partitions that topics lack: one with a gap is not copied."""
    missing = [
        partition(topic.id, index, replicas=(1,))
        for topic in image.topics.values()
        for index in range(max(topic.partitions, default=0) + 1)
        if index not in topic.partitions
    ]
    return replayed(missing, image)


def _told(image: Image, name: str) -> object:
    topic = image.topic(name)
    partitions = {index: replace(one, directories=()) for index, one in topic.partitions.items()}
    return topic.name, topic.id, partitions


def test_a_state_that_two_pieces_raise_differs_once() -> None:
    path = "/brokers/topics/t/partitions/0/state"
    tree = Tree()
    state = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
    tree.nodes[path] = TreeNode(state)
    raised = SetData(path, state, 0)
    pieces: list[list[Group]] = [[(raised,)], [(raised, raised)]]
    last = last_path(pieces[0], "")
    assert [one.path for one in of_piece(tree, pieces[0], "")] == [path]
    assert list(of_piece(tree, pieces[1], last)) == []
    assert last_path([], last) == last
