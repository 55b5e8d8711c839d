"""Sizes over many hours: how they are counted, and when one is said to have grown."""

from __future__ import annotations

import sys
from dataclasses import fields, replace

import msgspec
import pytest

from emulator.metadata.topics import Partition
from emulator.raft.replica import Replica
from emulator.simulation.endurance import FAULTS, Endurance, HourRow, endurance, grown, main
from emulator.simulation.product_size import product_bytes
from emulator.simulation.scheduler import Scheduler

ROW = HourRow(*range(100, 100 + len(fields(HourRow))))


class Holds:
    def __init__(self, *held: object) -> None:
        self.held = held


class Enough(Exception):  # noqa: N818  # nothing is wrong
    """The last hour is over: how the cluster comes to rest is of no interest."""


def hours_of(count: int) -> list[HourRow]:
    """The rows of a run that ends with the last of them."""
    rows: list[HourRow] = []

    def say(row: HourRow) -> None:
        rows.append(row)
        if len(rows) == count:
            raise Enough

    with pytest.raises(Enough):
        Endurance(1, count, say).run()
    return rows


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


@pytest.mark.slow
def test_a_log_that_is_never_trimmed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.simulation.endurance.HOUR_MS", 5_000)
    monkeypatch.setattr("emulator.simulation.endurance.LATE_MS", 1_000)
    monkeypatch.setattr(Replica, "trim", lambda _: [])
    (found,) = grown(hours_of(4))
    assert found.startswith("log_age_s: ")


def test_faults_come_as_often_as_hours_and_clients_ask_all_the_time() -> None:
    scenario = endurance(10)
    assert len(scenario.faults) == 10
    assert {one.partition("/")[0] for one in scenario.faults} == set(FAULTS)
    assert (scenario.changes - 1) * scenario.change_every_ms == 10 * 3_600_000


@pytest.mark.slow
def test_a_short_run_looks_at_every_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.simulation.endurance.HOUR_MS", 10_000)
    rows = hours_of(2)
    assert [row.hour for row in rows] == [1, 2]
    last = rows[-1]
    assert last.records > 20
    assert last.znodes > 20
    assert last.log_bytes > 1_000
    assert min(last.raft_bytes, last.metadata_bytes, last.controller_bytes) > 1_000
    assert last.node_bytes > last.migration_bytes > 1_000
    assert last.broker_bytes > 10_000


def test_the_command_prints_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("emulator.simulation.endurance.HOUR_MS", 3_000)
    assert main(["--hours", "1", "--seed", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("| hour | cpu_s | records |")
    assert lines[-1] == "no size has grown"


def test_no_hours_are_refused() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--hours", "0"])
    assert ended.value.code == 2
