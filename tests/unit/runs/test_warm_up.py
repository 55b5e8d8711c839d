"""Before a load of changes there are changes of its kind, and the load begins where they end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bench.runs import loads, stage
from bench.runs.reading import HOME, read
from bench.runs.scenario import Case, Kind, WarmUp
from wire.frame import decode_request

EPOCHS = [(4, 9), (5, 8)]


@pytest.mark.parametrize("name", ["isr-churn", "growth", "broker-restart", "config-churn"])
def test_scenarios_of_changes_are_warmed_by_changes(name: str) -> None:
    scenario = read(HOME / f"{name}.toml")
    assert scenario.warm_up.changes >= 4_000
    for case in scenario.cases:
        load, count = loads.warm_changes(scenario.kind, case, scenario.warm_up, 7)
        assert count >= scenario.warm_up.changes
        assert load.frame(count - 1) is not None


def test_the_last_change_of_each_isr_leaves_it_as_it_was() -> None:
    load, count = loads.warm_changes(Kind.ISR, Case("a", topics_present=3), WarmUp(changes=7), 1)
    sizes = []
    for number in range(count - 3, count):
        frame = load.frame(number)
        assert frame is not None
        request: Any = decode_request(frame[4:])[1]
        [topic] = request.topics
        [partition] = topic.partitions
        sizes.append((topic.topic_id, len(partition.new_isr_with_epochs)))
    assert sizes == [(loads.present_id(number), 3) for number in range(3)]


def test_configs_of_the_load_are_others_than_those_before_it() -> None:
    case = Case("a", rate=1, count=6, topics_present=3)
    before, count = loads.warm_changes(Kind.CONFIG, case, WarmUp(changes=6), -1)
    frames = {before.frame(number) for number in range(count)}
    load = loads.load_of(Kind.CONFIG, case, -1)
    assert frames.isdisjoint(load.frame(number) for number in range(6))


def test_the_load_begins_with_the_epochs_that_the_changes_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[tuple[str, int]] = []

    def warmed(_on: object, load: Any, count: int) -> None:
        taken.append((load.api, count))
        if isinstance(load, loads.IsrChanges):
            load._epochs = EPOCHS

    drained: list[object] = []
    monkeypatch.setattr(stage, "_warmed", warmed)
    monkeypatch.setattr(stage, "_warm_drained", drained.append)

    def on(kind: Kind, plan: WarmUp) -> Any:
        scenario = SimpleNamespace(kind=kind, warm_up=plan)
        case = Case("a", rate=1, count=4, topics_present=2)
        brokers = SimpleNamespace(epoch=lambda _broker: 7)
        return SimpleNamespace(
            planned=SimpleNamespace(scenario=scenario), case=case, brokers=brokers
        )

    assert stage._warm_up(on(Kind.ISR, WarmUp(3, 1, changes=5))) == EPOCHS
    assert taken == [("CreateTopics", 3), ("AlterPartition", 8)]
    assert len(drained) == 1
    taken.clear()
    assert stage._warm_up(on(Kind.CONFIG, WarmUp(0, 1, changes=5))) == ()
    assert taken == [("IncrementalAlterConfigs", 8)]
    assert stage._warm_up(on(Kind.CREATE, WarmUp(0))) == ()
    assert len(drained) == 2
