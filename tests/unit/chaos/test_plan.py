"""Strikes are drawn from the seed, one at a time, and leave a majority alone."""

from __future__ import annotations

import itertools

import pytest

from bench.chaos.plan import (
    BROKER,
    CALM_S,
    CONTROLLER,
    FAILOVER_S,
    FAULTS,
    LEADER,
    ZOOKEEPER,
    Fault,
    Strike,
    fails_over,
    strikes,
)

SIZES = {CONTROLLER: 3, BROKER: 3, ZOOKEEPER: 1}
SEEDS = range(40)


def overlapping(plan: list[Strike]) -> list[tuple[Strike, Strike]]:
    return [
        (one, other)
        for one, other in itertools.pairwise(plan)
        if one.at_s + one.lasts_s >= other.at_s
    ]


def test_one_strike_has_ended_before_the_next_begins_and_the_end_is_calm() -> None:
    for seed in SEEDS:
        plan = list(strikes(seed, 600, SIZES))
        assert 30 <= len(plan) <= 40, seed
        assert not overlapping(plan), seed
        assert all(strike.at_s + strike.lasts_s <= 600 - CALM_S for strike in plan), seed
        assert all(strike.fault in FAULTS[strike.kind] for strike in plan), seed
        named = [strike for strike in plan if strike.server_index != LEADER]
        assert all(strike.server_index < SIZES[strike.kind] for strike in named), seed


def test_every_fault_of_every_kind_is_drawn_and_a_seed_draws_the_same_again() -> None:
    plans = [list(strikes(seed, 600, SIZES)) for seed in SEEDS]
    assert plans == [list(strikes(seed, 600, SIZES)) for seed in SEEDS]
    assert len({tuple(plan) for plan in plans}) == len(plans)
    drawn = {(strike.kind, strike.fault) for plan in plans for strike in plan}
    assert drawn == {(kind, fault) for kind, faults in FAULTS.items() for fault in faults}


@pytest.mark.parametrize("seconds", [60, 110, 600])
def test_every_run_kills_its_leader_for_long_and_strikes_a_broker(seconds: float) -> None:
    for seed in SEEDS:
        plan = list(strikes(seed, seconds, SIZES))
        assert any(map(fails_over, plan)), seed
        assert any(strike.kind == BROKER for strike in plan), seed
        assert not overlapping(plan), seed


def test_a_leader_that_is_back_at_once_is_no_failover() -> None:
    assert fails_over(Strike(0, FAILOVER_S, CONTROLLER, LEADER, Fault.KILL))
    assert not fails_over(Strike(0, FAILOVER_S - 1, CONTROLLER, LEADER, Fault.KILL))
    assert not fails_over(Strike(0, FAILOVER_S, CONTROLLER, 0, Fault.KILL))
    assert not fails_over(Strike(0, FAILOVER_S, CONTROLLER, LEADER, Fault.PAUSE))


def test_without_zookeeper_it_is_never_struck() -> None:
    plan = strikes(3, 600, SIZES | {ZOOKEEPER: 0})
    assert {strike.kind for strike in plan} == {CONTROLLER, BROKER}
