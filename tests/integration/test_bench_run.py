"""The short form of the bench on real servers."""

import json
import re
import shutil

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from bench.runs.reading import find, read
from bench.runs.scenario import planned
from bench.runs.store import Store
from emulator.cli import app

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

FROZEN = """
about = "ZooKeeper stops for two seconds."
kind = "create"
targets = ["kraft-bridge"]
rate = 25
count = 100
partitions = 3
connections = 50
bound_records = 40
fault_at_s = 1
freeze_s = 2
drain_s = 60
[warm_up]
topics = 4
partitions = 1
[[case]]
name = "bounded"
"""
RECORDS_EACH = 4
"""A topic of three partitions."""


def largest_lag(ranges, begin_ns, end_ns):
    """Records that were committed and not confirmed by ZooKeeper, as the controller saw it.

    What ``watch`` sees from outside is older by one read of ZooKeeper, which is the wrong measure
    for a bound: in that time all waiting requests may be committed.
    """
    largest, reached = 0, {}
    for row in ranges.sort_values("time_ns").itertuples():
        reached[str(row.stage)] = row.last_offset
        if begin_ns < row.time_ns < end_ns and len(reached) == 2:
            largest = max(largest, reached["committed"] - reached["zk_acked"])
    return largest


def bench(*arguments):
    return CliRunner().invoke(app, ["bench", *map(str, arguments)])


@pytest.fixture(scope="module")
def bench_run():
    return bench


@pytest.fixture(scope="module")
def taken(bench_run, tmp_path_factory):
    out = tmp_path_factory.mktemp("bench")
    said = bench_run("run", "tiny", "--repeat", 1, "--patience", 0, "--out", out)
    assert said.exit_code == 0, said.output
    return out / "tiny", said.output


@pytest.fixture(scope="module")
def rows(taken):
    read = pq.read_table(taken[0] / "rows.parquet").to_pylist()
    return {row["target"]: row for row in read}


@pytest.mark.requirement("X05")
def test_all_did_the_same_and_it_was_measured(taken, rows):
    assert [*rows] == ["kraft-bridge", "kafka", "write-ahead"]
    for row in rows.values():
        assert row["void"] == ""
        assert (row["intended"], row["answered"], row["refused"]) == (20, 20, 0)
        assert row["znodes"] == 20 * (3 + 2 * 3)
        assert row["begin_ns"] < row["end_ns"]
        assert row["begin_ns"] < row["drained_ns"]
        assert row["fsync_p50_ms"] > 0
        assert row["zk_write_p50_ms"] >= 20, "the delay is on the way to ZooKeeper"
        assert row["others_cores"] is not None
        assert row["warm_up"] == "4 topics of 1 partitions created before"
    assert "| into ZooKeeper, /s |" in taken[1]
    page = r"^\S+\.kraft-bridge\.\S+: live page at http://127\.0\.0\.1:\d+/$"
    assert re.search(page, taken[1], re.MULTILINE)


@pytest.mark.requirement("X06")
def test_ours_bundles(rows):
    assert rows["kafka"]["zk_transactions"] > 4 * rows["kraft-bridge"]["zk_transactions"]


@pytest.mark.requirement("X05", "W01")
def test_the_rejected_order_waits_for_zookeeper_and_ours_does_not(taken, rows):
    """Changes that come while one waits are decided together, and then wait as one operation."""
    ours, ahead = rows["kraft-bridge"], rows["write-ahead"]
    assert ours["blocked_union_ms"] == 0
    blocks = pq.read_table(taken[0] / "trace" / "blocks").to_pandas()
    assert set(blocks["run_id"].astype(str)) == {ahead["run_id"]}
    assert len(blocks) > 1
    assert (blocks["end_ns"] - blocks["begin_ns"] >= 20_000_000).all(), "ZooKeeper's latency"
    assert ahead["blocked_operations_ms"] >= 20 * len(blocks)
    assert ahead["commit_p50_ms"] >= 20
    assert rows["kafka"]["blocked_union_ms"] is None


def test_each_row_has_its_trace(taken):
    folder, _ = taken
    requests = pq.read_table(folder / "trace" / "requests").to_pandas()
    load = requests[requests["process"] == "load"]
    assert set(load["run_id"].astype(str)) == {
        f"tiny.tiny.{target}.r1" for target in ("kraft-bridge", "kafka", "write-ahead")
    }
    assert len(load) == 60
    assert (load["sent_ns"] >= load["intended_ns"]).all()
    gauges = pq.read_table(folder / "trace" / "gauges").to_pandas()
    assert {"bench_committed_offset", "bench_zk_offset"} <= set(gauges["gauge"])
    [told] = {
        row["parameters"]
        for row in pq.read_table(folder / "trace" / "runs").to_pylist()
        if (row["process"], str(row["run_id"])) == ("load", "tiny.tiny.kafka.r1")
    }
    assert json.loads(told)["target"] == "kafka"


def test_rows_that_are_there_are_not_taken_again(taken):
    said = bench("run", "tiny", "--repeat", 1, "--out", taken[0].parent)
    assert said.exit_code == 0
    assert said.output.count("is there") == 3


def test_of_one_repeat_it_cannot_be_said_whether_anything_became_worse(taken):
    said = bench("compare", taken[0], taken[0])
    assert said.exit_code == 2
    assert "0 of" in said.output
    assert "it cannot be said: a run has fewer than 4 rows" in said.output


def test_a_difference_planted_in_a_tree_makes_the_round_void(taken, tmp_path):
    folder = tmp_path / "tiny"
    shutil.copytree(taken[0], folder)
    store, scenario = Store(folder), read(find("tiny"))
    plan = planned(scenario, scenario.targets, 1)
    store.judge(plan)
    assert not any(row.void for row in store.rows())
    tree, doubtful = store._tree(plan[0].run_id)
    assert doubtful == set()
    state = "/brokers/topics/made-000019/partitions/2/state"
    store.keep_tree(plan[0].run_id, tree | {state: b'{"leader":1}'}, doubtful)
    store.judge(plan)
    assert all(state in row.void for row in store.rows())


@pytest.mark.requirement("U04")
def test_the_stores_drift_no_further_than_the_bound_while_zookeeper_stands_still(
    bench_run, tmp_path
):
    path = tmp_path / "frozen.toml"
    path.write_text(FROZEN)
    said = bench_run("run", path, "--repeat", 1, "--patience", 0, "--out", tmp_path)
    assert said.exit_code == 0, said.output
    [row] = pq.read_table(tmp_path / "frozen" / "rows.parquet").to_pylist()
    assert (row["answered"], row["refused"]) == (100, 0)
    ranges = pq.read_table(tmp_path / "frozen" / "trace" / "ranges").to_pandas()
    ranges = ranges[ranges["stage"].isin(["committed", "zk_acked"])]
    # A NoOp every half second is not held back.
    no_ops = 2 * (row["thaw_ns"] - row["fault_ns"]) / 1e9 + 4
    # Without the bound it would be 25 x 4 records for each of two seconds.
    lag = largest_lag(ranges, row["begin_ns"], row["end_ns"])
    assert 20 <= lag <= 40 + RECORDS_EACH + no_ops
    assert row["lag_max_records"] >= 20
    assert row["blocked_union_ms"] > 500
