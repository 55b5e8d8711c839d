"""How much is built in one step: a small change whole, a large one piece by piece."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.metadata.delta import Touched
from emulator.metadata.image import Image
from emulator.migration.propagation import propagator
from emulator.seam import Effect
from tests.unit.migration.test_topic_compare import image_of
from tests.unit.migration.world import World
from tests.unit.node.test_copy_grows_in_line import Work
from tests.unit.node.test_copy_grows_in_line import counted as counted_work
from wire import records as r

T, U = b"T" * 16, b"U" * 16


def counted(world: World) -> list[int]:
    """Collects the time of every tick that the driver asked for from now on."""
    ticks: list[int] = []
    tick = world.driver.tick

    def counting(now_ms: int) -> list[Effect]:
        ticks.append(now_ms)
        return tick(now_ms)

    world.driver.tick = counting  # type: ignore[method-assign]
    return ticks


def story(*, pieces: bool, monkeypatch: pytest.MonkeyPatch) -> World:
    if pieces:
        monkeypatch.setattr(propagator, "WORK_PER_STEP", 1)
        monkeypatch.setattr(propagator, "LOOKED_PER_SLICE", 1)
    world = World().dual_write(1, 2, 3)
    world.append(*world.topic("t", T, *((1, 2, 3),) * 600))
    world.append(r.PartitionChangeRecord(topic_id=T, partition_id=7, leader=2, isr=(2,)))
    world.append(r.RemoveTopicRecord(topic_id=T), *world.topic("t", U, (1, 3)))
    world.unfence(2, fenced=1)
    world.register(2)
    return world


def test_a_single_change_asks_for_no_turn_of_its_own_to_be_told() -> None:
    """Planning may ask for one; the six requests to three brokers leave with the confirmation."""
    world = World().dual_write(1, 2, 3)
    world.append(*world.topic("t", T, (1, 2, 3)))
    sent = world.driver.channels.sent_count
    ticks = counted(world)
    world.append(r.PartitionChangeRecord(topic_id=T, partition_id=0, leader=2, isr=(2,)))
    assert world.driver.channels.sent_count - sent == 6
    assert len(ticks) <= 1


def test_brokers_get_the_same_in_the_same_order_however_it_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole: Any = story(pieces=False, monkeypatch=monkeypatch).requests
    cut: Any = story(pieces=True, monkeypatch=monkeypatch).requests
    assert {broker: len(requests) > 8 for broker, requests in whole.items()} == {
        1: True,
        2: True,
        3: True,
    }
    assert whole == cut


def test_a_large_change_is_cut_so_that_no_step_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World().dual_write(1, 2, 3)
    pieces: list[int] = []
    step = world.driver.propagator.step

    def stepping(now_ms: int) -> list[Effect]:
        busy = world.driver.propagator.busy
        sent = world.driver.channels.queued + world.driver.channels.sent_count
        effects = step(now_ms)
        if busy:
            pieces.append(world.driver.channels.queued + world.driver.channels.sent_count - sent)
        return effects

    monkeypatch.setattr(world.driver.propagator, "step", stepping)
    world.append(*world.topic("t", T, *((1, 2, 3),) * 2_000))
    builds = 4
    assert len(pieces) >= builds * 2_000 // propagator.WORK_PER_STEP - builds, (
        "a LeaderAndIsr for each broker, and once what UpdateMetadata shares"
    )
    assert max(pieces) <= 2, "one request of 2,000 partitions in a step, queued and sent"


def longest_look(topics: int, partitions: int) -> int:
    """Lines and calls of C until the next slice of the changes of so many partitions."""
    after, touched = image_of(topics, partitions), Touched()
    for topic_id, topic in after.topics.items():
        touched.topics[topic_id] = topic.name
        touched.partitions |= {(topic_id, index) for index in range(partitions)}
    found, longest = propagator._Changes.between(Image(), after, touched), 0
    done: list[propagator._Changes] = []

    def go_on() -> list[Effect]:
        try:
            next(found)
        except StopIteration as end:
            done.append(end.value)
        return []

    while not done:
        work = Work()
        counted_work(work, go_on)
        longest = max(longest, work.run)
    assert len(done[0].changed) == topics * partitions
    return longest


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_the_changes_of_many_topics_are_looked_for_in_slices(partitions: int) -> None:
    """Those of a dead broker that led 100,000 topics of one partition took 0.4 s in one step."""
    few, many = (longest_look(number // partitions, partitions) for number in (2_100, 6_300))
    assert many <= 1.2 * few
