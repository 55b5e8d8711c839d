"""A large change is planned while multis are in flight, so that ZooKeeper does not wait for us."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.simulation.models.write_behind_alone import NOW_MS, CommittedRecords, WriteBehindAlone
from emulator.zookeeper.ops import ZkOp


def counting(rig: WriteBehindAlone) -> list[int]:
    """The operations encoded from now on."""
    encoded: list[int] = [0]
    inner = rig.zk.op_bytes

    def op_bytes(op: ZkOp) -> bytes:
        encoded[0] += 1
        return inner(op)

    rig.zk.op_bytes = op_bytes  # type: ignore[method-assign]
    return encoded


@pytest.mark.parametrize("ops_max", [1, 40, 400, 1_000])
def test_an_answer_is_followed_by_a_multi_that_is_ready(ops_max: int) -> None:
    """Only what depends on the place in the chain is left: the check and the two counters."""
    log, rig = CommittedRecords(), WriteBehindAlone()
    rig.behind.pipeline.ops_max = ops_max
    # How many are in flight follows the measured round trips; those of a busy machine are long.
    rig.behind.pipeline._stamp = lambda: 0
    encoded = counting(rig)
    outcome, at_answers = rig.behind.outcome, []

    def counted(*args: Any) -> Any:
        before, multis = encoded[0], sum(rig.behind.pipeline.multis.values())
        effects = outcome(*args)
        assert sum(rig.behind.pipeline.multis.values()) == multis + 1
        at_answers.append(encoded[0] - before)
        return effects

    rig.behind.outcome = counted  # type: ignore[method-assign]
    partitions = 10 if ops_max == 1 else 200
    deltas = [delta for _ in range(15) for delta in log.create(partitions)]
    cost = rig.feed(deltas, at_once=len(deltas))
    assert cost.ops == 15 * (3 + 2 * partitions) + 3 * cost.multis
    assert set(at_answers) == {0, 3}, "0: everything is sent"
    assert len(at_answers) >= 6_045 // 1_000


def test_no_more_is_planned_than_the_next_multi_needs() -> None:
    log, rig = CommittedRecords(), WriteBehindAlone()
    deltas = [delta for _ in range(50) for delta in log.create(200)]
    encoded = counting(rig)
    rig.behind.metadata(deltas, NOW_MS)
    while rig.tick():
        pass
    pipeline = rig.behind.pipeline
    assert pipeline.full
    unit = pipeline.open_unit
    assert not unit.planned
    assert pipeline.ops_max < unit.waiting_ops <= pipeline.ops_max + 650
    assert encoded[0] <= 2 * pipeline.ops_max + unit.waiting_ops + 2 * 3
