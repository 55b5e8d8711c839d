"""Step 1: create an old cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from bench.demo.narrator import Narrator
from bench.demo.stage import Stage
from bench.load import cluster_api as api
from emulator.servers.patience import patiently
from emulator.servers.waiting import PATIENCE_S, wait_for

TOPICS: Final[dict[str, tuple[int, int, dict[str, str]]]] = {
    "clicks": (50, 2, {"compression.type": "gzip", "segment.bytes": "67108864"}),
    "sessions": (24, 3, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.2"}),
    "metrics": (16, 1, {"retention.ms": "3600000"}),
    "orders": (12, 3, {"retention.ms": "604800000", "min.insync.replicas": "2"}),
    "logs": (10, 2, {}),
    "users": (8, 3, {"cleanup.policy": "compact"}),
    "payments": (6, 3, {"min.insync.replicas": "2", "max.message.bytes": "500000"}),
    "search": (5, 3, {}),
    "inventory": (4, 2, {"unclean.leader.election.enable": "false"}),
    "mail": (3, 1, {"retention.bytes": "1073741824"}),
    "audit": (1, 3, {"retention.ms": "-1"}),
    "tiny": (1, 1, {}),
}
"""Name -> partitions, replication factor, configs."""

WRITTEN: Final = {name: TOPICS[name][0] for name in ("orders", "payments", "clicks")}
"""Topics (with their partitions) that the producer writes to and the group reads."""

LEAVING: Final = "leaving"
"""The topic whose deletion is asked for while a broker with a replica of each partition is down."""
LEAVING_PARTITIONS: Final = 20

ONE_BROKER: Final = {
    "leader.replication.throttled.rate": "104857600",
    "follower.replication.throttled.rate": "104857600",
}
_CONFIGURED: Final = 1
CLUSTER_DEFAULT: Final = {"message.max.bytes": "1500000"}

DELETION: Final = f"/admin/delete_topics/{LEAVING}"


def seed(stage: Stage, narrator: Narrator) -> None:
    """Start ZooKeeper and brokers, fill them, and check that it is all there.

    Raises:
        ProcessError: a server did not start.
        RefusedError: the cluster refused what is needed.
        TimeoutError: something did not happen in time.
    """
    stage.zk.start().wait_started(PATIENCE_S)
    narrator.print_line(f"ZooKeeper 3.9.5 answers at {stage.zk.hosts}")
    stage.cluster.start(PATIENCE_S).wait_ready(PATIENCE_S)
    narrator.print_line(
        f"three Kafka {stage.cluster.brokers[0].release} brokers run in ZooKeeper mode"
    )
    _fill(stage)
    stage.clients.start(WRITTEN)
    narrator.print_line("producer (acks=all, idempotent) and consumer group run from here on")
    _wait_whole(stage)
    _check(stage, narrator)


def _fill(stage: Stage) -> None:
    """Create topics and configs; a broker that is slow, or another controller, is asked again."""
    brokers = stage.cluster.brokers
    wanted = [
        api.topic(name, partitions, factor, configs)
        for name, (partitions, factor, configs) in TOPICS.items()
    ]
    wanted.append(api.topic(LEAVING, LEAVING_PARTITIONS, len(brokers), {"retention.ms": "1000000"}))
    one = brokers[_CONFIGURED]

    def made() -> bool:
        return bool(ask(lambda: api.created(brokers[0].bootstrap, wanted)))

    def configured() -> bool:
        ask(lambda: api.set_configs(one.bootstrap, api.BROKER, str(one.id), ONE_BROKER))
        ask(lambda: api.set_configs(one.bootstrap, api.BROKER, "", CLUSTER_DEFAULT))
        return True

    patiently("topics", made, brokers)
    patiently("configs", configured, brokers)


def unheard(seen: api.Shape) -> list[str]:
    """What the metadata of a broker lacks: topics, replicas in sync. Empty metadata lack all."""
    return [*(TOPICS.keys() - seen.topics.keys()), *seen.short()]


def _wait_whole(stage: Stage) -> None:
    """Wait for every replica, and for the group's own topic."""

    def whole() -> bool:
        seen = stage.shape()
        return "__consumer_offsets" in seen.topics and not unheard(seen)

    wait_for("topics with every replica in sync", whole, PATIENCE_S)


def ask(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run one coroutine to its end in a new event loop."""
    return asyncio.run(work())


def _check(stage: Stage, narrator: Narrator) -> None:
    seen = stage.shape()
    kept = {name: topic for name, topic in seen.topics.items() if name in TOPICS}
    sizes = [len(topic) for topic in kept.values()]
    narrator.check(
        "an old cluster",
        len(kept) == len(TOPICS),
        f"{len(kept)} topics of {min(sizes)} to {max(sizes)} partitions, {len(seen.partitions)} "
        f"partitions in all; ZooKeeper's controller is broker {seen.controller_id}",
    )
    broker = stage.znode(f"/config/brokers/{_CONFIGURED}")
    default = stage.znode("/config/brokers/<default>")
    narrator.check(
        "dynamic broker configs, of one broker and of all",
        broker["config"] == ONE_BROKER and default["config"] == CLUSTER_DEFAULT,
        f"{len(broker['config'])} of broker {_CONFIGURED}, {len(default['config'])} of all",
    )
    block = wait_for(
        "a block of producer ids", lambda: stage.znode("/latest_producer_id_block"), PATIENCE_S
    )
    narrator.check(
        "a block of producer ids was handed out",
        int(block["block_end"]) > 0,
        f"{block['block_start']} to {block['block_end']}, to broker {block['broker']}",
    )
