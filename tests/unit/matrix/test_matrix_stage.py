"""What a step waits for, and what it does not: without servers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.matrix import controllers, stage
from bench.matrix.stage import Stage, WrongError


@pytest.fixture
def made(tmp_path: Path) -> Stage:
    """A stage whose servers were never started."""
    found = Stage("3.9.2", controllers.ours, tmp_path, False, SimpleNamespace())
    found.cluster = SimpleNamespace(brokers=[])
    found.controller = SimpleNamespace()
    return found


def reads(made: Stage, monkeypatch: pytest.MonkeyPatch, *reached: int, end: int) -> list[str]:
    """ZooKeeper is at these offsets, one after the other, and the log at this one."""
    offsets, read = iter(reached), []

    def tree(_stage: Stage) -> None:
        read.append("tree")

    monkeypatch.setattr(Stage, "json", lambda *_: {"kraft_metadata_offset": next(offsets)})
    monkeypatch.setattr(Stage, "tree", tree)
    monkeypatch.setattr(Stage, "records", lambda _: [])
    monkeypatch.setattr(stage.judge, "read_log", lambda _: SimpleNamespace(last_change=end))
    return read


def differ(monkeypatch: pytest.MonkeyPatch, *found: list[str]) -> None:
    answers = iter(found)
    monkeypatch.setattr(stage.judge, "differences", lambda *_: next(answers))


def test_stores_are_read_again_while_zookeeper_lacks_a_change(
    made: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = reads(made, monkeypatch, 3, 4, end=4)
    differ(monkeypatch, ["topic t"], [])
    made.agree()
    assert read == ["tree"] * 2


def test_what_differs_at_the_end_of_the_log_is_not_waited_for(
    made: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = reads(made, monkeypatch, 4, end=4)
    differ(monkeypatch, ["topic t"])
    with pytest.raises(WrongError, match=r"^topic t$"):
        made.agree()
    assert read == ["tree"]


def test_a_store_that_stays_behind_is_named(made: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    reads(made, monkeypatch, 3, end=5)
    differ(monkeypatch, ["topic t"])
    with pytest.raises(WrongError, match=r"^topic t; /migration stands 2 records behind$"):
        made.agree(timeout_s=-1)


def test_a_server_that_ran_and_ended_ends_the_wait(made: Stage) -> None:
    broker: Any = SimpleNamespace(name="broker-1", alive=True, exit_code=1)
    made.cluster.brokers.append(broker)
    with pytest.raises(WrongError, match="no leader: broker-1 ended by itself with 1"):
        made.until("leader", lambda: False)


def test_one_that_a_step_has_ended_is_not_missed(made: Stage) -> None:
    broker: Any = SimpleNamespace(name="broker-1", alive=False, exit_code=-9)
    made.cluster.brokers.append(broker)
    assert made.until("leader", lambda: 2) == 2


def test_a_server_that_does_not_answer_is_asked_again(made: Stage) -> None:
    answers = iter([TimeoutError("30 s"), 1])

    def ask() -> int:
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    assert made.until("leader", ask) == 1
