"""With many brokers changes are gathered: counted in requests, not timed."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.migration.propagation.gate import PAUSE_US
from emulator.trace.rows import PipelineStage, RangeRow
from tests.unit.migration.test_propagated_ahead import T, U, change, known, leaders
from tests.unit.migration.world import World
from wire import messages as m
from wire import records as r

MANY = 40
PAUSE_MS = MANY * PAUSE_US // 1_000


def many(brokers: int = MANY) -> World:
    """Topic ``t`` is on brokers 1 and 2 of many, and no change waits."""
    world = World().dual_write(*range(1, brokers + 1))
    world.append(*world.topic("t", T, (1, 2)))
    world.advance(1_000)
    world.requests.clear()
    world.rows.clear()
    return world


def churn(world: World, times: int) -> None:
    """The ISR changes each millisecond, so often."""
    for each in range(times):
        world.append(change(isr=(1, 2) if each % 2 else (1,)))
        world.advance(1)


def epoch(world: World, broker_id: int) -> int:
    """The newest partition epoch that a broker was sent."""
    (*_, last) = [one for one in world.requests[broker_id] if hasattr(one, "live_brokers")]
    return int(last.topic_states[0].partition_states[0].zk_version)


def test_so_many_brokers_get_no_request_with_each_change() -> None:
    world = many()
    churn(world, 100)
    world.advance(PAUSE_MS)
    of_each = {len(world.requests[each]) for each in range(3, MANY + 1)}
    assert of_each == {100 // PAUSE_MS + 1}
    assert epoch(world, 1) == epoch(world, MANY) == 100


@pytest.mark.parametrize("brokers", [3, MANY])
def test_few_get_each_and_a_lone_one_goes_at_once(brokers: int) -> None:
    world = many(brokers)
    for times in range(1, 6):
        world.append(change(isr=(1,)))
        assert len(world.requests[3]) == times
        world.advance(PAUSE_MS if brokers == MANY else 0)


def test_what_is_gathered_counts_as_propagated_when_it_is() -> None:
    world = many()
    churn(world, PAUSE_MS - 1)

    def offsets(stage: PipelineStage) -> list[int]:
        found = [one for one in world.rows if isinstance(one, RangeRow) and one.stage is stage]
        return [each for one in found for each in range(one.first_offset, one.last_offset + 1)]

    written = offsets(PipelineStage.ZK_ACKED)
    assert offsets(PipelineStage.PROPAGATED) == written[:1]
    world.advance(1)
    assert offsets(PipelineStage.PROPAGATED) == written


def test_a_topic_made_anew_meanwhile_is_removed_first_and_one_that_came_and_went_is_not_told() -> (
    None
):
    world = many()
    churn(world, 1)
    world.append(r.RemoveTopicRecord(topic_id=T))
    world.append(*world.topic("t", U, (1, 3)))
    world.append(*world.topic("brief", b"B" * 16, (1, 3)))
    world.append(r.RemoveTopicRecord(topic_id=b"B" * 16))
    world.requests.clear()
    world.advance(PAUSE_MS)
    kinds: list[Any] = [m.UpdateMetadataRequest, m.StopReplicaRequest, m.LeaderAndIsrRequest]
    assert [type(one) for one in world.requests[1]] == [*kinds, m.UpdateMetadataRequest]
    assert leaders(world, 1) == [("t", 0, 1, 0)]
    assert known(world, 2) == {("t", 0): 0}


def test_a_leader_that_resigns_propagates_nothing_that_it_gathered() -> None:
    world = many()
    churn(world, 2)
    world.requests.clear()
    world.perform(world.driver.resigned(world.now_ms))
    world.advance(1_000)
    assert world.requests == {}
    gate = world.driver.propagation_gate
    assert gate.due_ms is None
    assert gate.written((), world.journal.stable, 1, world.now_ms) == []
