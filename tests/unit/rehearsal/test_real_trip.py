"""What is said of production's ZooKeeper is what the model of ``predict`` says."""

from __future__ import annotations

from bench.predict import model
from bench.rehearsal.real_trip import UNKNOWN, predicted


def test_without_a_round_trip_it_says_how_to_give_one() -> None:
    assert predicted(None, 5.0) == [UNKNOWN]


def test_the_figures_are_those_of_the_model_at_that_round_trip() -> None:
    near, far = (
        model.border(
            model.creation(1),
            10_000,
            model.Speed(trip_s, model.OPERATION_S, model.COMMIT_S, model.APPEND_S),
        )
        for trip_s in (0.001, 0.080)
    )
    assert far < near
    assert f"from {far:,.0f} changes/s on" in predicted(80.0, 5.0)[0]
    assert f"from {near:,.0f} changes/s on" in predicted(1.0, 5.0)[0]


def test_a_stall_under_load_makes_changes_wait_and_a_small_load_does_not() -> None:
    assert predicted(5.0, 1.0)[-1] == "60 s without ZooKeeper, at 1 change/s: no change waits"
    line = predicted(5.0, 1_000.0)[-1]
    assert line.startswith("60 s without ZooKeeper, at 1,000 changes/s: ")
    assert "wait, the longest" in line
