"""Our controller as a process against a real ZooKeeper that is slow, frozen, cut or killed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest

from bench.judge import stores as judge
from emulator.servers.seeded import PERSISTENT
from emulator.servers.zookeeper import ZooKeeper
from tests.integration import node_stage as stages
from tests.integration.node_stage import BOUND, NODE_ID, Stage, new_topic, staged, until
from tests.integration.zookeeper_frames import CHECK, CREATE, DELETE, SET_DATA, Op
from wire.errors import ErrorCode

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

COUNTERS = ["/kraft_bridge", "/migration"]
WRITES = {CREATE, DELETE, SET_DATA}
TIMED_OUT = int(ErrorCode.REQUEST_TIMED_OUT)


@pytest.fixture(scope="module")
def module_stage(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(zookeeper, tmp_path_factory.mktemp("node")) as made:
        yield made


@pytest.fixture
def stage(module_stage: Stage) -> Stage:
    """The cluster in dual write, nothing behind, whatever the test before has done."""
    module_stage.revive()
    return module_stage


# ---------------------------------------------------------------- taking over
@pytest.mark.requirement("P10")
def test_the_claim_comes_before_the_copy(stage: Stage) -> None:
    """Whatever the preconditions looked at, what is copied is read once /controller is ours."""
    requests = stage.first_requests()
    (claim,) = [
        number
        for number, ops in enumerate(requests)
        if any(op.code == CREATE and op.path == "/controller" for op in ops)
    ]
    (holder,) = [op for op in requests[claim] if op.path == "/controller" and op.code == CREATE]
    assert (holder.version, holder.json["brokerid"]) == (0, NODE_ID)
    before = [op for ops in requests[:claim] for op in ops if op.code in WRITES]
    assert {op.code for op in before} == {CREATE}
    assert {op.path for op in before} <= {*PERSISTENT, "/migration"}
    complete = next(
        number
        for number, ops in enumerate(requests)
        for op in ops
        if op.code == SET_DATA and op.path == "/migration" and op.json["kraft_metadata_offset"] > 0
    )
    topic = f"/brokers/topics/{stages.OLD_TOPIC}"
    copied = {
        topic,
        f"{topic}/partitions/0/state",
        f"{topic}/partitions/1/state",
        f"/config/topics/{stages.OLD_TOPIC}",
        "/config/brokers/0",
        "/latest_producer_id_block",
    }
    read = Counter(op.path for ops in requests[claim + 1 : complete] for op in ops)
    # Once for the copy, and once to compare what was copied with the tree.
    assert {path: read[path] for path in copied} == dict.fromkeys(copied, 2)


@pytest.mark.requirement("M04", "M05")
def test_the_state_and_the_brokers_in_a_scrape(stage: Stage) -> None:
    seen = stage.scrape()
    assert seen["kraft_bridge_zk_migration_state"] == 1
    assert seen["kraft_bridge_migrating_zk_broker_count"] == len(stages.BROKERS)
    assert seen["kafka_controller_kafkacontroller_zkmigrationstate"] == 1
    assert seen["kafka_controller_kafkacontroller_migratingzkbrokercount"] == len(stages.BROKERS)


# ---------------------------------------------------------------- how far behind
@pytest.mark.requirement("M06", "M12")
def test_the_lag_is_what_migration_lacks(stage: Stage) -> None:
    with stage.frozen(answers=True):
        until("answers", lambda: stage.scrape()[stages.ACKED] == stage.migration_offset())
        before = stage.migration_offset()
        produced = 0
        for _ in range(4):
            stage.create(stage.name(), 2)
            produced += 3
            seen = stage.scrape()
            assert stage.migration_offset() == before
            assert seen[stages.COMMITTED] > before
            assert seen[stages.LAG] == seen[stages.COMMITTED] - before
            assert seen[stages.PENDING] == produced
    polls = 0
    while True:
        seen = stage.scrape()
        behind = seen[stages.COMMITTED] - stage.migration_offset()
        # Read later than the scrape, /migration can only be further than the scrape knew.
        assert seen[stages.LAG] >= behind
        polls += 1
        if not seen[stages.LAG]:
            break
    assert seen[stages.PENDING] == 0
    assert stage.migration_offset() >= seen[stages.COMMITTED]


@pytest.mark.requirement("M08")
def test_a_delta_that_writes_is_measured_and_a_no_op_is_not(stage: Stage) -> None:
    before = stage.scrape()
    name = "kraft_bridge_zk_write_delta_time_ms"
    until("three NoOps", lambda: stage.scrape()[stages.ACKED] >= before[stages.COMMITTED] + 3)
    assert stage.scrape()[f"{name}_count"] == before[f"{name}_count"]
    for done in range(1, 4):
        stage.create(stage.name())
        stage.settle()
        assert stage.scrape()[f"{name}_count"] == before[f"{name}_count"] + done
    assert stage.scrape()[f"{name}_sum"] > before[f"{name}_sum"]


@pytest.mark.requirement("M07")
def test_a_reconcile_is_measured(stage: Stage) -> None:
    before = stage.scrape()
    began = time.monotonic()
    stage.client.set("/migration", stage.client.get("/migration")[0])
    stage.create(stage.name())
    stage.settle()
    took_ms = (time.monotonic() - began) * 1_000
    after = stage.scrape()
    name = "kraft_bridge_zk_write_snapshot_time_ms"
    assert after[f"{name}_count"] == before[f"{name}_count"] + 1
    assert 0 < after[f"{name}_sum"] - before[f"{name}_sum"] <= took_ms


# ---------------------------------------------------------------- blocked
@pytest.mark.requirement("M09")
def test_a_frozen_second_is_a_second_of_blocked_time(stage: Stage) -> None:
    """In the metrics, in the trace read plainly, and in the analysis by Spark."""
    waiters = 3
    began_ns = time.monotonic_ns()
    before = stage.scrape()
    with stage.frozen():
        stage.create(stage.name(), BOUND)
        answers: list[stages.Answered] = []
        asked = time.monotonic()
        for _ in range(waiters):
            stage.begin([new_topic(stage.name())], answers)
        until("all wait", lambda: stage.scrape()[stages.BLOCKED] == waiters)
        blocked = time.monotonic()
        until("two seconds", lambda: time.monotonic() >= blocked + 2)
        thawed = time.monotonic()
    until("answers", lambda: len(answers) == waiters)
    at_least, at_most = thawed - blocked, time.monotonic() - asked
    assert [answered.error for answered in answers] == [0] * waiters
    after = stage.scrape()
    union_s = (after[stages.UNION] - before[stages.UNION]) / 1_000
    total_s = (after[stages.TOTAL] - before[stages.TOTAL]) / 1_000
    assert at_least <= union_s <= at_most
    assert waiters * at_least <= total_s <= waiters * union_s * 1.001
    assert after[stages.BLOCKED_COUNT] - before[stages.BLOCKED_COUNT] == waiters
    ended_ns = time.monotonic_ns()
    assert stage.bridge.stop() == 0
    rows = [
        row
        for row in pq.read_table(stage.trace / "blocks").to_pylist()
        if began_ns <= row["begin_ns"] <= ended_ns
    ]
    assert len(rows) == waiters
    assert {row["api"] for row in rows} == {"CreateTopics"}
    plain_s = (max(row["end_ns"] for row in rows) - min(row["begin_ns"] for row in rows)) / 1e9
    assert plain_s == pytest.approx(union_s, rel=0.05)
    (whole,) = analysed(stage, began_ns, ended_ns)
    assert whole["blocked_operations"] == waiters
    assert whole["union_ms"] / 1_000 == pytest.approx(union_s, rel=0.05)
    assert whole["total_ms"] / 1_000 == pytest.approx(total_s, rel=0.02)
    assert whole["unexplained_share"] <= 0.01


SPARK = """
import json, sys
from bench.analysis import blocking, read, session
spark = session.session("local[1]")
spark.conf.set("spark.sql.shuffle.partitions", "1")
tables = read.read(spark, sys.argv[1])
kept = [tables[name].where(f"{begin} between {sys.argv[2]} and {sys.argv[3]}")
        for name, begin in (("blocks", "begin_ns"), ("multis", "sent_ns"))]
