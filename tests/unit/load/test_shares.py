"""The shares of several processes together are the load of one, on any event loop."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from bench.load import session
from bench.load.admin import AdminLoad, AdminResult
from bench.load.changes import TopicState
from emulator.io.together import Share
from emulator.trace.rows import RequestRow, Row
from tests.unit.load.fake_broker import FakeBroker, result


async def answer(request: Any) -> Any:
    return result(request)


async def load(broker: FakeBroker, share: Share, begin_ns: int) -> tuple[AdminResult, list[Row]]:
    rows: list[Row] = []
    made = AdminLoad(
        f"127.0.0.1:{broker.port}",
        90.0,
        0.5,
        client_id="me",
        record=rows.append,
        share=share,
        begin_ns=begin_ns,
        give_up_s=5,
    )
    return await made.run(), rows


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_the_shares_of_several_are_the_load_of_one(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def run() -> tuple[Any, AdminResult, int]:
        async with FakeBroker(answer) as broker:
            begin_ns = time.monotonic_ns() + 100_000_000
            shares = (load(broker, Share(number, 3), begin_ns) for number in range(3))
            of_three = await asyncio.gather(*shares)
            alone, _ = await load(broker, Share(), begin_ns)
        return of_three, alone, begin_ns

    with asyncio.Runner(loop_factory=loop) as runner:
        of_three, alone, begin_ns = runner.run(run())
    total = AdminResult()
    for found, _ in of_three:
        total.add(found)
    assert (total.intended, total.done.total()) == (alone.intended, alone.done.total()) == (45, 45)
    assert total.schedule_s == alone.schedule_s == 0.5
    rows = [row for _, some in of_three for row in some if isinstance(row, RequestRow)]
    due = sorted(row.intended_ns - begin_ns for row in rows if row.intended_ns is not None)
    assert due == [round(number * 1e9 / 90) for number in range(45)]
    assert {row.client_id for row in rows} == {"me-0", "me-1", "me-2"}
    names = {name for found, _ in of_three for name in found.topics}
    assert len(names) == sum(len(found.topics) for found, _ in of_three), "no name is used twice"


@pytest.mark.parametrize(
    ("error", "told"),
    [("INVALID_REPLICATION_FACTOR", False), ("TOPIC_ALREADY_EXISTS", True)],
)
def test_topics_that_may_not_be_there_are_not_counted_as_left(error: str, told: bool) -> None:
    """Nothing was created, and ten topics were said to be left."""
    failed = Counter({("CreateTopics", error): 2})
    result = AdminResult(3, Counter(CreateTopics=1), failed, doubtful={"load-2", "load-3"})
    result.topics["load-1"] = TopicState(1, {})
    plan = session.LoadPlan("h:1", 1.0, 1.0)
    found = session.figures(plan, [session.LoadOutcome(result)])
    assert (found["topics_left"], found["topics_doubtful"]) == (1, 2)
    lines = session.text(found, "load")
    assert "topics left: 1, named load-...; of 2 more a change failed, they may be there" in lines
    assert ("give another --prefix" in lines) is told


def test_what_is_given_up_is_slower_than_any_answer_and_is_counted() -> None:
    """One definition: `load` left out what was given up, the report took it as an answer."""
    plan, share = session.LoadPlan("h:1", 20.0, 60.0, give_up_s=60.0), session.LoadOutcome()
    share.waits["CreateTopics"].extend([*(float(ms) for ms in range(1, 901)), *[math.inf] * 100])
    share.waits["DeleteTopics"].extend([5.0] * 15)
    found = session.figures(plan, [share])
    assert found["waits"] == {
        "CreateTopics": {"count": 1_000, "not_done": 100, "p50_ms": 500.0},
        "DeleteTopics": {"count": 15, "not_done": 0, "max_ms": 5.0},
    }
    lines = session.text(found, "load").splitlines()
    assert "CreateTopics: 1000 due, 10.0% not done; p50 500.0 ms, p99 > 60 s, max > 60 s" in lines
    assert "DeleteTopics: 15 due; max 5.0 ms" in lines
