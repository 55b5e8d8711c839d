"""Whatever happens, brokers host what the log says, and ISRs are whole once all are back."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.kit.requests import reassign
from tests.unit.broker.hosting import Cluster
from wire import messages as m

BROKERS = (1, 2, 3, 4)


class History:
    """One random history; the controller may leave requests without an answer for a while."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.cluster = Cluster(*BROKERS, metadata_version=self.rng.choice([8, 13, 21]))
        self.topics: list[str] = []
        self.made = 0
        self.create()

    def step(self) -> None:
        self.rng.choice(
            [
                self.create,
                self.delete,
                self.fence,
                self.unfence,
                self.unfence,
                self.reassign,
                self.hold_back,
                self.let_go,
                self.wait,
                self.lose_an_answer,
                self.read_no_more,
                self.read_again,
            ]
        )()

    def create(self) -> None:
        active = [one.id for one in self.cluster.world.tip.brokers.values() if one.active]
        if len(active) < 2:
            return
        self.made += 1
        name = self.rng.choice([f"t{self.made}", "again"])
        if name in self.topics:
            return
        size = self.rng.randint(1, min(3, len(active)))
        replicas = [tuple(self.rng.sample(active, size)) for _ in range(self.rng.randint(1, 4))]
        self.cluster.create(name, *replicas)
        self.topics.append(name)

    def delete(self) -> None:
        if len(self.topics) > 1:
            name = self.topics.pop(self.rng.randrange(len(self.topics)))
            self.cluster.world.ask(m.DeleteTopicsRequest(topics=[], topic_names=[name]), 5)
            if self.rng.random() < 0.5:
                self.cluster.settle()

    def fence(self) -> None:
        self.cluster.fence(self.rng.choice(BROKERS))

    def unfence(self) -> None:
        self.cluster.unfence(self.rng.choice(BROKERS))

    def reassign(self) -> None:
        name = self.rng.choice(self.topics)
        replicas = tuple(self.rng.sample(BROKERS, self.rng.randint(1, 3)))
        self.cluster.world.ask(reassign(name, replicas, 0))
        self.cluster.settle()

    def hold_back(self) -> None:
        end = self.cluster.brokers[self.rng.choice(BROKERS)]
        for hosted in [*end.replicas.led]:
            if self.rng.random() < 0.5:
                end.replicas.hold_back(hosted.key, self.rng.choice(BROKERS), end.now_ms)
        end.run()
        self.cluster.settle()

    def let_go(self) -> None:
        end = self.cluster.brokers[self.rng.choice(BROKERS)]
        for hosted in [*end.replicas]:
            for follower in end.replicas.held_back(hosted.key):
                end.replicas.let_go(hosted.key, follower, end.now_ms)
        end.run()
        self.cluster.settle()

    def wait(self) -> None:
        self.cluster.wait(self.rng.choice([10, 600, 31_000]))

    def read_no_more(self) -> None:
        self.cluster.read_no_more(self.rng.choice(BROKERS))

    def read_again(self) -> None:
        from_snapshot = self.rng.random() < 0.4
        self.cluster.read_again(self.rng.choice(BROKERS), from_snapshot=from_snapshot)

    def lose_an_answer(self) -> None:
        """The next request is acted on, and its answer is lost."""
        end = self.cluster.brokers[self.rng.choice(BROKERS)]
        usual = end.at_once

        def lost(header: Any, request: Any) -> Any:
            assert usual is not None
            usual(header, request)
            end.at_once = usual
            return m.AlterPartitionResponse(error_code=-1)

        end.at_once = lost

    def end(self) -> None:
        for broker_id in BROKERS:
            self.cluster.read_again(broker_id, from_snapshot=self.rng.random() < 0.4)
        for _ in range(3):
            for broker_id in BROKERS:
                self.cluster.unfence(broker_id)
                end = self.cluster.brokers[broker_id]
                for hosted in [*end.replicas]:
                    for follower in end.replicas.held_back(hosted.key):
                        end.replicas.let_go(hosted.key, follower, end.now_ms)
            for _ in range(4):
                self.cluster.wait(2_000)


@pytest.mark.parametrize("seed", range(16))
def test_isrs_are_whole_and_brokers_agree_with_the_log(seed: int):
    history = History(seed)
    for _ in range(60):
        history.step()
    history.end()
    image = history.cluster.history.stable
    wanted: dict[int, dict[tuple[str, int], Any]] = {one: {} for one in BROKERS}
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            assert set(partition.isr) == set(partition.replicas), (topic.name, index, partition)
            assert not partition.adding_replicas
            for broker_id in partition.replicas:
                wanted[broker_id][topic.name, index] = (topic.id, partition)
    for broker_id in BROKERS:
        hosted = {
            one.key: (one.topic_id, one.partition) for one in history.cluster.hosted(broker_id)
        }
        assert hosted == wanted[broker_id]
