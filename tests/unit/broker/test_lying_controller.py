"""A controller that answers what it likes: the broker goes on, or ends with a reason."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from emulator.broker.kraft import followed
from emulator.net.accepted import Connections
from emulator.net.greeting import listed
from emulator.net.reply import API_VERSIONS, encoded
from emulator.seam import Accepted, Close, Closed, Effect, Event, Received
from tests.laws.wire_values import Maker
from tests.unit.broker.joined_brokers import CONTROLLER, Stage
from tests.unit.broker.test_quorum_moves import QuorumNode, Term
from wire import messages as m
from wire import records as r
from wire.batch import Batch, encode_batch
from wire.record_serde import encode_record
from wire.releases import controller_ranges
from wire.schema import layout, lookup

STEPS_PER_S_MAX = 2_000
"""What a broker may do in a second of virtual time, whatever it is told."""


class Liar:
    """A controller whose answers are random messages, seldom mutated; a machine of the seam."""

    deadline_ms: int | None = None

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.ranges = controller_ranges("3.9")
        self.connections = Connections(self.ranges, 2**20, lambda: 0)
        self.asked = 0

    def start(self, _now_ms: int) -> list[Effect]:
        return []

    def shutdown(self, _now_ms: int) -> list[Effect]:
        return []

    def step(self, events: list[Event], now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for event in events:
            match event:
                case Accepted():
                    effects += self.connections.accepted(event, now_ms)
                case Closed(conn):
                    self.connections.closed(conn)
                case Received(conn, data) if self.connections.owns(conn):
                    requests, closing = self.connections.received(conn, data, now_ms)
                    assert not closing, "a broker sends no nonsense"
                    for request in requests:
                        effects += self.answer(request, now_ms)
        return effects

    def answer(self, request: Any, now_ms: int) -> list[Effect]:
        self.asked += 1
        header = request.ticket.header
        chance = self.rng.random()
        if chance < 0.05:
            self.connections.closed(request.ticket.conn)
            return [Close(request.ticket.conn)]
        if chance < 0.07:
            return []
        if isinstance(request.message, m.ApiVersionsRequest) and chance < 0.8:
            message: Any = m.ApiVersionsResponse(api_keys=listed(self.ranges))
        else:
            kind = lookup("response", header.api_key)
            assert kind is not None
            message = Maker(self.rng).message(layout(kind, header.api_version))
            self.steer(message)
        payload = bytearray(encoded(header, message, self.ranges[API_VERSIONS][1]))
        if chance > 0.95:
            payload[self.rng.randrange(len(payload))] ^= 1 << self.rng.randrange(8)
        return self.connections.reply(request.ticket, bytes(payload), now_ms)

    def steer(self, message: Any) -> None:
        """Some answers without an error, so that the liar is listened to."""
        if self.rng.random() < 0.5 and hasattr(message, "error_code"):
            message.error_code = 0
        if isinstance(message, m.FetchResponse):
            for topic in message.responses[:1]:
                for partition in topic.partitions:
                    partition.error_code = self.rng.choice((0, 0, 6, 74, 75, partition.error_code))
                    partition.current_leader.leader_id = self.rng.choice((3000, 3000, -1, 7))
                    partition.current_leader.leader_epoch = self.rng.choice((1, 2, 3))


@pytest.mark.parametrize("seed", range(8))
def test_whatever_it_says_the_broker_goes_on_or_ends_with_a_reason(seed: int) -> None:
    stage = Stage()
    joined = stage.joined
    joined.leave(stage.controller)
    liar = Liar(random.Random(seed))
    joined.join("controller", liar, {CONTROLLER: "CONTROLLER"})
    broker = stage.broker(1, initial_broker_registration_timeout_ms="2000000000")
    party = stage.parties[1]
    steps = 0
    step = broker.step

    def counted(events: list[Event], now_ms: int) -> list[Effect]:
        nonlocal steps
        steps += 1
        return step(events, now_ms)

    broker.step = counted  # type: ignore[method-assign]
    for _ in range(60):
        if party.halt is not None:
            break
        before = steps
        joined.wait(1_000)
        assert steps - before < STEPS_PER_S_MAX
    assert liar.asked > 0
    if party.halt is not None:
        assert party.halt.exit_code == 1
        assert party.halt.why


class LyingLeader(QuorumNode):
    """Leads, registers brokers, and answers each Fetch at once by ``lie(asked, partition)``."""

    def __init__(self, lie: Callable[[Any, Any], None]) -> None:
        super().__init__(3000, Term(leader=3000, epoch=5, endpoints=False))
        self.lie = lie
        self.fetches = 0

    def take(self, request: Any, now_ms: int) -> list[Effect]:
        if isinstance(request.message, m.FetchSnapshotRequest):
            return self.reply(request, no_snapshot(), now_ms)
        if not isinstance(request.message, m.FetchRequest):
            return super().take(request, now_ms)
        self.fetches += 1
        answer = self.fetched(request.message, leads=True)
        (asked,) = request.message.topics[0].partitions
        (partition,) = answer.responses[0].partitions
        if not partition.error_code:
            self.lie(asked, partition)
        return self.reply(request, answer, now_ms)


def no_snapshot() -> m.FetchSnapshotResponse:
    kind = m.FetchSnapshotResponse
    leader = kind.LeaderIdAndEpoch(leader_id=3000, leader_epoch=5)
    piece = kind.PartitionSnapshot(error_code=98, current_leader=leader)
    return kind(topics=[kind.TopicSnapshot(partitions=[piece])])


def led_by(lie: Callable[[Any, Any], None]) -> tuple[Stage, LyingLeader]:
    stage = Stage()
    stage.joined.leave(stage.controller)
    leader = LyingLeader(lie)
    stage.joined.join("controller", leader, {CONTROLLER: "CONTROLLER"})
    return stage, leader


def noop(offset: int, size: int = 1) -> bytes:
    record = encode_record(r.NoOpRecord(), 0)
    return encode_batch(Batch(offset, 5, 0, 0, [(None, record)] * size))


def nothing(_asked: Any, partition: Any) -> None:
    """An answer without records before the time of the request is over."""


def diverging(asked: Any, partition: Any) -> None:
    if asked.fetch_offset:
        partition.diverging_epoch.epoch = 5
        partition.diverging_epoch.end_offset = asked.fetch_offset


def snapshot_again(asked: Any, partition: Any) -> None:
    if asked.fetch_offset:
        partition.snapshot_id.end_offset, partition.snapshot_id.epoch = 0, 0


@pytest.mark.parametrize("lie", [nothing, diverging, snapshot_again])
def test_a_leader_that_answers_nothing_at_once_is_not_asked_without_a_pause(lie: Any) -> None:
    stage, leader = led_by(lie)
    stage.broker(1)
    stage.joined.wait(2_000)
    before = leader.fetches
    stage.joined.wait(10_000)
    assert 0 < leader.fetches - before <= 1_000
    assert stage.parties[1].halt is None


def test_records_that_are_never_committed_do_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(followed, "PENDING_BYTES_MAX", 100_000)

    def endless(asked: Any, partition: Any) -> None:
        if asked.fetch_offset:
            partition.records = noop(asked.fetch_offset, 100)

    stage, _ = led_by(endless)
    broker = stage.broker(1)
    stage.joined.wait(10_000)
    log = broker.side.observer.log  # type: ignore[attr-defined]
    assert log.pending_bytes <= 110_000
    assert stage.parties[1].halt is None
    (said,) = {one.fields["why"] for one in stage.parties[1].logs if "invalid" in one.event}
    assert "over 100000 bytes that are not committed" in str(said)


def test_a_high_watermark_that_was_a_lie_is_forgotten() -> None:
    lies = [True]

    def far(_asked: Any, partition: Any) -> None:
        partition.high_watermark = 10**15 if lies[0] else 1

    stage, _ = led_by(far)
    broker = stage.broker(1)
    stage.joined.wait(2_000)
    assert not broker.side.running, "it has not read all that is said to be committed"
    lies[0] = False
    stage.joined.until(lambda: broker.side.running)
