"""The judge of what was read back."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError, KafkaTimeoutError, TopicAuthorizationFailedError

from bench.load.records import UNKNOWN_OFFSET, Acknowledged, ConsumeLoad, ConsumeResult, judge

_PROMISED = [Acknowledged("t", 0, offset, offset) for offset in range(3)]


def test_what_holds() -> None:
    verdict = judge(_PROMISED, {("t", 0): [(0, 0), (1, 1), (2, 2)]})
    assert (verdict.held, verdict.acknowledged, verdict.read) == (True, 3, 3)


def test_records_never_acknowledged_may_be_there() -> None:
    assert judge(_PROMISED, {("t", 0): [(0, 0), (1, 1), (2, 2), (3, 3)]}).held


def test_a_lost_record_is_named() -> None:
    assert judge(_PROMISED, {("t", 0): [(0, 0), (2, 2)]}).missing == (_PROMISED[1],)
    assert judge(_PROMISED, {}).missing == tuple(_PROMISED)


def test_another_record_at_its_offset_is_a_loss() -> None:
    verdict = judge(_PROMISED, {("t", 0): [(0, 0), (1, 7), (2, 8)]})
    assert verdict.missing == (_PROMISED[1], _PROMISED[2])


def test_a_record_written_twice_is_named() -> None:
    verdict = judge(_PROMISED, {("t", 0): [(0, 0), (1, 1), (2, 2), (3, 2)]})
    assert verdict.duplicated == (("t", 0, 2),)
    assert not verdict.held


def test_a_reader_that_was_sent_back_to_the_beginning_has_read_each_once() -> None:
    verdict = judge(_PROMISED, {("t", 0): [(0, 0), (1, 1), (0, 0), (1, 1), (2, 2)]})
    assert (verdict.held, verdict.read) == (True, 3)
    assert judge(_PROMISED, {("t", 0): [(0, 0), (1, 1), (1, 7), (2, 2)]}).missing == (_PROMISED[1],)


def test_a_record_out_of_order_is_named() -> None:
    verdict = judge([], {("t", 0): [(0, 1), (1, 0), (2, 2)]})
    assert verdict.out_of_order == (("t", 0, 1),)
    assert not verdict.held


def test_a_record_acknowledged_without_its_offset_must_be_there_somewhere() -> None:
    known = Acknowledged("t", 0, UNKNOWN_OFFSET, 7)
    assert judge([known], {("t", 0): [(4, 6), (5, 7)]}).held
    assert judge([known], {("t", 0): [(7, 6)]}).missing == (known,)
    assert judge([known], {("t", 1): [(5, 7)]}).missing == (known,)


class PutOut:
    """A consumer whose first commit is refused; the second ends the test."""

    def __init__(self, error: Exception, stop: asyncio.Event) -> None:
        self.error, self.stopped, self.commits = error, stop, 0

    async def start(self) -> None:
        pass

    stop = start

    async def getmany(self, **_: Any) -> dict[Any, Any]:
        return {TopicPartition("t", 0): [SimpleNamespace(offset=self.commits)]}

    async def commit(self) -> None:
        self.commits += 1
        if self.commits == 1:
            raise self.error
        self.stopped.set()


@pytest.mark.parametrize(
    ("error", "fails"),
    [
        (CommitFailedError(), False),
        (KafkaTimeoutError(), False),
        (TopicAuthorizationFailedError(), True),
    ],
)
def test_a_member_that_the_group_put_out_goes_on(
    monkeypatch: pytest.MonkeyPatch, error: Exception, fails: bool
) -> None:
    stop = asyncio.Event()
    monkeypatch.setattr("bench.load.records.COMMIT_S", 0.0)
    monkeypatch.setattr("bench.load.records.AIOKafkaConsumer", lambda *_, **__: PutOut(error, stop))
    result: ConsumeResult = asyncio.run(ConsumeLoad("", ["t"]).run(stop))
    assert result.consumed == 2
    assert result.positions == {("t", 0): 2}
    name = type(error).__name__
    assert result.failed == ({name: 1} if fails else {})
    assert result.retried == ({} if fails else {name: 1})


class Polled:
    """A consumer that is never out of records; after ``polls`` the test ends."""

    def __init__(self, polls: int, clock: list[float], stop: asyncio.Event) -> None:
        self.left, self.clock, self.stopped = polls, clock, stop
        self.committed_at: list[float] = []

    async def start(self) -> None:
        pass

    stop = start

    async def getmany(self, **_: Any) -> dict[Any, Any]:
        self.clock[0] += 0.125
        self.left -= 1
        if not self.left:
            self.stopped.set()
        return {TopicPartition("t", 0): [SimpleNamespace(offset=0)]}

    async def commit(self) -> None:
        self.committed_at.append(self.clock[0])


def test_a_group_commits_by_time_and_not_after_each_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, stop = [100.0], asyncio.Event()
    consumer = Polled(80, clock, stop)
    monkeypatch.setattr("bench.load.records.AIOKafkaConsumer", lambda *_, **__: consumer)
    monkeypatch.setattr("bench.load.records.time.monotonic", lambda: clock[0])
    asyncio.run(ConsumeLoad("", ["t"]).run(stop))
    assert consumer.committed_at == [100.125 + second for second in range(10)]
