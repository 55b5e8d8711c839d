"""An image written to a real ZooKeeper, read back by KazooClient and by our own reader."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import pytest
from kazoo.client import KazooClient

from emulator.metadata import EMPTY, Image, Touched, replay, touch
from emulator.migration.plan import Piece, PlannedPaths, changes, compare
from emulator.migration.tree_diff import differences
from emulator.servers.zookeeper import ZooKeeper
from emulator.znodes.reader import TOP_LEVEL, Tree, TreeReader
from emulator.zookeeper.ops import Multi, ZkResult
from tests.integration.zookeeper_wire import Wire
from wire import records as r

EPOCH = 5
IDS = [bytes(15) + bytes([n]) for n in (1, 2, 3)]


def apply(image: Image, *records: object) -> tuple[Image, Touched]:
    touched = Touched()
    for record in records:
        touch(touched, image, record)
        image = replay(image, record, image.offset + 1, 1)
    return image, touched


def partition(topic_id: bytes, index: int) -> r.PartitionRecord:
    return r.PartitionRecord(
        topic_id=topic_id,
        partition_id=index,
        replicas=[1, 2, 3],
        isr=[1, 2],
        leader=1,
        leader_epoch=3,
        partition_epoch=4,
    )


def config(kind: int, name: str, value: str | None) -> r.ConfigRecord:
    return r.ConfigRecord(resource_type=kind, resource_name=name, name="k", value=value)


BEGINNING = (
    r.TopicRecord(name="one", topic_id=IDS[0]),
    *(partition(IDS[0], index) for index in range(60)),
    r.TopicRecord(name="two.with-dot", topic_id=IDS[1]),
    partition(IDS[1], 0),
    config(2, "one", "ü"),
    config(4, "", "default"),
    config(4, "7", "seven"),
    r.ProducerIdsRecord(broker_id=7, broker_epoch=1, next_producer_id=3_000),
)
LATER = (
    r.RemoveTopicRecord(topic_id=IDS[1]),
    r.TopicRecord(name="two.with-dot", topic_id=IDS[2]),
    partition(IDS[2], 0),
    partition(IDS[2], 1),
    partition(IDS[0], 60),
    r.PartitionChangeRecord(topic_id=IDS[0], partition_id=3, leader=2, isr=[2]),
    config(2, "one", None),
    config(4, "7", None),
    r.ProducerIdsRecord(broker_id=8, broker_epoch=1, next_producer_id=4_000),
)


def write(wire: Wire, pieces: Iterable[Piece]) -> int:
    """One multi per piece; returns how many ops there were."""
    ops = [[op for group in piece for op in group] for piece in pieces]
    for one in filter(None, ops):
        outcome = wire.ask(Multi(tuple(one)))
        assert isinstance(outcome, ZkResult), outcome
    return sum(map(len, ops))


def read(wire: Wire) -> Tree:
    reader = TreeReader(reads_max=40)
    while not reader.complete:
        requests = reader.requests()
        for tag, request in requests:
            wire.submit(tag, request)
        for outcome in wire.collect(len(requests)):
            assert reader.owns(outcome.tag)
            assert isinstance(outcome, ZkResult)
            reader.outcome(outcome)
    return reader.tree


@pytest.mark.requirement("W11", "W13")
def test_an_image_and_its_changes_in_a_real_zookeeper(
    zookeeper: ZooKeeper,
    zk_client: KazooClient,
    zk_tree: Callable[[], dict[str, bytes | None]],
) -> None:
    wire = Wire(zookeeper.port)
    image, _ = apply(EMPTY, *BEGINNING)
    known = PlannedPaths()
    write(wire, compare(read(wire), image, controller_epoch=EPOCH, known=known))
    assert list(differences(read(wire), image, None)) == []
    found = zk_tree()
    assert set(TOP_LEVEL) <= set(found)
    assert len([path for path in found if path.endswith("/state")]) == 61
    assert json.loads(found["/config/topics/one"] or b"")["config"] == {"k": "ü"}

    after, touched = apply(image, *LATER)
    write(wire, changes(image, after, touched, controller_epoch=EPOCH, known=known))
    assert list(differences(read(wire), after, None)) == []
    state = "/brokers/topics/one/partitions/3/state"
    assert json.loads(zk_client.get(state)[0]) == {
        "controller_epoch": EPOCH,
        "leader": 2,
        "version": 1,
        "leader_epoch": 4,
        "isr": [2],
    }
    assert zk_client.exists(state).version == 5, "the partition epoch, one more than before"
    assert zk_client.exists("/brokers/topics/two.with-dot/partitions/0/state").version == 4
    assert zk_client.get("/brokers/topics/one/partitions")[0] is None
    assert not zk_client.exists("/config/brokers/7")
    block = json.loads(zk_client.get("/latest_producer_id_block")[0])
    assert (block["broker"], block["block_start"], block["block_end"]) == (8, "3000", "3999")
    told = [
        json.loads(zk_client.get(f"/config/changes/{name}")[0])["entity_path"]
        for name in sorted(zk_client.get_children("/config/changes"))
    ]
    assert told == [
        "topics/one",
        "brokers/7",
        "brokers/<default>",
        "topics/one",
        "brokers/7",
    ]

    zk_client.delete("/brokers/topics/one/partitions/9", recursive=True)
    zk_client.create("/brokers/topics/one/partitions/77")
    zk_client.set("/brokers/topics/one/partitions/5/state", b"{")
    zk_client.create("/brokers/topics/extra", b"{}")
    zk_client.create("/config/topics/extra", b"{}")
    zk_client.create("/admin/delete_topics/extra")
    zk_client.set("/latest_producer_id_block", b"")
    named = {(one.path, one.kind) for one in differences(read(wire), after, None)}
    assert named == {
        ("/brokers/topics/one/partitions/9", "missing"),
        ("/brokers/topics/one/partitions/9/state", "missing"),
        ("/brokers/topics/one/partitions/77", "extra"),
        ("/brokers/topics/one/partitions/5/state", "malformed"),
        ("/brokers/topics/extra", "extra"),
        ("/config/topics/extra", "extra"),
        ("/admin/delete_topics/extra", "extra"),
        ("/latest_producer_id_block", "differs"),
    }
    raised = 4  # a state that is made again gets the version of its partition epoch
    assert write(wire, compare(read(wire), after, controller_epoch=EPOCH)) == len(named) + raised
    assert list(differences(read(wire), after, None)) == []
    wire.end()
