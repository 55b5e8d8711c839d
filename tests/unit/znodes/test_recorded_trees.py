"""Trees that real Kafka left: read whole, refused where they must be, else nothing to write."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from emulator.metadata import EMPTY, Image, replay
from emulator.metadata.metadata_version import LATEST
from emulator.migration.plan import compare
from emulator.migration.taking_over import importer
from emulator.migration.tree_diff import Claim, differences
from emulator.simulation.models.zookeeper_tree import ServerTree
from emulator.znodes import brokers, controller, migration, own, producer_id, topics
from emulator.znodes.entities import ENTITIES_WITHOUT_SECRETS
from emulator.znodes.reader import Tree
from emulator.znodes.tree import ZnodeError
from emulator.zookeeper.ops import Create
from tests import data as recorded
from tests.laws.zk_trees import EPOCH, ops_of, read, write

TREES = sorted(
    (name.split("/")[0], name.split("/")[1].removeprefix("tree-").removesuffix(".json"))
    for name in recorded.names()
    if "/tree-" in name
)


def model_of(folder: str, step: str) -> ServerTree:
    tree = ServerTree()
    nodes: dict[str, Any] = recorded.tree(folder, step)["nodes"]
    for path in sorted(nodes):
        node = nodes[path]
        data = None if node.get("null") else node.get("text", "").encode()
        if "b64" in node:
            data = base64.b64decode(node["b64"])
        if path not in tree.nodes:
            tree.write(Create(path, data), 0, 0)
        tree.nodes[path].data = data
        tree.nodes[path].version = node["version"]
        tree.nodes[path].ephemeral_owner = int(bool(node.get("ephemeralOwner")))
    return tree


def tree_of(folder: str, step: str) -> Tree:
    return read(model_of(folder, step), reads_max=50)


def image_of(tree: Tree) -> Image:
    """What the tree holds, by the product's own import."""
    image = EMPTY
    for page in importer.pages(tree, EMPTY, 200):
        for record in page:
            image = replay(image, record, image.offset + 1, 1)
    return image


def refusals(tree: Tree) -> list[tuple[str, str]]:
    """What cannot be copied, by path."""
    found = (one for entity in ENTITIES_WITHOUT_SECRETS for one in entity.refusals(tree, LATEST))
    return [(one.path, one.why) for one in found if one is not None]


def test_there_are_trees() -> None:
    assert len(TREES) == 58


@pytest.mark.parametrize(("folder", "step"), TREES)
def test_a_recorded_tree_is_read_to_the_last_znode(folder: str, step: str) -> None:
    """Every znode of the dump that a migration needs is in what the reader brings home."""
    model = model_of(folder, step)
    tree = read(model, reads_max=50)
    folders = ("/brokers/topics/", "/config/topics/", "/config/brokers/", "/config/users/")
    for path, node in model.nodes.items():
        if path.startswith(folders) or path in {"/controller", "/migration", "/cluster/id"}:
            assert tree.exists(path), path
            assert tree.data(path) == node.data, path
    for name in tree.children(brokers.ROOT):
        assert brokers.parse(f"{brokers.ROOT}/{name}", tree.data(f"{brokers.ROOT}/{name}"))
    producer_id.read(tree)
    for name in tree.children(topics.ROOT):
        topic = topics.read_topic(tree, name)
        assert all(topics.read_state(tree, name, index) for index in topic.partitions)


@pytest.mark.parametrize(("folder", "step"), TREES)
def test_importing_a_tree_and_comparing_with_it_leaves_nothing_to_write(
    folder: str, step: str
) -> None:
    """Kafka's bytes are not ours; what they say is. Pending deletions are the only work left."""
    tree = tree_of(folder, step)
    image = image_of(tree)
    pending = set(tree.children("/admin/delete_topics"))
    ops = ops_of(compare(tree, image, controller_epoch=EPOCH))
    if not tree.exists("/brokers/topics"):
        return
    gone = [op.path for op in ops]
    names = {path.split("/")[3] for path in gone}
    assert names == pending or names - pending == _left_over_configs(tree)


def _left_over_configs(tree: Tree) -> set[str]:
    """Kafka 3.9.2 brings configs of deleted topics back in its own full sync."""
    return set(tree.children("/config/topics")) - set(tree.children("/brokers/topics"))


@pytest.mark.requirement("D01")
def test_a_pending_deletion_is_finished() -> None:
    model = model_of("3.9.2-full", "0d-pending-delete")
    tree = read(model)
    (name,) = tree.children("/admin/delete_topics")
    image = image_of(tree)
    assert image.topic(name) is None
    assert len(image.topics) == len(tree.children("/brokers/topics")) - 1
    ops = ops_of(compare(tree, image, controller_epoch=EPOCH))
    assert ops[-1].path == f"/admin/delete_topics/{name}"
    write(model, ops)
    assert not [path for path in model.nodes if f"/{name}" in path and "changes" not in path]
    after = read(model)
    assert list(differences(after, image, None)) == []


@pytest.mark.parametrize(("folder", "step"), TREES)
def test_nothing_in_a_recorded_tree_is_refused(folder: str, step: str) -> None:
    assert refusals(tree_of(folder, step)) == []


def test_znodes_of_the_claim_are_compared_too() -> None:
    model = model_of("3.9.2-full", "2-16-producer-id")
    image = image_of(read(model))
    claim = Claim(node_id=3000, kraft_epoch=1, zk_epoch=4)
    mine = own.encode(own.OwnZnode(3000, 1, 4, 9, 346, 1))
    assert [(d.path, d.kind) for d in differences(read(model), image, claim)] == [
        ("/kraft_bridge", "missing")
    ]
    write(model, [Create("/kraft_bridge", mine)])
    assert list(differences(read(model), image, claim)) == []
    for path, data, kind in (
        (controller.PATH, controller.encode(3001, 1, 0), "differs"),
        (controller.PATH, b"", "malformed"),
        (controller.EPOCH_PATH, b"5", "differs"),
        (migration.PATH, migration.encode(migration.MigrationZnode(3000, 1, 345, 1)), "differs"),
        (own.PATH, mine.replace(b'"zk_epoch":4', b'"zk_epoch":3'), "differs"),
    ):
        kept = model.nodes[path].data
        model.nodes[path].data = data
        found = [(d.path, d.kind) for d in differences(read(model), image, claim)]
        model.nodes[path].data = kept
        assert (path, kind) in found
        assert {p for p, _ in found} <= {path, migration.PATH}


@pytest.mark.parametrize("reads_max", [1, 3, 500])
def test_requests_of_any_size_bring_the_same_tree(reads_max: int) -> None:
    model = model_of("3.9.2-full", "0-before")
    one, other = read(model, reads_max=reads_max), read(model, reads_max=50)
    assert (one.nodes, one.lists) == (other.nodes, other.lists)


def test_a_malformed_topic_stops_the_import_by_name() -> None:
    model = model_of("3.9.2-full", "0-before")
    model.nodes["/brokers/topics/orders"].data = b"{"
    with pytest.raises(ZnodeError, match="/brokers/topics/orders"):
        image_of(read(model))
