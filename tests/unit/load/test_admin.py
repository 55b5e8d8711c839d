"""The open-loop load against brokers that answer late, wrongly, or not at all."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, defaultdict
from types import SimpleNamespace
from typing import Any

import pytest

from bench.load import admin
from bench.load.admin import AdminLoad
from bench.load.changes import Changes
from emulator.trace.rows import RequestRow, Row
from tests.kit.served import served
from tests.unit.load.fake_broker import FakeBroker, Hangup, result
from wire import messages as m
from wire.errors import ErrorCode

pytestmark = pytest.mark.asyncio

UNDER_WAY = 20
"""Changes that are under way at once at most: half of the default of ``topics_wanted``."""


async def _load(broker: FakeBroker, changes: int, rows: list[Row]) -> Any:
    load = AdminLoad(
        f"127.0.0.1:{broker.port}", 1000, changes / 1000, client_id="me", record=rows.append
    )
    return await load.run()


async def test_every_change_is_done_once_and_leaves_one_row_the_broker_can_name() -> None:
    async def answer(request: Any) -> Any:
        return result(request)

    rows: list[Row] = []
    async with FakeBroker(answer) as broker:
        found = await _load(broker, 60, rows)
    assert (found.intended, found.done.total(), found.failed.total()) == (60, 60, 0)
    assert set(found.done) == {
        "CreateTopics",
        "DeleteTopics",
        "CreatePartitions",
        "IncrementalAlterConfigs",
    }
    seen = {(header.client_id, header.correlation_id) for header in broker.headers}
    told = [(row.client_id, row.correlation_id) for row in rows if isinstance(row, RequestRow)]
    assert set(told) == seen
    assert len(told) == 60
    for row in rows:
        assert isinstance(row, RequestRow)
        assert row.received_ns is None
        assert row.intended_ns is not None
        assert row.sent_ns is not None
        assert row.intended_ns <= row.sent_ns <= row.answered_ns


async def test_slow_answers_do_not_slow_the_schedule() -> None:
    arrived = 0
    everybody = asyncio.Event()

    async def answer(request: Any) -> Any:
        nonlocal arrived
        arrived += 1
        if arrived == UNDER_WAY:
            everybody.set()
        await everybody.wait()
        return result(request)

    async with FakeBroker(answer) as broker:
        found = await _load(broker, UNDER_WAY, [])
    assert found.done.total() == UNDER_WAY
    assert found.retried == {}


async def test_a_broker_that_is_not_the_controller_is_left_for_the_one_that_is() -> None:
    async def right(request: Any) -> Any:
        return result(request)

    async with FakeBroker(right) as controller:

        async def wrong(request: Any) -> Any:
            other.controller = controller
            return result(request, ErrorCode.NOT_CONTROLLER)

        async with FakeBroker(wrong) as other:
            found = await _load(other, 10, [])
    assert (found.done.total(), found.failed.total()) == (10, 0)
    assert {error for _, error in found.retried} == {"NOT_CONTROLLER"}


async def test_a_change_carried_out_before_the_connection_broke_counts_as_done() -> None:
    made: set[str] = set()

    async def answer(request: Any) -> Any:
        if not isinstance(request, m.CreateTopicsRequest):
            return result(request)
        name = request.topics[0].name
        if name in made:
            return result(request, ErrorCode.TOPIC_ALREADY_EXISTS)
        made.add(name)
        raise Hangup

    async with FakeBroker(answer) as broker:
        found = await _load(broker, 5, [])
    assert (found.done.total(), found.failed.total()) == (5, 0)
    assert found.retried["CreateTopics", "NETWORK_EXCEPTION"] >= 1


async def test_a_topic_that_a_lost_attempt_may_still_change_is_left_alone() -> None:
    """Its broker may send the attempt to a controller after all, when another change is done."""
    met: set[str] = set()

    async def answer(request: Any) -> Any:
        name = request.topics[0].name
        if name in met:
            return result(request)
        met.add(name)
        raise Hangup

    async with FakeBroker(answer) as broker:
        found = await _load(broker, 30, [])
    assert found.done == {"CreateTopics": 30}


async def test_a_change_of_a_controller_that_is_none_any_more_may_be_done_already() -> None:
    """Whoever waits for a commit is told NOT_CONTROLLER, and the next controller commits it."""
    gone: set[str] = set()

    async def answer(request: Any) -> Any:
        if not isinstance(request, m.DeleteTopicsRequest):
            return result(request)
        name = request.topics[0].name
        if name in gone:
            return result(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        gone.add(name)
        return result(request, ErrorCode.NOT_CONTROLLER)

    async with FakeBroker(answer) as broker:
        found = await _load(broker, 60, [])
    assert gone
    assert found.failed == {}
    assert found.done["DeleteTopics"] == len(gone)
    assert found.deleted == gone


@pytest.mark.slow
async def test_what_no_broker_was_sent_is_not_in_doubt() -> None:
    """A topic that is gone then was lost by somebody: it was not this deletion."""

    async def answer(request: Any) -> Any:
        if isinstance(request, m.DeleteTopicsRequest):
            return result(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return result(request)

    deletion = Changes(0)
    while not isinstance((change := deletion.draw()).request, m.DeleteTopicsRequest):
        deletion.settle(change, done=True)
    async with FakeBroker(answer) as broker:
        broker.controller = None
        asyncio.get_running_loop().call_later(0.3, setattr, broker, "controller", broker)
        load = AdminLoad(f"127.0.0.1:{broker.port}", 100, 0.01, give_up_s=60.0)
        load._changes = SimpleNamespace(  # type: ignore[assignment]
            draw=lambda: change, settle=lambda *_, **__: None, topics={}, doubtful=(), deleted=()
        )
        found = await load.run()
    assert found.retried["DeleteTopics", "NETWORK_EXCEPTION"] > 0
    assert found.done.total() == 0
    assert found.failed == {("DeleteTopics", "UNKNOWN_TOPIC_OR_PARTITION"): 1}


async def test_of_a_change_that_was_given_up_it_is_told_which_errors_came_in_which_order() -> None:
    errors = iter([ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.POLICY_VIOLATION])

    async def answer(request: Any) -> Any:
        return result(request, next(errors))

    async with FakeBroker(answer) as broker:
        found = await _load(broker, 1, [])
    assert found.failed.total() == 1
    (told,) = found.slow
    assert "1 LEADER_NOT_AVAILABLE, 1 POLICY_VIOLATION; longest: " in told


async def test_a_row_has_when_its_change_was_taken_up_and_first_and_last_sent() -> None:
    """Of two that are due at once one waits for a connection; each is refused once."""
    asked: dict[str, list[int]] = defaultdict(list)

    async def answer(request: Any) -> Any:
        times = asked[request.topics[0].name]
        times.append(time.monotonic_ns())
        return result(
            request, ErrorCode.LEADER_NOT_AVAILABLE if len(times) == 1 else ErrorCode.NONE
        )

    rows: list[Any] = []
    async with FakeBroker(answer) as broker:
        where, more = f"127.0.0.1:{broker.port}", {"client_id": "me", "record": rows.append}
        await AdminLoad(where, 1_000_000, 2 / 1_000_000, connections=1, **more).run()
    first, second = sorted(rows, key=lambda row: row.first_sent_ns)
    for row, (asked_ns, again_ns) in zip((first, second), asked.values(), strict=True):
        assert row.intended_ns <= row.begun_ns <= row.first_sent_ns <= asked_ns
        assert asked_ns < row.sent_ns <= again_ns <= row.answered_ns
    assert second.begun_ns < first.sent_ns < second.first_sent_ns


async def test_an_error_no_retry_mends_is_counted_and_its_topic_doubted() -> None:
    async def answer(request: Any) -> Any:
        return result(request, ErrorCode.POLICY_VIOLATION)

    rows: list[Row] = []
    async with FakeBroker(answer) as broker:
        found = await _load(broker, 3, rows)
    assert found.failed == {("CreateTopics", "POLICY_VIOLATION"): 3}
    assert found.doubtful == {"load-1", "load-2", "load-3"}
    assert not found.topics
    assert [row.error_code for row in rows if isinstance(row, RequestRow)] == [44, 44, 44]


async def test_a_topic_that_already_stands_is_an_error_when_nothing_was_in_doubt() -> None:
    async def answer(request: Any) -> Any:
        return result(request, ErrorCode.TOPIC_ALREADY_EXISTS)

    async with FakeBroker(answer) as broker:
        found = await _load(broker, 1, [])
    assert found.failed == {("CreateTopics", "TOPIC_ALREADY_EXISTS"): 1}


async def test_of_a_change_that_failed_is_known_what_it_wanted_and_when_it_was_in_flight() -> None:
    async def answer(request: Any) -> Any:
        grows = isinstance(request, m.CreatePartitionsRequest)
        if grows:
            asked[request.topics[0].name] = (request.topics[0].count, time.monotonic_ns())
        return result(request, ErrorCode.INVALID_PARTITIONS if grows else ErrorCode.NONE)

    asked: dict[str, tuple[int, int]] = {}
    async with FakeBroker(answer) as broker:
        found = await _load(broker, 60, [])
    assert asked
    assert found.given_up.keys() == asked.keys()
    for topic, (count, received_ns) in asked.items():
        one = found.given_up[topic]
        assert one[:3] == ("CreatePartitions", "INVALID_PARTITIONS", count)
        assert 0 < one.sent_ns < received_ns < one.answered_ns


async def test_a_topic_that_stays_unknown_is_asked_for_only_until_brokers_must_know_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def answer(request: Any) -> Any:
        if not isinstance(request, m.DeleteTopicsRequest):
            return result(request)
        asked.setdefault(request.topics[0].name, []).append(time.monotonic_ns())
        return result(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    monkeypatch.setattr(admin, "UNKNOWN_S", 0.25)
    asked: dict[str, list[int]] = {}
    async with FakeBroker(answer) as broker:
        found = await _load(broker, 60, [])
    assert asked
    assert found.failed.keys() == {("DeleteTopics", "UNKNOWN_TOPIC_OR_PARTITION")}
    assert found.given_up.keys() == asked.keys()
    for topic, times in asked.items():
        one = found.given_up[topic]
        assert 2 <= len(times) <= 4, "asked again at first, and not for ever"
        assert one.sent_ns < times[0] < one.answered_ns < times[1], "when it was in flight first"


async def test_a_broker_that_is_behind_is_asked_again_until_it_knows_the_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def answer(request: Any) -> Any:
        if not isinstance(request, m.CreatePartitionsRequest):
            return result(request)
        asked[request.topics[0].name] += 1
        behind = asked[request.topics[0].name] < 4
        return result(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if behind else ErrorCode.NONE)

    monkeypatch.setattr(admin, "UNKNOWN_S", 0.0)
    asked: Counter[str] = Counter()
    async with FakeBroker(answer) as broker:
        found = await _load(broker, 60, [])
    assert asked
    assert not found.failed


async def test_an_answer_of_garbage_ends_the_connection_not_the_load() -> None:
    sent = asyncio.Event()

    async def answer(request: Any) -> Any:
        if len(broker.headers) == 1:
            for writer in broker.writers:
                writer.write(b"\xff\xff\xff\xff")
            sent.set()
            await asyncio.Event().wait()
        return result(request)

    broker = FakeBroker(answer)
    async with broker:
        found = await _load(broker, 1, [])
    assert sent.is_set()
    assert found.done.total() == 1
    assert found.retried == {("CreateTopics", "NETWORK_EXCEPTION"): 1}


@pytest.mark.parametrize("kind", ["a number that no release has", "no topic", "two topics"])
async def test_an_answer_that_makes_no_sense_fails_one_change(kind: str) -> None:
    async def answer(request: Any) -> Any:
        if len(broker.headers) > 1:
            return result(request)
        made = result(request, 12_345)
        if kind != "a number that no release has":
            made.topics = made.topics * (0 if kind == "no topic" else 2)
        return made

    async with FakeBroker(answer) as broker:
        found = await _load(broker, 2, [])
    assert found.failed == {("CreateTopics", "UNKNOWN_SERVER_ERROR"): 1}
    assert found.done.total() == 1


async def test_a_controller_at_a_port_that_is_none_is_one_failed_attempt() -> None:
    async def answer(request: Any) -> Any:
        return result(request)

    async with FakeBroker(answer) as broker:
        broker.controller = FakeBroker(answer)
        broker.controller.port = 70_000
        asyncio.get_running_loop().call_later(0.3, setattr, broker, "controller", broker)
        found = await asyncio.wait_for(_load(broker, 1, []), 300)
    assert found.done.total() == 1
    assert set(found.retried) == {("CreateTopics", "NETWORK_EXCEPTION")}


async def test_changes_that_get_no_connection_in_time_are_given_up_unsent() -> None:
    async def answer(request: Any) -> Any:
        due = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.05, due.set_result, None)
        await due
        return result(request)

    rows: list[Row] = []
    async with FakeBroker(answer) as broker:
        load = AdminLoad(
            f"127.0.0.1:{broker.port}",
            *(10_000, 0.01),
            connections=1,
            give_up_s=0.2,
            record=rows.append,
        )
        found = await load.run()
    assert found.intended == 100
    assert found.done.total() + found.failed.total() + found.unsent == 100 == len(rows)
    assert found.done.total() <= len(broker.headers) < 20
    assert found.unsent > 50
    assert len(found.doubtful) <= 1, "what was never sent was not done"
    assert all(row.sent_ns <= row.answered_ns for row in rows if isinstance(row, RequestRow))


async def test_an_answer_that_does_not_come_is_waited_for_until_the_change_counts_as_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was waited for half a minute, whatever the limit."""
    monkeypatch.setattr("bench.load.admin.SLOW_S", 0.2)

    async def answer(_request: Any) -> Any:
        await asyncio.Event().wait()

    async with FakeBroker(answer) as broker:
        load = AdminLoad(f"127.0.0.1:{broker.port}", 100, 0.03, give_up_s=2.0)
        found = await asyncio.wait_for(load.run(), 300)
    assert found.failed == {("CreateTopics", "REQUEST_TIMED_OUT"): 3}
    assert len(found.doubtful) == 3
    attempt = f"127.0.0.1:{broker.port} REQUEST_TIMED_OUT"
    told = rf"CreateTopics load-\d: [\d.]+ s, 1 REQUEST_TIMED_OUT; longest: {attempt}"
    assert len(found.slow) == 3
    assert all(re.match(told, line) for line in found.slow), found.slow


