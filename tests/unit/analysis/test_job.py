"""Jobs that run at once end together."""

from __future__ import annotations

import threading

import pytest

from bench.analysis import job


class Spark:
    """Ends what runs when it is asked to for the second time, as a call may be between two jobs."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.asked = 0

    def interruptAll(self) -> None:  # noqa: N802 - Spark's name
        self.asked += 1
        if self.asked == 2:
            self.ended.set()


def test_one_that_fails_ends_those_before_and_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "_AGAIN_S", 0.01)
    spark, begun = Spark(), threading.Barrier(4)

    def do(number: int) -> None:
        begun.wait(60)
        if number == 1:
            raise ValueError("first")
        assert spark.ended.wait(60)

    with pytest.raises(ValueError, match="first"):
        job.at_once(spark, do, range(4))
    assert spark.asked >= 2


def test_results_are_in_the_order_of_what_was_given() -> None:
    assert job.at_once(Spark(), lambda number: number * 2, range(9)) == [*range(0, 18, 2)]
