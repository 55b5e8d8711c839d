"""What the demonstration leaves beside its trace: checks, each with a remedy, and events."""

from __future__ import annotations

import time
from typing import Any

import pytest

from bench.demo import watch
from bench.demo.analysis import written
from bench.demo.narrator import Check, Narrator


def test_each_check_comes_with_what_to_do_where_it_does_not_hold() -> None:
    checks = [Check(step, "x", held=False, figures="1 differs") for step in (1, 2, 3, 4)]
    rows = written([*checks, Check(3, "8 changes/s", held=None, figures="3.1", of_speed=True)])
    assert [one.safety for one in rows] == [True, True, True, True, False]
    remedies = [one.remedy for one in rows]
    assert all(remedies)
    assert len(set(remedies)) == 5
    assert "Do not finalise" in rows[3].remedy
    assert (rows[4].held, rows[4].figures) == (None, "3.1")


def test_what_is_done_and_each_state_of_the_driver_are_events(
    capsys: pytest.CaptureFixture[str],
) -> None:
    narrator = Narrator()
    watching = watch.Watch(None, narrator, [])  # type: ignore[arg-type]
    before = time.time_ns()
    watching.doing("SIGKILL to broker 1")
    lag = {"records": 0, "ms": 0, "longest_records": 0}
    of: dict[str, Any] = {"records_copied": 0, "lag": lag, "waiting": []}
    for state in ("WAIT_FOR_BROKERS", "WAIT_FOR_BROKERS", "DUAL_WRITE"):
        watching._take({"migration": of | {"driver_state": state}, "brokers": []})
    assert [one.what for one in narrator.events] == [
        "SIGKILL to broker 1",
        "migration driver: WAIT_FOR_BROKERS",
        "migration driver: DUAL_WRITE",
    ]
    times = [before, *(one.wall_ns for one in narrator.events), time.time_ns()]
    assert times == sorted(times)
