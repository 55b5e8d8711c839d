"""What a page draws over time: the longest of each slice, on the wall clock, and percentiles."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from bench.analysis import latency, quorum, timeline
from emulator.trace import rows
from tests.spark.test_utilisation import requests
from tests.spark.trace_frames import PROCESS, frames, ms, ranges

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.xdist_group("spark")]

WALL_MS = 1_000_000
"""How far the wall clock is ahead."""


@pytest.fixture(scope="module")
def trace(spark: SparkSession) -> dict[str, DataFrame]:
    """Four changes done and one given up after 60 s; two multis at once, one lost, and a stall."""
    run = rows.RunRow(2, ms(0), ms(WALL_MS), "h", "1", "3.9", "{}")
    multis = [
        rows.MultiRow(ms(65), ms(135), 4, 9, 0, 0),
        rows.MultiRow(ms(66), ms(71), 4, 9, 1, 1),
        rows.MultiRow(ms(365), ms(435), 4, 9, 2, 2, "lost"),
    ]
    others = [rows.StallRow(ms(500), ms(730)), rows.BlockRow(ms(32), ms(42), "lag_ms", "X")]
    moves = ranges(("appended", 0, 0, 45), ("committed", 0, 0, 65))
    return frames(spark, [run, *requests(), *multis, *others, *moves])


def found(trace: dict[str, DataFrame]) -> dict[str, list[Any]]:
    clients = latency.client_requests(trace["requests"])
    by_kind: dict[str, list[Any]] = {}
    for row in timeline.timeline(trace, clients, quorum.clocks(trace["runs"])).collect():
        by_kind.setdefault(row.kind, []).append(row)
    return by_kind


def at(row: Any) -> float:
    return row.wall_ns / 1e6 - WALL_MS


def test_the_longest_of_each_slice_is_kept_and_all_are_counted(trace: dict[str, DataFrame]) -> None:
    kinds = found(trace)
    # Slices are a little longer than 100 ms: the first has two changes, as long as each other.
    changes = sorted((at(row), row.ms, row["count"], row.sum_ms) for row in kinds["change"])
    # The first of them is shown.
    assert changes == [(0.0, 80.0, 2, 160.0), (200.0, 80.0, 1, 80.0), (300.0, 80.0, 1, 80.0)]
    [given_up] = kinds["given up"]
    assert (at(given_up), given_up.ms, given_up.process) == (350.0, 60_000.0, timeline.CLIENTS)
    [both] = kinds["multi"]
    assert (at(both), both.ms, both.sum_ms, both["count"]) == (65.0, 70.0, 75.0, 2)
    assert [(at(row), row.ms) for row in kinds["lost multi"]] == [(365.0, 70.0)]
    assert [(at(row), row.ms, row.process) for row in kinds["stall"]] == [(500.0, 230.0, PROCESS)]
    assert [(at(row), row.ms) for row in kinds["sync"]] == [(45.0, 20.0)]
    assert [(at(row), row.ms) for row in kinds["blocked"]] == [(32.0, 10.0)]


def test_what_was_due_and_done_is_counted_by_whole_seconds(trace: dict[str, DataFrame]) -> None:
    kinds = found(trace)
    counts = {
        kind: [(at(row) // 1000, row["count"], row.slice_s) for row in kinds[kind]]
        for kind in ("due", "done", "refused")
    }
    assert counts == {
        "due": [(0, 5, 1.0)],
        "done": [(0, 4, 1.0)],
        "refused": [(60, 1, 1.0)],
    }


def test_a_percentile_of_what_was_given_up_is_longer_than_any(
    trace: dict[str, DataFrame], spark: SparkSession
) -> None:
    clients = latency.client_requests(trace["requests"])
    changes = spark.createDataFrame(
        [("r", 1.0, 2.0, 3.0, float(n)) for n in range(4)],
        "run_id string, queue_ms double, blocked_ms double, commit_ms double, answer_ms double",
    )
    table = timeline.percentiles(clients, changes).collect()
    client = {row.beyond: row for row in table if row.seen == "client"}
    assert client[0.5].ms == 80.0
    assert client[0.0].ms == math.inf
    assert {row.samples for row in client.values()} == {5}
    assert {row.censored_ms for row in client.values()} == {60_000.0}
    assert min(share for share in client if share) >= 1 / 5, "no percentile of less than a sample"
    inside = {row.beyond: row.ms for row in table if row.seen == "controller"}
    assert (inside[0.5], inside[0.0]) == (7.0, 9.0)
