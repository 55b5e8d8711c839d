"""The bench of the write-behind writes what it says, in as many multis as it says."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest

from emulator.simulation.models.write_behind_alone import PARTS, CommittedRecords, WriteBehindAlone


@pytest.mark.requirement("W06")
def test_changes_of_few_partitions_are_few_transactions_however_many_they_are() -> None:
    """At most 0.01 transactions for each change; a state is written once for each epoch."""
    log, rig = CommittedRecords(), WriteBehindAlone()
    rig.feed([delta for _ in range(20) for delta in log.create(10)], at_once=20)
    changes = list(islice(log.shrink(Random(1), 10), 4_000))
    cost = rig.feed(changes, at_once=500)
    assert cost.multis <= 0.01 * len(changes)
    assert cost.ops == len(changes) + 3 * cost.multis


def test_it_writes_every_partition_and_times_each_part() -> None:
    log, rig = CommittedRecords(), WriteBehindAlone()
    cost = rig.feed([delta for _ in range(7) for delta in log.create(5)], at_once=3)
    assert cost.partitions == 35
    assert cost.ops == 7 * (3 + 2 * 5) + 3 * cost.multis
    states = [path for path in rig.model.tree.nodes if path.endswith("/state")]
    assert len(states) == 35
    assert set(cost.micros) == set(PARTS)
    assert cost.total == pytest.approx(sum(cost.micros.values()))


def test_the_work_for_a_change_does_not_grow_with_the_cluster() -> None:
    """Counted, not timed: operations, and lookups of topics in the image."""
    looked_up = []
    for topics in (5, 500):
        log, rig = CommittedRecords(), WriteBehindAlone()
        rig.feed([delta for _ in range(topics) for delta in log.create(1)], at_once=50)
        counted = Counted(rig)
        change = list(islice(log.shrink(Random(1), 1), 1))
        cost = rig.feed(change, at_once=1)
        looked_up.append((cost.ops, counted.encoded))
    assert looked_up[0] == looked_up[1] == (4, 4)


class Counted:
    """Counts the operations that are encoded."""

    def __init__(self, rig: WriteBehindAlone) -> None:
        self.encoded = 0
        inner = rig.zk.op_bytes

        def op_bytes(op: object) -> bytes:
            self.encoded += 1
            return inner(op)  # type: ignore[arg-type]

        rig.zk.op_bytes = op_bytes  # type: ignore[method-assign]
