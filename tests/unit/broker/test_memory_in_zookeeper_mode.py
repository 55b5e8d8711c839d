"""What a broker in ZooKeeper mode costs in a process that has many."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from emulator.broker.zookeeper.shared_control import SharedControl
from emulator.net.control import TYPE_FULL, VERSIONS
from emulator.zookeeper.ops import Create
from tests.unit.broker.control import live
from tests.unit.broker.test_memory_of_many import BYTES_MAX
from tests.unit.broker.zookeeper_stage import MIGRATING, ZooKeeperStage
from wire import messages as m

FIRST, MORE, TOPICS, PARTITIONS = 3, 8, 100, 10
BROKERS = range(1, 41)
"""Of the cluster; a few of them are run."""
NAMES = [f"t{number:03}" for number in range(TOPICS)]


@pytest.fixture
def traced() -> Iterator[None]:
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


def replicas(topic: int, index: int) -> tuple[int, ...]:
    """Three of the brokers, all as often."""
    return tuple((topic * PARTITIONS + index + further) % len(BROKERS) + 1 for further in range(3))


def states(kind: Any, topic: int, indexes: Iterable[int]) -> list[Any]:
    """What a control request says of partitions of a topic."""
    return [
        kind(
            partition_index=index,
            leader=replicas(topic, index)[0],
            isr=replicas(topic, index),
            replicas=replicas(topic, index),
        )
        for index in indexes
    ]


def update() -> m.UpdateMetadataRequest:
    """All topics."""
    kind = m.UpdateMetadataRequest
    topics = [
        kind.UpdateMetadataTopicState(
            topic_name=name,
            topic_id=name.encode().ljust(16),
            partition_states=states(kind.UpdateMetadataPartitionState, number, range(PARTITIONS)),
        )
        for number, name in enumerate(NAMES)
    ]
    return kind(
        controller_id=3000,
        is_kraft_controller=True,
        type=TYPE_FULL,
        controller_epoch=8,
        topic_states=topics,
        live_brokers=[live(broker_id) for broker_id in BROKERS],
    )


def leaders(broker_id: int) -> m.LeaderAndIsrRequest:
    """The partitions that a broker hosts."""
    kind = m.LeaderAndIsrRequest
    hosted = [
        (number, name, [p for p in range(PARTITIONS) if broker_id in replicas(number, p)])
        for number, name in enumerate(NAMES)
    ]
    topics = [
        kind.LeaderAndIsrTopicState(
            topic_name=name,
            topic_id=name.encode().ljust(16),
            partition_states=states(kind.LeaderAndIsrPartitionState, number, indexes),
        )
        for number, name, indexes in hosted
        if indexes
    ]
    return kind(
        controller_id=3000,
        is_kraft_controller=True,
        type=TYPE_FULL,
        controller_epoch=8,
        topic_states=topics,
    )


def begin(stage: ZooKeeperStage, ids: Sequence[int]) -> None:
    """Start brokers, and tell them everything."""
    stage.running(*ids, raw=MIGRATING)
    for broker_id in ids:
        for request in (update(), leaders(broker_id)):
            answer = stage.tell(broker_id, request, VERSIONS[type(request)])
            assert answer.error_code == 0
    stage.joined.wait(5_000)


def cost(shared: SharedControl | None) -> float:
    """Bytes that a broker takes, beside those that are there already."""
    stage = ZooKeeperStage(shared=shared).had_a_cluster()
    config = b'{"version":1,"config":{"retention.ms":"7"}}'
    stage.zookeeper.write(*(Create(f"/config/topics/{name}", config) for name in NAMES))
    begin(stage, BROKERS[:FIRST])
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    begin(stage, BROKERS[FIRST : FIRST + MORE])
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    sides: list[Any] = [party.machine.side for party in stage.parties.values()]  # type: ignore[attr-defined]
    for side in sides:
        assert len([*side.cluster.topics()]) == TOPICS
        assert len(side.zookeeper.mirror.topic_configs) == TOPICS
        assert len(side.replicas) == 3 * TOPICS * PARTITIONS // len(BROKERS)
    return (after - before) / MORE


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
def test_brokers_that_are_told_the_same_are_small() -> None:
    """Each with topics of its own takes more than the bound."""
    assert cost(SharedControl()) < BYTES_MAX
    assert cost(None) > BYTES_MAX
