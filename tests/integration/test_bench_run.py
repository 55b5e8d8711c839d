"""The short form of the bench: two tiny rows, one of ours and one of Kafka's."""

import json

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from bench.runs.store import Store
from emulator.cli import app

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


def bench(*arguments):
    return CliRunner().invoke(app, ["bench", *map(str, arguments)])


@pytest.fixture(scope="module")
def taken(tmp_path_factory):
    out = tmp_path_factory.mktemp("bench")
    said = bench("run", "tiny", "--repeat", 1, "--patience", 0, "--out", out)
    assert said.exit_code == 0, said.output
    return out / "tiny", said.output


def test_both_controllers_did_the_same_and_it_was_measured(taken):
    folder, said = taken
    rows = pq.read_table(folder / "rows.parquet").to_pylist()
    assert [row["target"] for row in rows] == ["kraft-bridge", "kafka"]
    ours, kafkas = rows
    for row in rows:
        assert row["void"] == ""
        assert (row["intended"], row["answered"], row["refused"]) == (20, 20, 0)
        assert row["znodes"] == 20 * (3 + 2 * 3)
        assert row["begin_ns"] < row["end_ns"]
        assert row["begin_ns"] < row["drained_ns"]
        assert row["fsync_p50_ms"] > 0
        assert row["others_cores"] is not None
        assert row["warm_up"] == "4 topics of 1 partitions created before"
    assert kafkas["zk_transactions"] > 4 * ours["zk_transactions"]
    assert (ours["blocked_union_ms"], kafkas["blocked_union_ms"]) == (0, None)
    assert "| into ZooKeeper, /s |" in said


def test_each_row_has_its_trace(taken):
    folder, _ = taken
    requests = pq.read_table(folder / "trace" / "requests").to_pandas()
    load = requests[requests["process"] == "load"]
    assert sorted(load["run_id"].astype(str).unique()) == [
        "tiny.tiny.kafka.r1",
        "tiny.tiny.kraft-bridge.r1",
    ]
    assert len(load) == 40
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
    folder, _ = taken
    said = bench("run", "tiny", "--repeat", 1, "--out", folder.parent)
    assert said.exit_code == 0
    assert said.output.count("is there") == 2


def test_a_run_compared_with_itself_is_no_regression(taken):
    folder, _ = taken
    said = bench("compare", folder, folder)
    assert said.exit_code == 0
    assert "0 of" in said.output


def test_the_trees_were_compared(taken):
    """Each row has a tree; one znode more in one of them is noticed."""
    folder, _ = taken
    store = Store(folder)
    read = {run_id: store._tree(run_id) for run_id in (row.run_id for row in store.rows())}
    for tree, doubtful in read.values():
        assert doubtful == set()
        assert "/brokers/topics/made-000019/partitions/2/state" in tree
