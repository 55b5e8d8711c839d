"""Sizes over many hours: how they are counted, and when one is said to have grown."""

from __future__ import annotations

import json
import sys
from dataclasses import fields, replace
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from emulator.cli import app
from emulator.metadata.topics import Partition
from emulator.simulation.models.scheduler import Scheduler
from emulator.simulation.scenarios.endurance import (
    FAULTS,
    Endurance,
    HourRow,
    _of_hour,
    endurance,
    grown,
    product_bytes,
)

ROW = HourRow(*range(100, 100 + len(fields(HourRow))))


class Holds:
    def __init__(self, *held: object) -> None:
        self.held = held


def test_what_two_objects_share_is_counted_once() -> None:
    shared = bytes(10_000)
    seen: set[int] = set()
    first, second = Holds(shared), Holds(shared)
    assert product_bytes(first, seen) > 10_000
    assert product_bytes(second, seen) < 1_000
    assert product_bytes(Holds(first, second)) < 12_000


def test_what_a_struct_holds_is_counted_though_the_collector_does_not_know_it() -> None:
    class Kept(msgspec.Struct, gc=False):
        data: bytes

    assert product_bytes(Kept(bytes(5_000))) > 5_000
    assert "replicas" in Partition.__struct_fields__


def test_neither_the_program_nor_a_model_is_counted() -> None:
    scheduler = Scheduler()
    scheduler.lines = ["x" * 10_000]
    assert product_bytes(Holds(scheduler, sys, product_bytes, scheduler.after)) < 1_000


def test_a_size_that_grows_is_named_and_what_clients_decide_is_not() -> None:
    level = [replace(ROW, hour=hour, records=hour * 10_000, topics=hour) for hour in range(24)]
    assert grown(level) == []
    rising = [replace(row, node_bytes=1_000 + 100 * row.hour) for row in level]
    assert grown(rising) == ["node_bytes: 2100 at most in the first half, then 3300"]
    assert grown(rising[:4]) == [], "too few to tell"


def test_of_the_metadata_the_whole_is_judged_its_image_and_what_is_kept_besides() -> None:
    rows = [replace(ROW, hour=hour) for hour in range(24)]
    for name in ("metadata_bytes", "image_bytes", "beyond_bytes"):
        rising = [replace(row, **{name: 1_000 + 100 * row.hour}) for row in rows]
        assert grown(rising) == [f"{name}: 2100 at most in the first half, then 3300"]


def test_what_is_made_of_what_clients_decide_may_grow_as_that_does_and_no_more() -> None:
    """Two snapshots of a cluster that has 1.6 times as much in the second half."""
    rows = [
        replace(ROW, decided_bytes=1_000 + 100 * hour, snapshot_bytes=400 + 40 * hour)
        for hour in range(24)
    ]
    assert grown(rows) == []
    third = [replace(row, snapshot_bytes=row.snapshot_bytes * 3 // 2) for row in rows[12:]]
    assert grown(rows[:12] + third) == ["snapshot_bytes: 840 at most in the first half, then 1980"]
    notified = [replace(row, notifications=100 + 10 * hour) for hour, row in enumerate(rows)]
    assert grown(notified) == ["notifications: 210 at most in the first half, then 330"]


def test_what_is_held_for_an_instant_is_not_in_the_row_of_an_hour() -> None:
    """Images of a voter that has just been started, a third snapshot; the log is a saw-tooth."""
    looks = [
        replace(ROW, metadata_bytes=size, snapshots=count, log_bytes=size)
        for size, count in ((900, 2), (70_000, 3), (800, 3), (950, 2))
    ]
    row = _of_hour(looks)
    assert (row.metadata_bytes, row.snapshots, row.log_bytes) == (800, 2, 70_000)
    assert row.hour == ROW.hour


def test_notifications_that_are_never_purged_are_named() -> None:
    rows = [replace(ROW, notifications=hour) for hour in range(24)]
    assert grown(rows) == ["notifications: 11 at most in the first half, then 23"]


def test_a_log_that_keeps_more_than_snapshots_explain_is_named() -> None:
    """In any hour, and however many there are: what is kept has a bound, whatever the load is."""
    rows = [replace(ROW, log_age_s=3 * 3_600 + 60) for _ in range(3)]
    assert grown(rows) == []
    rows[1] = replace(ROW, log_age_s=4 * 3_600)
    (found,) = grown(rows)
    assert found == "log_age_s: 14400, which is more than snapshots explain (10860)"


def test_faults_come_as_often_as_hours_and_clients_ask_all_the_time() -> None:
    scenario = endurance(10)
    assert len(scenario.faults) == 10
    assert {one.partition("/")[0] for one in scenario.faults} == set(FAULTS)
    assert (scenario.changes - 1) * scenario.change_every_ms == 10 * 3_600_000


@pytest.mark.parametrize(("kind", "row"), [("endurance", "F03"), ("endurance-kraft", "F06")])
def test_the_command_prints_a_table_and_leaves_a_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, row: str
) -> None:
    record = tmp_path / "record.json"
    monkeypatch.setattr("emulator.simulation.scenarios.endurance.HOUR_MS", 1_000)
    monkeypatch.setattr("emulator.simulation.scenarios.endurance.FAULTS", ("cut",))
    line = ["simulate", "--kind", kind, "--hours", "1", "--seed", "2"]
    done = CliRunner().invoke(app, line, env={"KRAFT_BRIDGE_RECORD": str(record)})
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert lines[0].startswith("| hour | cpu_s | records |")
    assert lines[-1] == "no size has grown"
    left = json.loads(record.read_text())
    (proof,) = left["tests"]
    assert (proof["ids"], proof["outcome"]) == ([row], "passed")
    assert not left["complete"], "one hour proves nothing of a duration"


def test_what_has_grown_makes_the_record_one_of_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = tmp_path / "record.json"

    def run(endurance: Endurance) -> None:
        endurance.rows += [replace(ROW, notifications=100 * hour) for hour in range(12)]

    monkeypatch.setattr(Endurance, "run", run)
    line = ["simulate", "--kind", "endurance", "--hours", "12", "--record", str(record)]
    assert CliRunner().invoke(app, line).exit_code == 1
    left = json.loads(record.read_text())
    assert left["complete"]
    assert left["tests"][0]["outcome"] == "failed"
    assert any(one.startswith("notifications: ") for one in left["wrong"])


@pytest.mark.parametrize("hours", [(), ("--hours", "0"), ("--hours", "1.5")])
def test_hours_that_are_none_are_refused(hours: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, ["simulate", "--kind", "endurance", *hours])
    assert done.exit_code == 2
    assert "takes --hours" in done.output
