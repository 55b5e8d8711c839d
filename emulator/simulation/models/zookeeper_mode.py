"""The tree of a ZooKeeper-mode cluster before the migration, and after a rollback."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Final

from emulator.simulation.models.zookeeper_tree import ServerTree
from emulator.zookeeper.ops import Create, Delete, SetData, ZkOp
from wire.text import uuid_text

CLUSTER_ID: Final = "5L6g3nShT-eMCtK--X86sw"
FIRST_EPOCH: Final = 7
FOLDERS: Final = (
    "/admin",
    "/admin/delete_topics",
    "/brokers",
    "/brokers/ids",
    "/brokers/seqid",
    "/brokers/topics",
    "/cluster",
    "/config",
    "/config/brokers",
    "/config/changes",
    "/config/clients",
    "/config/ips",
    "/config/topics",
    "/config/users",
    "/consumers",
    "/isr_change_notification",
    "/log_dir_event_notification",
)


def fill(tree: ServerTree, rng: Random, *, brokers: int, topics: int, now_ms: int) -> None:
    """Make the znodes of a cluster with some topics, one of them about to be deleted.

    Args:
        tree: an empty one.
        rng: sizes, placement, configs.
        brokers: how many; their own znodes they make themselves.
        topics: how many.
        now_ms: time stamps.
    """

    def put(path: str, data: object = None) -> None:
        text = None if data is None else json.dumps(data, separators=(",", ":")).encode()
        tree.write(Create(path, text), 1, now_ms)

    for path in FOLDERS:
        put(path)
    put("/cluster/id", {"version": "1", "id": CLUSTER_ID})
    put("/controller_epoch", FIRST_EPOCH)
    put("/controller", {"version": 2, "brokerid": 0, "timestamp": "1", "kraftControllerEpoch": -1})
    block = {"version": 1, "broker": 0, "block_start": "0", "block_end": "999"}
    put("/latest_producer_id_block", block)
    if rng.random() < 0.5:
        put("/config/brokers/<default>", {"version": 1, "config": {"log.cleaner.threads": "2"}})
    for number in range(topics):
        _topic(put, rng, f"t{number}", range(brokers))
    if topics and rng.random() < 0.3:
        put(f"/admin/delete_topics/t{topics - 1}")


def fill_client_entities(tree: ServerTree, *, scram: bool) -> None:
    """Add quotas, and credentials where metadata.version has records for them."""
    credential = "salt=c2FsdA==,stored_key=YQ==,server_key=Yg==,iterations=4096"
    alice = {"producer_byte_rate": "1024"} | ({"SCRAM-SHA-256": credential} if scram else {})
    znodes: dict[str, dict[str, str] | None] = {
        "users/alice": alice,
        "users/alice/clients": None,
        "users/alice/clients/app%201": {"producer_byte_rate": "512"},
        "users/gone": {},
        "clients/<default>": {"request_percentage": "55.5"},
    }
    for name, config in znodes.items():
        data = None if config is None else json.dumps({"version": 1, "config": config}).encode()
        tree.write(Create(f"/config/{name}", data), 1, 0)


def _topic(
    put: object, rng: Random, name: str, brokers: Sequence[int], epoch: int = FIRST_EPOCH
) -> None:
    assert callable(put)
    copies = rng.randint(1, len(brokers))
    replicas = {index: rng.sample(brokers, copies) for index in range(rng.randint(1, 4))}
    put(
        f"/brokers/topics/{name}",
        {
            "partitions": {str(index): ids for index, ids in replicas.items()},
            "topic_id": uuid_text(rng.randbytes(16)),
            "adding_replicas": {},
            "removing_replicas": {},
            "version": 3,
        },
    )
    put(f"/brokers/topics/{name}/partitions")
    for index, ids in replicas.items():
        put(f"/brokers/topics/{name}/partitions/{index}")
        state = {
            "controller_epoch": epoch,
            "leader": ids[0],
            "version": 1,
            "leader_epoch": rng.randint(0, 5),
            "isr": ids,
        }
        put(f"/brokers/topics/{name}/partitions/{index}/state", state)
    config = {"retention.ms": str(rng.randint(1, 999))} if rng.random() < 0.5 else {}
    put(f"/config/topics/{name}", {"version": 1, "config": config})


def claim(tree: ServerTree, broker_id: int) -> list[ZkOp]:
    """What a broker writes that is elected in ZooKeeper mode.

    Source: KafkaZkClient.registerControllerAndIncrementControllerEpoch, Kafka 3.9.
    """
    epoch = int(tree.nodes["/controller_epoch"].data or b"0")
    holder = {"version": 2, "brokerid": broker_id, "timestamp": "2", "kraftControllerEpoch": -1}
    return [
        Create("/controller", json.dumps(holder).encode()),
        SetData("/controller_epoch", b"%d" % (epoch + 1)),
    ]


def new_topic(tree: ServerTree, rng: Random, name: str, broker_ids: Sequence[int]) -> list[ZkOp]:
    """What a ZooKeeper-mode controller writes for a topic that it is asked for."""
    ops: list[ZkOp] = []

    def put(path: str, data: object = None) -> None:
        text = None if data is None else json.dumps(data, separators=(",", ":")).encode()
        ops.append(Create(path, text))

    _topic(put, rng, name, broker_ids, int(tree.nodes["/controller_epoch"].data or b"0"))
    return ops


def elect(tree: ServerTree, rng: Random) -> list[ZkOp]:
    """What a broker writes that is elected in ZooKeeper mode, and the first change it makes.

    Args:
        tree: what it finds; ``/controller`` is deleted first, as an operator does.
        rng: which change.
    """
    epoch = int(tree.nodes["/controller_epoch"].data or b"0")
    held: list[ZkOp] = [Delete("/controller")] if "/controller" in tree.nodes else []
    topics = sorted(tree.nodes["/config/topics"].children)
    config = json.dumps({"version": 1, "config": {"retention.ms": str(10_000 + epoch)}}).encode()
    topic = rng.choice([*topics, ""])
    path = f"/config/topics/{topic or 'theirs'}"
    return [
        *held,
        *claim(tree, 0),
        SetData(path, config) if topic else Create(path, config),
    ]
