"""The choice of changes: repeatable, and never of a topic that is being changed."""

from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.load.changes import Change, Changes, error_of
from tests.unit.load.fake_broker import result
from wire.errors import ErrorCode


def _drawn(seed: int, count: int) -> list[tuple[str, str]]:
    changes, drawn = Changes(seed), []
    for _ in range(count):
        change = changes.draw()
        drawn.append((change.api, change.topic))
        changes.settle(change, done=True)
    return drawn


def test_same_seed_same_changes() -> None:
    assert _drawn(3, 200) == _drawn(3, 200) != _drawn(4, 200)


@given(st.integers(), st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60))
def test_one_change_of_a_topic_at_a_time(seed: int, steps: list[tuple[bool, bool]]) -> None:
    changes, open_, alive = Changes(seed), [], set()
    for settle, done in steps:
        change = changes.draw()
        assert change.topic not in {other.topic for other in open_}
        assert (change.topic in alive) is (change.api != "CreateTopics")
        open_.append(change)
        if settle:
            first = open_.pop(0)
            changes.settle(first, done=done)
            exists = done and first.after is not None
            (alive.add if exists else alive.discard)(first.topic)
            assert changes.topics.keys() == alive


def test_the_book_follows_what_was_done() -> None:
    changes = Changes(1)
    for _ in range(300):
        before = {name: state.partitions for name, state in changes.topics.items()}
        change = changes.draw()
        changes.settle(change, done=True)
        if change.api == "CreatePartitions":
            [asked] = change.request.topics
            assert asked.count == changes.topics[change.topic].partitions > before[change.topic]
            assert asked.assignments is None
        if change.api == "IncrementalAlterConfigs":
            [setting] = change.request.resources[0].configs
            assert changes.topics[change.topic].configs[setting.name] == setting.value
        if change.api == "DeleteTopics":
            assert change.topic not in changes.topics
        assert error_of(change.api, result(change.request, 36)) is ErrorCode.TOPIC_ALREADY_EXISTS
    assert 10 < len(changes.topics) < 80


def test_what_may_still_be_carried_out_late_is_not_changed_meanwhile() -> None:
    """A deletion or an older value that arrives after another change would undo that one."""
    changes = Changes(2, topics_wanted=10)
    late = [changes.draw() for _ in range(9)]
    for change in late:
        changes.settle(change, done=True, late=True)
    resting = {change.topic for change in late}
    assert resting == changes.topics.keys()
    for _ in range(200):
        change = changes.draw()
        assert change.topic not in resting
        changes.settle(change, done=True)
    assert len(changes.topics) < 9 + 20
    for _ in range(2):
        change = changes.draw()
        changes.settle(change, done=True, late=True)
    drawn = {changes.draw().topic for _ in range(40)}
    assert len(drawn & resting) == 1, "the oldest may be changed again"


@pytest.mark.parametrize("carried", [26, 20, 11, 3])
def test_a_server_that_is_behind_is_not_asked_for_more_topics(carried: int) -> None:
    """25 changes/s are due for 60 s; half as many are under way as topics are wanted."""
    changes, rate, most = Changes(0, topics_wanted=40), 25, 20
    asked: Counter[str] = Counter()
    open_: deque[tuple[float, Change]] = deque()
    free_at = 0.0
    for number in range(60 * rate):
        now = number / rate
        while open_ and (open_[0][0] <= now or len(open_) >= most):
            ended, change = open_.popleft()
            now = max(now, ended)
            changes.settle(change, done=True)
        change = changes.draw()
        asked[change.api] += 1
        free_at = max(free_at, now) + 1 / carried
        open_.append((free_at, change))
    assert asked["CreateTopics"] < 0.35 * asked.total()
    assert len(changes.topics.keys() | {change.topic for _, change in open_}) <= 60
