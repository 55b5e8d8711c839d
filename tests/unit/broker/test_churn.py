"""Scripted churn: how many changes, of which partitions, and what the controller makes of them."""

from __future__ import annotations

from random import Random

import pytest

from emulator.broker.churn import IsrChurn
from tests.unit.broker.hosting import Cluster


def churned(
    per_second: float, seconds: int, *replicas: tuple[int, ...]
) -> tuple[Cluster, IsrChurn]:
    cluster = Cluster(1, 2, 3)
    cluster.create("t", *replicas)
    leader = cluster.brokers[1]
    churn = IsrChurn(cluster.hosted(1), per_second, Random(5), 0)
    end_ms = seconds * 1_000
    while churn.deadline_ms <= end_ms:
        leader.wait(churn.deadline_ms - leader.now_ms)
        churn.tick(leader.now_ms)
        leader.run()
        cluster.settle()
    return cluster, churn


def test_the_rate_holds_and_the_controller_makes_every_change():
    cluster, churn = churned(50, 4, (1, 2, 3), (1, 3, 2), (1, 2, 3))
    assert churn.asked + churn.skipped == pytest.approx(200, abs=1)
    assert churn.skipped == 0
    counts = cluster.brokers[1].part.counts
    assert counts.failed == 0
    assert counts.shrinks + counts.expands == churn.asked
    assert abs(counts.shrinks - counts.expands) <= 3


def test_at_the_end_everyone_catches_up():
    cluster, churn = churned(7, 3, (1, 2, 3), (1, 3, 2))
    leader = cluster.brokers[1]
    churn.stop(leader.now_ms)
    leader.run()
    cluster.settle()
    assert sorted(cluster.partition("t", 0).isr) == [1, 2, 3]
    assert sorted(cluster.partition("t", 1).isr) == [1, 2, 3]


def test_a_change_is_done_when_the_isr_is_as_asked_for():
    cluster = Cluster(1, 2)
    cluster.create("t", (1, 2))
    leader = cluster.brokers[1]
    churn = IsrChurn(cluster.hosted(1), 10, Random(5), 0)
    leader.wait(churn.deadline_ms)
    churn.tick(leader.now_ms)
    assert (churn.outstanding, churn.take_done()) == (1, [])
    leader.run()
    cluster.settle()
    (dropped,) = churn.take_done()
    assert (dropped.key, dropped.follower, dropped.drops, dropped.lost) == (
        ("t", 0),
        2,
        True,
        False,
    )
    assert leader.now_ms - 100 <= dropped.due_ms <= leader.now_ms
    assert cluster.partition("t", 0).isr == (1,)
    assert churn.take_done() == []


def test_a_change_of_a_partition_that_is_not_led_any_more_is_lost():
    cluster = Cluster(1, 2)
    cluster.create("t", (1, 2))
    leader = cluster.brokers[1]
    churn = IsrChurn(cluster.hosted(1), 10, Random(5), 0)
    leader.wait(churn.deadline_ms)
    churn.tick(leader.now_ms)
    cluster.hosted(1).drop(("t", 0))
    assert [one.lost for one in churn.take_done()] == [True]


def test_every_led_partition_has_its_turn():
    cluster, _ = churned(10, 1, *[(1, 2)] * 8)
    changed = [one for one in cluster.hosted(1).led if one.partition.partition_epoch > 0]
    assert len(changed) == 8


def test_a_broker_that_leads_nothing_changes_nothing():
    _, churn = churned(10, 2, (2, 1), (3, 1))
    assert churn.asked == 0
    assert churn.skipped == pytest.approx(20, abs=1)


def test_a_leader_alone_in_its_isr_has_nobody_to_drop():
    _, churn = churned(10, 1, (1,))
    assert churn.asked == 0


def test_a_change_without_an_answer_is_not_made_twice():
    cluster = Cluster(1, 2)
    cluster.create("t", (1, 2))
    leader = cluster.brokers[1]
    leader.at_once = None
    churn = IsrChurn(cluster.hosted(1), 10, Random(5), 0)
    for _ in range(20):
        leader.wait(100)
        churn.tick(leader.now_ms)
        leader.run()
    assert churn.asked == 1
    assert len(leader.asked) == 1


@pytest.mark.parametrize("rate", [0, -1])
def test_a_rate_is_above_zero(rate: float):
    with pytest.raises(ValueError, match="a rate of"):
        IsrChurn(Cluster(1).hosted(1), rate, Random(1), 0)
