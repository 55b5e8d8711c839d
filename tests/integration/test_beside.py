"""Our controller and Kafka's, asked for the same, leave the same tree."""

import pytest

from bench.beside.contenders import KAFKA, OURS
from bench.beside.scenario import Burst
from bench.beside.stage import Plan, play

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


@pytest.mark.requirement("X06")
def test_the_trees_are_equal_and_ours_took_a_fraction_of_the_transactions(tmp_path):
    plan = Plan(
        cold=Burst("cold", 4, 10, 4),
        small=Burst("small", 2, 1, 2),
        bursts=[Burst("burst0", 8, 12, 4), Burst("burst1", 1, 30, 1)],
        patience_s=0.0,
    )
    said = []
    rows = play(plan, [OURS, KAFKA], 0, tmp_path, said.append)
    ours, kafkas = rows
    assert [row.void for row in rows] == ["", ""]
    assert [row.partitions for row in rows] == [126, 126]
    assert kafkas.zk_transactions >= 8 * (2 * 12 + 3) + 2 * 30 + 3
    assert ours.zk_transactions * 5 < kafkas.zk_transactions
    assert len(ours.latencies_ms) == len(kafkas.latencies_ms) == 9
    assert len(said) == 2