@pytest.mark.slow
async def test_a_controller_that_hangs_is_left_for_the_next_one_named() -> None:
    """Though each change gives it up before an attempt to connect would fail by itself."""

    async def answer(request: Any) -> Any:
        return result(request)

    async def never(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with FakeBroker(answer) as broker, served(never) as port:
        broker.controller = FakeBroker(answer)
        broker.controller.port = port
        asyncio.get_running_loop().call_later(0.3, setattr, broker, "controller", broker)
        load = AdminLoad(f"127.0.0.1:{broker.port}", 20, 4.5, give_up_s=1.5)
        found = await asyncio.wait_for(load.run(), 300)
    assert found.failed.total() >= 1
    assert found.done.total() >= 1, found


async def test_no_more_connections_than_allowed_are_opened() -> None:
    together = most = 0

    async def answer(request: Any) -> Any:
        nonlocal together, most
        together += 1
        most = max(most, together)
        due = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.005, due.set_result, None)
        await due
        together -= 1
        return result(request)

    async with FakeBroker(answer) as broker:
        load = AdminLoad(f"127.0.0.1:{broker.port}", 2_000, 0.03, connections=3)
        found = await load.run()
    assert (found.intended, found.done.total()) == (60, 60)
    assert most == 3


async def test_a_load_without_an_end_ends_when_it_is_told_to() -> None:
    async def answer(request: Any) -> Any:
        if len(broker.headers) > 20:
            load.stop()
        return result(request)

    async with FakeBroker(answer) as broker:
        load = AdminLoad(f"127.0.0.1:{broker.port}", 500, None)
        found = await load.run()
    assert found.intended == found.done.total() >= 20
    assert "0 waiting" in load.progress()


