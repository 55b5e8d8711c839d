"""The model beside the real gate and write-behind, in virtual time, on a serial ZooKeeper."""

from __future__ import annotations

import itertools

import pytest

from bench.predict import model
from bench.predict.model import Arrival, Change, Speed, Stall
from emulator.migration.dual_write import bound, pipeline
from emulator.seam import Event, Row
from emulator.trace.rows import MultiRow
from tests.unit.node.test_blocking_example import Example
from tests.unit.predict.virtual import ONE, create, measured


@pytest.mark.parametrize(
    ("rate", "records", "stall_s"),
    [
        (100, 100, 1.5),
        (100, 200, 1.5),
        (100, 400, 1.5),
        (40, 60, 1.5),
        (200, 300, 1),
        (200, 500, 1),
    ],
)
def test_a_stall_blocks_the_real_gate_as_long_as_is_predicted(
    rate: int, records: int, stall_s: float
) -> None:
    speed = Speed(0.002, 0.00005)
    stall = Stall(0.3, stall_s)
    found = measured(rate, records, speed, 0.3 + stall_s + 0.3, stall)
    predicted = model.stalled(ONE, rate, records, speed, stall_s)
    assert predicted.union_s == pytest.approx(found.union_s, abs=0.03)
    assert predicted.operations == pytest.approx(found.operations, abs=0.03 * rate)
    assert predicted.longest_s == pytest.approx(found.longest_s, abs=0.03)
    assert predicted.total_s == pytest.approx(found.total_s, rel=0.1, abs=0.05)
    # The closed form of the page.
    rule = max(0.0, stall_s - records / (rate * ONE.records))
    assert predicted.union_s == pytest.approx(rule, abs=0.06)
    if found.begins_s is None:
        assert predicted.begins_s is None
    else:
        assert predicted.begins_s == pytest.approx(found.begins_s - 0.3, abs=0.03)


@pytest.mark.parametrize(("request_s", "records"), [(0.05, 40), (0.02, 40)])
def test_without_a_stall_the_real_gate_blocks_from_the_border_on(
    request_s: float, records: int
) -> None:
    speed = Speed(request_s)
    border = model.border(ONE, records, speed)
    assert border == pytest.approx(records / (2 * ONE.records * request_s), rel=0.01)
    shares = [measured(border * times, records, speed, 1.0).union_s for times in (0.8, 1.25)]
    assert shares[0] == 0
    assert shares[1] > 0.5


def test_the_border_is_that_of_a_replay() -> None:
    for speed in (Speed(0.02, 0.0001), Speed(0.004, 0.00002, 0.003), Speed(0.01, 0.0003, 0.01)):
        for records in (60, 400):
            found = model.border(ONE, records, speed)
            for times, blocks in ((0.8, False), (1.25, True)):
                arrivals = itertools.islice(model.even(found * times, ONE), 3_000)
                seen = model.replay(arrivals, records, speed)
                assert (seen.union_s > 0) is blocks, (speed, records, times, found)


@pytest.mark.parametrize("partitions", [1, 3, 10])
def test_a_creation_costs_what_the_real_node_writes(partitions: int) -> None:
    run = Example(10_000)
    node, before = run.world.node, run.counted
    multis: list[MultiRow] = []
    step = node.step

    def watched(events: list[Event], now_ms: int) -> list[object]:
        effects = step(events, now_ms)
        rows = [each.row for each in effects if isinstance(each, Row)]
        multis.extend(each for each in rows if isinstance(each, MultiRow))
        return effects

    node.step = watched  # type: ignore[method-assign, assignment]
    run.world.held = []
    run.world.perform(node.step(create(0, partitions), run.world.now_ms))
    cost = model.creation(partitions)
    assert run.counted - before == cost.records
    run.world.release()
    run.until(500)
    (multi,) = (each for each in multis if each.ops > model.CHAIN_OPS)
    assert multi.ops == cost.operations + model.CHAIN_OPS


def test_the_figures_of_the_model_are_those_of_the_product() -> None:
    assert model.RESUME * 100 == bound.RESUME_PERCENT
    for trip_ms in (0.3, 7.0, 12.0, 100.0):
        # As many full multis as are in flight take one trip; one more takes two.
        depth, speed = pipeline.depth_for(trip_ms), Speed(trip_ms / 1e3)
        assert speed.unit_s(depth * model.MULTI_OPS) == pytest.approx(speed.request_s)
        assert speed.unit_s(depth * model.MULTI_OPS + 1) == pytest.approx(2 * speed.request_s)


def test_arrivals_that_are_recorded_go_through_a_gate_of_any_bound() -> None:
    burst = [Arrival(0.0, Change(1, 1)) for _ in range(100)]
    speed = Speed(0.01)
    assert model.replay(burst, 0, speed).operations == 0
    assert model.replay(burst, 101, speed).operations == 0
    found = model.replay(burst, 40, speed)
    # Of 40 the first is sent alone: after 10 ms 39 are left, which is no room; then 40 more go.
    assert (found.operations, found.most_records) == (60, 40)
    assert found.longest_s == pytest.approx(0.03)
    assert found.ends
    assert model.replay(burst, 40, speed, until_s=0.015).ends is False


def test_poisson_arrivals_reach_the_bound_before_even_ones() -> None:
    speed, rate = Speed(0.02), 0.9 * model.border(ONE, 40, Speed(0.02))
    even = model.replay(itertools.islice(model.even(rate, ONE), 4_000), 40, speed)
    random = model.replay(itertools.islice(model.poisson(rate, ONE, 1), 4_000), 40, speed)
    assert even.union_s == 0 < random.union_s


def test_a_controller_that_appends_slowly_lengthens_the_wait() -> None:
    fast = model.stalled(ONE, 200, 300, Speed(0.002), 1.0)
    slow = model.stalled(ONE, 200, 300, Speed(0.002, append_s=0.002), 1.0)
    waiting, of_controller = fast.operations, 0.002
    extra = waiting * of_controller / (1 - 200 * of_controller)
    assert slow.union_s - fast.union_s == pytest.approx(extra, rel=0.1)


def test_a_rate_that_zookeeper_cannot_take_is_said_not_to_end() -> None:
    found = model.stalled(ONE, 1_000, 100, Speed(0.002, 0.001), 1.0)
    assert not found.ends
    assert found.begins_s == 0  # it began before the stall


def test_a_broker_forwards_one_change_at_a_time() -> None:
    assert model.channel(0.0656, 0.0235) == pytest.approx(11.2, abs=0.05)
