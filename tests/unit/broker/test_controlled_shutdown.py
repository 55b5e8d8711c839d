"""A broker in ZooKeeper mode asks to be relieved of its partitions before it ends."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.broker.zookeeper.side import ControlledShutdown
from emulator.net.channel import Answered, EndedBy, Unanswered
from emulator.seam import Closed, Effect, Event, Log
from wire import messages as m
from wire.errors import ErrorCode

BACKOFF_MS = 5_000
RETRIES = 3


class Channel:
    """What ControllerChannel says next, and what was asked of it."""

    deadline_ms: int | None = None

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, int]] = []
        self.outcomes: list[Any] = []
        self.closed = False

    def put(self, request: Any, _ticket: None, now_ms: int) -> None:
        self.asked.append((now_ms, request.broker_id, request.broker_epoch))

    def handle(self, _event: Event, _now_ms: int) -> list[Any]:
        said, self.outcomes = self.outcomes, []
        return said

    def tick(self, _now_ms: int) -> list[Any]:
        return []

    def effects(self, _now_ms: int) -> list[Effect]:
        return []

    def close(self) -> None:
        self.closed = True


def answered(error: int = ErrorCode.NONE, remaining: int = 0) -> Answered[None]:
    kind = m.ControlledShutdownResponse
    left = [kind.RemainingPartition("t", number) for number in range(remaining)]
    return Answered(None, 1, kind(error_code=error, remaining_partitions=left))


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (answered(remaining=2), "error 0, 2 partitions remain"),
        (answered(ErrorCode.STALE_BROKER_EPOCH), "error 77, 0 partitions remain"),
        (Unanswered(None, None, EndedBy.PEER), "no answer"),
    ],
)
def test_it_is_asked_again_after_a_pause_until_all_is_moved(outcome: Any, why: str) -> None:
    channel = Channel()
    part = ControlledShutdown(2, channel, lambda: 9, RETRIES, BACKOFF_MS)  # type: ignore[arg-type]
    part.begin(100)
    part.tick(100)
    channel.outcomes = [outcome]
    part.handle(Closed(1, ""), 200)
    assert (part.granted, part.done) == (False, False)
    (log,) = part.effects(200)
    assert isinstance(log, Log)
    assert log.fields == {"why": why, "tries_left": RETRIES - 1}
    assert part.deadline_ms == 200 + BACKOFF_MS
    part.tick(200 + BACKOFF_MS - 1)
    part.tick(200 + BACKOFF_MS)
    assert channel.asked == [(100, 2, 9), (200 + BACKOFF_MS, 2, 9)]

    channel.outcomes = [answered()]
    part.handle(Closed(1, ""), 6_000)
    assert (part.granted, part.done, part.deadline_ms) == (True, True, None)
    assert part.effects(6_000) == []


def test_after_the_last_try_it_ends_all_the_same() -> None:
    channel = Channel()
    part = ControlledShutdown(2, channel, lambda: 9, 1, BACKOFF_MS)  # type: ignore[arg-type]
    part.begin(100)
    part.tick(100)
    channel.outcomes = [answered(remaining=1)]
    part.handle(Closed(1, ""), 200)
    assert (part.granted, part.done, part.deadline_ms) == (False, True, None)
    part.begin(300)
    part.tick(300)
    assert len(channel.asked) == 1


def test_once_it_is_closed_nothing_is_asked_any_more() -> None:
    channel = Channel()
    part = ControlledShutdown(2, channel, lambda: 9, RETRIES, BACKOFF_MS)  # type: ignore[arg-type]
    part.begin(100)
    part.close()
    assert part.deadline_ms is None
    part.tick(200)
    assert (channel.asked, channel.closed) == ([], True)
