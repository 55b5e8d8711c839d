"""Ratios, medians and what does not count."""

import dataclasses

import pytest

from bench.beside.contenders import KAFKA, OURS
from bench.beside.report import table
from bench.beside.row import MEASURES, Row, interval, median, percentile, ratio
from bench.beside.scenario import Burst
from bench.beside.stage import Plan

ZK_RATE = MEASURES["ZooKeeper, partitions/s"]

ROW = Row(
    contender="ours",
    round=0,
    position=0,
    partitions=800,
    commit_s=1.0,
    zk_s=2.0,
    latencies_ms=[5.0, 1.0],
    zk_transactions=4,
    znodes=1600,
    controller_cpu_s=0.5,
    zookeeper_cpu_s=0.5,
    fleet_cpu_s=0.1,
    client_cpu_s=0.1,
    others_cores=0.0,
    load_1_min=0.5,
)


def row(contender, number, zk_s, **changes):
    return dataclasses.replace(ROW, contender=contender, round=number, zk_s=zk_s, **changes)


@pytest.mark.parametrize(
    ("share", "wanted"), [(0.0, 1.0), (0.25, 1.0), (0.26, 2.0), (0.5, 2.0), (0.99, 4.0), (1.0, 4.0)]
)
def test_a_percentile_is_one_of_the_values(share, wanted):
    assert percentile([3.0, 1.0, 4.0, 2.0], share) == wanted


def test_a_ratio_divides_rows_of_the_same_round_only():
    rows = [
        row("ours", 0, 1.0),
        row("kafka", 0, 3.0),
        row("ours", 1, 1.0),
        row("kafka", 1, 5.0),
        row("ours", 2, 2.0),
        row("kafka", 2, 8.0),
        row("kafka", 3, 1_000.0),
    ]
    found = ratio(rows, "ours", "kafka", ZK_RATE)
    assert (found.median, found.lowest, found.highest, found.rounds) == (4.0, 3.0, 5.0, 3)


def test_the_interval_of_a_median_leaves_out_what_chance_seldom_does():
    assert interval([1.0, 2.0, 3.0, 4.0, 5.0]) is None
    assert interval([float(value) for value in range(24, 0, -1)]) == (7.0, 18.0)


def test_what_is_void_counts_neither_in_ratios_nor_in_medians():
    rows = [row("ours", 0, 1.0, void="trees differ"), row("kafka", 0, 4.0)]
    assert ratio(rows, "ours", "kafka", ZK_RATE) is None
    assert median(rows, "ours", ZK_RATE) is None
    assert median(rows, "kafka", ZK_RATE) == 200.0


def test_a_quiet_ratio_needs_both_rows_quiet():
    rows = [
        row("ours", 0, 1.0),
        row("kafka", 0, 9.0, others_cores=1.2),
        row("ours", 1, 1.0),
        row("kafka", 1, 3.0),
    ]
    assert ratio(rows, "ours", "kafka", ZK_RATE).rounds == 2
    assert ratio(rows, "ours", "kafka", ZK_RATE, quiet=True).median == 3.0


def test_the_table_shows_every_measure_the_load_and_why_a_row_is_void():
    burst = Burst("burst0", 80, 100, 16)
    plan = Plan(cold=burst, small=burst, bursts=[burst], patience_s=0.0)
    rows = [
        row("ours", 0, 1.0, others_cores=0.25),
        row("kafka", 0, 4.0, others_cores=1.5),
        row("ours", 1, 1.0),
        row("kafka", 1, 4.0, void="trees differ"),
    ]
    text = table(rows, [OURS, KAFKA], plan)
    for name in MEASURES:
        assert f"| {name} |" in text
    assert "| ZooKeeper, partitions/s | 800 | 200 | 4.00 (4.00 - 4.00) |" in text
    assert "4 rows, 1 void, 3 quiet; others used 0.00 - 1.50 cores" in text
    assert "void: trees differ" in text
    assert "both rows quiet: ours / kafka none in 0." in text
