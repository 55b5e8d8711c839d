"""How many multis are in flight: one until it is known that the chain is as expected, then more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from emulator.migration.dual_write.chain import Standing
from emulator.migration.dual_write.pipeline import (
    Acknowledged,
    InDoubt,
    MultiTag,
    Pipeline,
    Refused,
)
from emulator.migration.position import Counters, Position
from emulator.seam import Effect
from emulator.zookeeper.errors import ZkCode
from emulator.zookeeper.frame_limit import FrameLimit
from emulator.zookeeper.ops import ZkFailed, ZkLost, ZkOp, ZkRequest, ZkResult
from tests.unit.migration.dual_write.test_settling import TERM, stat

MS = 1_000_000


class Sent:
    """A ZooKeeper whose counters the test moves; multis wait for an answer."""

    limit = FrameLimit()
    connected = True

    def __init__(self) -> None:
        self.now_ns = 0
        self.tags: list[MultiTag] = []
        self.pipeline = Pipeline(self, lambda: self.now_ns, 100, lambda _: "")
        self.own, self.migration = 4, 9
        self.pipeline.begin(TERM, Counters(self.own, self.migration))

    def submit(self, tag: object, request: ZkRequest, now_ms: int) -> list[Effect]:
        del request, now_ms
        assert isinstance(tag, MultiTag)
        self.tags.append(tag)
        return []

    def op_bytes(self, op: ZkOp) -> bytes:
        return op.path.encode()

    def op_size(self, op: ZkOp) -> int:
        return len(op.path)

    def fill(self) -> int:
        """Send until no more may be sent; how many are in flight."""
        while not self.pipeline.full:
            self.pipeline.send_bare(Position(1, 5), 0)
        return self.pipeline.in_flight

    def applied(self, ms: float = 0.0) -> None:
        """The oldest one is answered, so long after all were sent."""
        self.now_ns += round(ms * MS)
        self.own, self.migration = self.own + 1, self.migration + 1
        values = [stat(self.own), stat(self.migration)]
        report, _ = self.pipeline.outcome(ZkResult(self.tags.pop(0), values))
        assert report == Acknowledged(None)

    @property
    def read(self) -> Standing:
        return Standing(Counters(self.own, self.migration), None)


def claimed_again(sent: Sent) -> None:
    sent.pipeline.begin(TERM, Counters(sent.own, sent.migration))


def started_over(sent: Sent) -> None:
    assert sent.pipeline.start_over(sent.read) == []


def settled(sent: Sent) -> None:
    for tag in sent.tags:
        report, _ = sent.pipeline.outcome(ZkLost(tag))
        assert report == InDoubt()
    assert sent.pipeline.unanswered == 0
    assert sent.pipeline.resume(0, sent.read) == []


@pytest.mark.parametrize("again", [claimed_again, started_over, settled])
def test_whatever_made_the_chain_uncertain_one_goes_alone_until_it_is_answered(
    again: Callable[[Sent], None],
) -> None:
    sent = Sent()
    assert sent.fill() == 1, "after the claim"
    for _ in range(2):
        sent.applied()
        assert sent.fill() == 2
        again(sent)
        sent.tags.clear()
        assert sent.pipeline.in_flight == 0
        assert sent.fill() == 1


@pytest.mark.parametrize(
    ("round_trip_ms", "depth"),
    [(0, 2), (5, 2), (5.1, 3), (10, 3), (12, 4), (34.9, 8), (35, 8), (500, 8)],
)
def test_more_are_in_flight_the_longer_the_quickest_of_the_last_answers_took(
    round_trip_ms: float, depth: int
) -> None:
    sent = Sent()
    sent.fill()
    sent.applied(round_trip_ms)
    assert sent.fill() == depth
    sent.applied(round_trip_ms + 100)
    assert sent.fill() == depth, "what waited in a queue says nothing"
    for count in range(33):
        sent.applied(1_000)
        sent.fill()
        assert sent.pipeline.depth_now == (depth if count < 30 else 8), "of the last 32"
    sent.pipeline.depth = 1
    assert sent.pipeline.depth_now == 1, "as configured"


def test_those_before_the_first_that_was_refused_may_have_been_applied() -> None:
    sent = Sent()
    sent.fill()
    sent.applied(20)
    assert sent.fill() == 5
    assert (sent.pipeline.unrefused, sent.pipeline.unanswered) == (5, 5)
    for at, unrefused in ((3, 3), (1, 1), (4, 1)):
        report, _ = sent.pipeline.outcome(ZkFailed(sent.tags[at], ZkCode.BAD_VERSION, 1))
        assert isinstance(report, Refused)
        assert sent.pipeline.unrefused == unrefused
    assert sent.pipeline.unanswered == 2
    assert sent.pipeline.outcome(ZkLost(MultiTag(999))) == (None, [])


def test_an_answer_with_other_versions_than_expected_is_believed_by_nobody() -> None:
    for values in ([stat(5), stat(11)], [stat(6), stat(10)], [stat(4), stat(9)]):
        sent = Sent()
        sent.fill()
        report, _ = sent.pipeline.outcome(ZkResult(sent.tags[0], values))
        assert report == Refused(0, None)
        assert sent.pipeline.in_flight == 1