@pytest.mark.parametrize(("one_broker", "used"), [(False, 3), (True, 1)])
async def test_connections_go_to_every_broker_that_forwards_or_to_one_on_purpose(
    one_broker: bool, used: int
) -> None:
    """Each names another one as the controller, as brokers do that have a KRaft controller."""

    async def answer(request: Any) -> Any:
        due = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.01, due.set_result, None)
        await due
        return result(request)

    async with FakeBroker(answer) as a, FakeBroker(answer) as b, FakeBroker(answer) as c:
        a.controller, b.controller, c.controller = b, c, a
        bootstrap = ",".join(f"127.0.0.1:{each.port}" for each in (a, b, c))
        found = await AdminLoad(bootstrap, 1_000, 0.06, one_broker=one_broker).run()
        assert found.done.total() == 60
        assert sum(bool(each.headers) for each in (a, b, c)) == used


async def test_a_change_that_waits_for_a_connection_holds_no_topic() -> None:
    """With fewer connections than changes that are due, no more topics are made for that."""

    async def answer(request: Any) -> Any:
        due = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.002, due.set_result, None)
        await due
        return result(request)

    async with FakeBroker(answer) as broker:
        load = AdminLoad(f"127.0.0.1:{broker.port}", 100_000, 0.006, topics_wanted=10)
        found = await load.run()
    assert found.done.total() == found.intended == 600
    assert found.done["CreateTopics"] < 0.35 * 600
    assert len(found.topics) < 30


