"""Rows that were taken are not taken again; trees that differ make rows void."""

import gzip
import json

import pyarrow.parquet as pq
import pytest

from bench.runs import tracing
from bench.runs.scenario import Case
from bench.runs.store import Store
from emulator.io.trace_file import TraceFailedError, TraceFile
from tests.unit.runs.kit import one, row

STATE = "/brokers/topics/made-0/partitions/0/state"


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "run")


def test_a_row_is_found_again_and_only_for_the_same_case(store):
    store.keep(row(commit_p50_ms=1.5))
    assert store.taken(one()).commit_p50_ms == 1.5
    assert store.taken(one("kafka")) is None
    assert store.taken(one(repeat=2)) is None
    assert store.taken(one(case=Case("small", rate=11, count=20))) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"run_id": 1}', '{"digest": 0, "more": 1}'])
def test_a_row_cut_off_or_of_another_version_is_taken_again(store, text):
    store.keep(row())
    [path] = (store.folder / "rows").iterdir()
    path.write_text(text)
    assert store.taken(one()) is None
    assert store.rows() == []


@pytest.mark.parametrize(
    "change",
    [
        {"started_wall_ns": "now"},
        {"repeat": None},
        {"repeat": True},
        {"commit_p50_ms": "12"},
        {"commit_p50_ms": float("nan")},
        {"commit_p50_ms": float("inf")},
        {"void": None},
        {"kill_leader": 1},
        {"count": 1.5},
    ],
    ids=str,
)
def test_a_row_whose_values_are_none_of_its_columns_is_taken_again(store, change):
    store.keep(row(commit_p50_ms=1))
    [path] = (store.folder / "rows").iterdir()
    assert store.taken(one()).commit_p50_ms == 1
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert store.taken(one()) is None
    assert store.rows() == []
    store.write_parquet()


def test_a_file_that_is_a_copy_of_a_row_is_no_row(store):
    """Such as one that was written and not yet renamed when the bench was killed."""
    store.keep(row())
    [path] = (store.folder / "rows").iterdir()
    for name in (f"_{path.name}", "copy.json"):
        (path.parent / name).write_bytes(path.read_bytes())
    assert len(store.rows()) == 1


def test_rows_of_a_case_that_was_changed_since_do_not_count(store):
    for repeat in (1, 2, 3):
        store.keep(row(repeat=repeat, started_wall_ns=repeat))
    changed = Case("small", rate=99, count=20)
    store.keep(row(repeat=1, case=changed, started_wall_ns=4))
    store.keep(row("kafka", repeat=3, started_wall_ns=3))
    assert [(found.target, found.rate_per_s) for found in store.rows()] == [
        ("kafka", 10),
        ("kraft-bridge", 99),
    ]


def test_what_an_attempt_left_is_removed_with_its_trace(store):
    store.keep(row())
    for run_id in (one().run_id, one("kafka").run_id):
        (store.trace / "requests" / f"run_id={run_id}").mkdir(parents=True)
    store.forget(one())
    assert store.taken(one()) is None
    assert [path.name for path in (store.trace / "requests").iterdir()] == [
        f"run_id={one('kafka').run_id}"
    ]


def test_all_rows_are_one_table_with_every_column(store):
    store.keep(row(started_wall_ns=2, blocked_union_ms=3.5))
    store.keep(row("kafka", started_wall_ns=1))
    table = pq.read_table(store.write_parquet())
    assert table.column("target").to_pylist() == ["kafka", "kraft-bridge"]
    assert table.column("blocked_union_ms").to_pylist() == [None, 3.5]
    assert str(table.schema.field("count").type) == "int64"


def judged(store, ours, kafkas, doubtful=()):
    for target, left in (("kraft-bridge", ours), ("kafka", kafkas)):
        store.keep(row(target))
        store.keep_tree(one(target).run_id, left, doubtful)
    store.judge([one(), one("kafka")])
    return [store.taken(one(target)).void for target in ("kraft-bridge", "kafka")]


def test_equal_trees_are_no_reason(store):
    left = {"/a": None, STATE: b'{"leader":0}', "/config/topics/made-0": b"\xff"}
    assert judged(store, left, dict(left)) == ["", ""]


def test_a_planted_difference_makes_both_rows_void(store):
    found = judged(store, {STATE: b'{"leader":0}'}, {STATE: b'{"leader":1}'})
    assert found[0] == found[1]
    assert "differ at 1 paths" in found[0]
    assert STATE in found[0]


def test_a_znode_that_one_lacks_makes_both_rows_void(store):
    assert all(judged(store, {STATE: b"{}"}, {}))


def test_topics_whose_request_failed_are_not_compared(store):
    assert judged(store, {STATE: b"{}"}, {}, ["made-0"]) == ["", ""]


def test_what_kafka_writes_differently_is_no_reason(store):
    ours = {STATE: b'{"leader":0,"controller_epoch":3}', "/kraft_bridge": b"{}"}
    assert judged(store, ours, {STATE: b'{"controller_epoch":2,"leader":0}'}) == ["", ""]


def test_a_tree_that_cannot_be_read_is_not_compared(store):
    judged(store, {STATE: b"{}"}, {STATE: b"{}"})
    path = store.folder / "trees" / f"{one().run_id}.json.gz"
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[12:24] = bytes(12)
    other = [b"[]", b"null", b"{}", b'{"tree":[],"doubtful":[]}', b'{"tree":{"/a":"="}}', b"{"]
    for data in (whole[:20], bytes(damaged), b"no gzip", *map(gzip.compress, other)):
        path.write_bytes(data)
        store.judge([one(), one("kafka")])
        assert store.taken(one()).void == ""


def test_a_file_half_written_is_no_row(store):
    store.keep(row())
    [path] = (store.folder / "rows").iterdir()
    (path.parent / f"_{path.name}.tmp").write_text(json.dumps({"run_id": "x"}))
    assert len(store.rows()) == 1


def test_a_row_whose_trace_is_not_whole_must_not_be_compared(store, monkeypatch):
    assert tracing.lacks(store, "r") == ""
    whole = TraceFile(store.trace, "r", "controller-3000")
    whole.close()
    assert tracing.lacks(store, "r") == ""
    broken = TraceFile(store.trace, "r", "controller-3001", clock=iter(range(1000, 9000)).__next__)
    broken.give_up("no room")
    with pytest.raises(TraceFailedError):
        broken.close()
    why = tracing.lacks(store, "r")
    assert why.startswith("the trace of controller-3001 lacks rows")
    assert tracing.lacks(store, "other") == ""
    (store.trace / "stalls/run_id=killed").mkdir(parents=True)
    (store.trace / "stalls/run_id=killed/_controller-3000-7-1700-000000000000.arrows").touch()
    assert tracing.lacks(store, "killed") == "the trace of controller-3000 has no end"
