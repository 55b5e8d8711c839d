"""Our controller as a process against a real ZooKeeper that is slow, frozen, cut or killed."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest

from bench.cluster.fault_proxy import FaultProxy, Kind
from bench.cluster.zookeeper import ZooKeeper
from tests.integration import node_stage as stages
from tests.integration.node_stage import BOUND, NODE_ID, Stage, new_topic, until
from tests.integration.zookeeper_frames import CHECK, CREATE, MULTI, SET_DATA, Op, decode
from wire.errors import ErrorCode

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

TIMED_OUT = int(ErrorCode.REQUEST_TIMED_OUT)


@pytest.fixture(scope="module")
def module_stage(
    zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    with FaultProxy(zookeeper.port) as proxy:
        made = Stage(tmp_path_factory.mktemp("node"), zookeeper, proxy)
        try:
            made.start()
            yield made
        finally:
            made.close()


@pytest.fixture
def stage(module_stage: Stage) -> Stage:
    """The cluster in dual write, nothing behind, whatever the test before has done."""
    module_stage.revive()
    return module_stage


# ---------------------------------------------------------------- how far behind
@pytest.mark.requirement("M06", "M12")
def test_the_lag_is_what_migration_lacks(stage: Stage) -> None:
    with stage.frozen():
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


# ---------------------------------------------------------------- blocked
@pytest.mark.requirement("M09")
def test_a_frozen_second_is_a_second_of_blocked_time(stage: Stage) -> None:
    waiters = 3
    before = stage.scrape()
    with stage.frozen():
        frozen = time.monotonic()
        stage.create(stage.name(), BOUND)
        answers: list[stages.Answered] = []
        for _ in range(waiters):
            stage.begin([new_topic(stage.name())], answers)
        time.sleep(frozen + 1 - time.monotonic())
        thawed = time.monotonic()
    until("answers", lambda: len(answers) == waiters)
    assert [answered.error for answered in answers] == [0] * waiters
    after = stage.scrape()
    union_s = (after[stages.UNION] - before[stages.UNION]) / 1_000
    total_s = (after[stages.TOTAL] - before[stages.TOTAL]) / 1_000
    print(union_s, total_s, thawed - frozen, [a.ms for a in answers])
    assert union_s == pytest.approx(thawed - frozen, rel=0.1)
    assert total_s == pytest.approx(waiters * union_s, rel=0.1)
    assert after[stages.BLOCKED_COUNT] - before[stages.BLOCKED_COUNT] == waiters


# ---------------------------------------------------------------- callers do not wait for ZooKeeper
@pytest.mark.requirement("W01", "X05")
def test_answers_do_not_wait_for_zookeeper(stage: Stage) -> None:
    medians = {}
    for round_trip_ms in (0, 50, 200):
        stage.proxy.delay(round_trip_ms / 2, round_trip_ms / 2)
        requests = [new_topic(stage.name()) for _ in range(10)]
        answers = stage.ask_in_turn(requests)
        answered_s = time.monotonic()
        assert [answered.error for answered in answers] == [0] * len(requests)
        medians[round_trip_ms] = statistics.median(answered.ms for answered in answers)
        last = requests[-1].topics[0].name
        until("the last topic in ZooKeeper", lambda name=last: name in stage.topics())
        assert (time.monotonic() - answered_s) * 1_000 > round_trip_ms / 3
    print(medians)
    assert stage.scrape()[stages.UNION] >= 0
    assert medians[50] < 25 + medians[0]
    assert medians[200] < 50 + medians[0]