by_cause = blocking.blocking_by_cause(blocking.blocked_segments(*kept))
check = blocking.blocking_check(blocking.blocked_whole(kept[0]), by_cause)
print(json.dumps([row.asDict() for row in check.collect()]))
session.end(spark)
"""


def analysed(stage: Stage, begin_ns: int, end_ns: int) -> list[dict[str, Any]]:
    """The analysis of blocked time by Spark, of a part of the trace."""
    command = [sys.executable, "-c", SPARK, str(stage.trace), str(begin_ns), str(end_ns)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return list(json.loads(ran.stdout))


# ---------------------------------------------------------------- callers do not wait for ZooKeeper
@pytest.mark.requirement("W01", "X05")
def test_answers_do_not_wait_for_zookeeper(stage: Stage) -> None:
    """With an endless way to ZooKeeper they come as well, so that no length of it is in them."""
    requests = [new_topic(stage.name()) for _ in range(10)]
    names = {request.topics[0].name for request in requests}
    with stage.frozen():
        answers = stage.ask_in_turn(requests)
        assert not names & stage.topics()
    assert [answered.error for answered in answers] == [0] * len(requests)
    until("all topics in ZooKeeper", lambda: names <= stage.topics())


# ---------------------------------------------------------------- what is sent
@pytest.mark.requirement("X06", "W03", "W04")
def test_multis_share_round_trips_and_form_a_chain(stage: Stage) -> None:
    stage.proxy.delay(10, 10)
    since = len(stage.seen)
    names = [stage.name() for _ in range(36)]
    for some in (names[:12], names[12:24], names[24:]):
        stage.ask(*(new_topic(name, 1) for name in some))
    stage.settle()
    multis = stage.multis(since)
    epoch_version = stage.stat("/controller_epoch").version
    for ops in multis:
        assert ops[0][:2] == (CHECK, "/controller_epoch")
        assert ops[0].version == epoch_version
        assert [op.path for op in ops[-2:]] == COUNTERS
        assert {op.code for op in ops[-2:]} == {SET_DATA}
        assert not set(COUNTERS) & {op.path for op in ops[:-2]}
        assert ops[-2].json["offset"] == ops[-1].json["kraft_metadata_offset"]
    for at in (-2, -1):
        first = multis[0][at].version
        assert [ops[at].version for ops in multis] == list(range(first, first + len(multis)))
    assert sum(len(ops) > 3 for ops in multis) < len(names)
    assert stage.scrape()[stages.RATIO] > 1
    _judge_offsets(stage, multis, names)


def _judge_offsets(stage: Stage, multis: list[list[Op]], names: list[str]) -> None:
    """Each multi's offset covers all topics written so far, and none that is still to come."""
    first, last = {}, {}
    ids = {}
    for record in judge.dump_log(stage.bridge.data):
        if record["type"] == "TOPIC_RECORD":
            ids[record["data"]["topicId"]] = record["data"]["name"]
            first[record["data"]["name"]] = record["offset"]
        elif record["type"] == "PARTITION_RECORD":
            last[ids[record["data"]["topicId"]]] = record["offset"]
    to_come = set(names)
    for ops in multis:
        written = {op.path.rpartition("/")[2] for op in ops if op.code == CREATE} & to_come
        to_come -= written
        offset = ops[-1].json["kraft_metadata_offset"]
        assert all(last[name] <= offset for name in written)
        assert all(first[name] > offset for name in to_come)
    assert not to_come