@pytest.mark.parametrize("allowed", [True, False])
async def test_what_may_be_refused_for_a_time_is_asked_again_and_entered(*, allowed: bool) -> None:
    refused = 0

    async def answer(request: Any) -> Any:
        nonlocal refused
        if isinstance(request, m.CreateTopicsRequest) and refused < 3:
            refused += 1
            return result(request, ErrorCode.INVALID_REPLICATION_FACTOR)
        return result(request)

    not_now = {("CreateTopics", ErrorCode.INVALID_REPLICATION_FACTOR)} if allowed else set()
    async with FakeBroker(answer) as broker:
        load = AdminLoad(f"127.0.0.1:{broker.port}", 100, 0.01, not_now=not_now)
        found = await load.run()
    assert found.done.total() == allowed
    assert bool(found.given_up) is not allowed
    what = ("CreateTopics", "load-1", "INVALID_REPLICATION_FACTOR")
    assert [one[:3] for one in found.not_now] == [what] * (3 if allowed else 0)
    assert all(one.sent_ns <= one.answered_ns for one in found.not_now)


async def test_what_may_be_refused_for_a_time_is_given_up_when_the_time_is_over() -> None:
    async def answer(request: Any) -> Any:
        return result(request, ErrorCode.INVALID_REPLICATION_FACTOR)

    not_now = {("CreateTopics", ErrorCode.INVALID_REPLICATION_FACTOR)}
    async with FakeBroker(answer) as broker:
        address = f"127.0.0.1:{broker.port}"
        found = await AdminLoad(address, 100, 0.01, give_up_s=2.0, not_now=not_now).run()
    assert found.failed == {("CreateTopics", "INVALID_REPLICATION_FACTOR"): 1}
