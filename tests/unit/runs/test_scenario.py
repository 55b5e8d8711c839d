"""The rows of a plan."""

import dataclasses
import itertools
from collections import Counter

import pytest

from bench.runs.scenario import Case, WarmUp, planned
from tests.unit.runs.kit import one, scenario


def test_every_target_is_as_often_first():
    plan = planned(scenario(Case("a", rate=1, count=1)), ["x", "y", "z"], 6)
    first = Counter(row.target for row in plan if row.position == 0)
    assert first == {"x": 2, "y": 2, "z": 2}


def test_a_round_has_each_target_once_and_stays_together():
    plan = planned(scenario(Case("a", rate=1, count=1), Case("b", rate=1, count=1)), ["x", "y"], 2)
    rounds = [row.round for row in plan]
    assert rounds == sorted(rounds, key=rounds.index)
    for name in set(rounds):
        assert {row.target for row in plan if row.round == name} == {"x", "y"}
    assert len({row.run_id for row in plan}) == len(plan) == 8


def test_the_digest_changes_with_what_is_measured():
    base = one().digest
    assert one(repeat=7).digest == base
    assert one(case=Case("small", rate=10, count=21)).digest != base
    assert one("kafka").digest != base


def test_a_key_that_came_later_leaves_the_rows_of_other_cases_as_they_are():
    base = one()
    assert base.digest == one(case=Case(**{**vars_of(base.case), "burst": 1})).digest
    for key, value in {
        "burst": 2,
        "poisson": True,
        "arrivals_s": (0.1,),
        "fsync_ms": (1.0,),
    }.items():
        assert one(case=Case(**{**vars_of(base.case), key: value})).digest != base.digest
    warmer = dataclasses.replace(base.scenario, warm_up=WarmUp(changes=9))
    assert dataclasses.replace(base, scenario=warmer).digest != base.digest
    # Of a row that was kept before there were these keys.
    assert base.digest == "ccad9b5b7e46b3ed"


def vars_of(case):
    return {name: getattr(case, name) for name in case.__slots__}


def test_arrivals_are_even_in_bursts_random_or_recorded():
    assert Case("a", rate=10, count=4).due_s is None
    assert Case("a", topics_present=3).due_s is None
    bursts = Case("a", rate=10, count=5, burst=2).due_s
    assert bursts == pytest.approx([0, 0, 0.2, 0.2, 0.4, 0.6])
    recorded = Case("a", rate=2, count=3, arrivals_s=(0.0, 1.4, 1.5)).due_s
    assert recorded == [0.0, 1.4, 1.5, 1.5]
    random = Case("a", rate=100, count=5_000, poisson=True).due_s
    assert random == Case("b", rate=100, count=5_000, poisson=True).due_s
    gaps = [after - at for at, after in itertools.pairwise(random)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(0.01, rel=0.05)
    # As far apart as they are long: of even ones the variance is 0.
    assert sum((gap - mean) ** 2 for gap in gaps) / len(gaps) == pytest.approx(mean**2, rel=0.15)
