"""A cluster in mixed mode, or with all brokers in KRaft mode, for a few short hours: nothing grows.

An hour has 10 s here, and what is done by the hour or by its quarter is done as often. `make
endurance` takes whole hours.
"""

from __future__ import annotations

import gc
from collections import Counter
from dataclasses import replace

import pytest

from emulator.metadata.idle import IdleOffsets
from emulator.migration import driver
from emulator.migration.taking_over import purge
from emulator.node.machine import Node
from emulator.raft.replica import Replica
from emulator.simulation.run import Run
from emulator.simulation.scenarios import endurance
from emulator.simulation.scenarios.endurance import BROKERS, TO_KRAFT, Endurance, HourRow, grown

HOURS = 7
"""The log is as long as it gets in the fourth, which is in the first half of those that count."""


class Enough(Exception):  # noqa: N818  # nothing is wrong
    """The last hour is over: how the cluster comes to rest is of no interest."""


@pytest.fixture(autouse=True)
def short_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endurance, "HOUR_MS", 10_000)
    monkeypatch.setattr(endurance, "LATE_MS", 5_000)
    monkeypatch.setattr(endurance, "CHANGE_EVERY_MS", 1_000)
    monkeypatch.setattr(endurance, "OTHERS_EVERY_MS", 1_500)
    monkeypatch.setattr(purge, "AGE_MS", 3_000)
    monkeypatch.setattr(purge, "LOOK_MS", 1_000)
    monkeypatch.setattr(driver, "LOOK_MS", 1_000)


def rows_of(to_kraft: range | tuple[int, ...]) -> list[HourRow]:
    rows: list[HourRow] = []

    def say(row: HourRow) -> None:
        rows.append(row)
        if len(rows) == HOURS:
            raise Enough

    with pytest.raises(Enough):
        Endurance(1, HOURS, say, to_kraft).run()
    return rows


@pytest.mark.slow
@pytest.mark.parametrize(
    "to_kraft",
    [
        pytest.param(TO_KRAFT, marks=pytest.mark.requirement("F03"), id="mixed"),
        pytest.param(range(BROKERS), marks=pytest.mark.requirement("F06"), id="kraft"),
    ],
)
def test_no_size_grows(simulator: object, to_kraft: range | tuple[int, ...]) -> None:
    assert simulator
    rows = rows_of(to_kraft)
    assert grown(rows) == []
    assert [row.hour for row in rows] == list(range(1, HOURS + 1))
    last = rows[-1]
    assert last.records > 100
    assert last.znodes > 20
    assert last.log_bytes > 1_000
    assert min(last.raft_bytes, last.metadata_bytes, last.controller_bytes) > 1_000
    assert 0 < last.beyond_bytes < last.image_bytes < last.metadata_bytes
    assert last.node_bytes > last.migration_bytes > 1_000
    assert last.broker_bytes > 10_000


@pytest.mark.slow
def test_what_is_kept_for_ever_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records, notifications, and something of each step of a node."""
    monkeypatch.setattr(Replica, "trim", lambda _: [])
    monkeypatch.setattr(purge, "AGE_MS", 3_600_000)
    # A process that ends forgets what it kept.
    monkeypatch.setattr(endurance, "FAULTS", ("cut",))
    step = Node.step

    def leaking(self, events, now_ms):
        self.__dict__.setdefault("kept", []).append(bytes(500))
        return step(self, events, now_ms)

    monkeypatch.setattr(Node, "step", leaking)
    found = {line.partition(":")[0] for line in grown(rows_of(TO_KRAFT))}
    assert {"log_age_s", "log_bytes", "notifications", "node_bytes"} <= found


@pytest.mark.slow
def test_runs_that_are_kept_below_the_start_of_the_log_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A few bytes for each change, in a metadata that clients let grow and shrink as they like.

    A whole hour has 70 times as many changes, so each run that is kept is made heavier here.
    """
    monkeypatch.setattr(endurance, "FAULTS", ("cut",))
    monkeypatch.setattr(IdleOffsets, "thin", lambda *_: None)
    add = IdleOffsets.add

    def heavier(self, first, last):
        self.__dict__.setdefault("kept", []).append(bytes(200))
        add(self, first, last)

    monkeypatch.setattr(IdleOffsets, "add", heavier)
    found = {line.partition(":")[0] for line in grown(rows_of(TO_KRAFT))}
    assert {"beyond_bytes"} <= found <= {"beyond_bytes", "metadata_bytes"}


def test_no_object_waits_for_a_collection_of_garbage(simulator: object) -> None:
    """The process collects seldom, so what holds itself in a circle would pile up until then."""
    assert simulator
    gc.collect()
    # What other tests have left is of no interest, whenever it goes.
    gc.freeze()
    gc.disable()
    try:
        run = Run(3, replace(endurance.endurance(1), faults=(), changes=40))
        run.run(600_000)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = Counter(f"{type(one).__module__}.{type(one).__name__}" for one in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.unfreeze()
    assert [(kind, count) for kind, count in kinds.items() if kind.startswith("emulator.")] == []
