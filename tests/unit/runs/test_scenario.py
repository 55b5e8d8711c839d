"""The rows of a plan."""

from collections import Counter

from bench.runs.scenario import Case, planned
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
