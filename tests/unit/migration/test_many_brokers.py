"""What a step costs with 1,000 brokers in ZooKeeper mode: counted, not timed.

Of 1,000 brokers nearly none has anything to do in a step, so a step that has nothing for any of
them may not look at each, and one that has something for one looks at that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

import msgspec
import pytest

from emulator.migration.propagation import channels
from emulator.migration.propagation.channels import (
    REPLY_TIMEOUT_MS,
    Channels,
    Peer,
    _Alarms,
    _Line,
)
from emulator.migration.propagation.propagator import Propagator, _Shared
from emulator.net.control import TYPE_FULL
from emulator.seam import Close, Connect, Connected, Effect, Event, Received, Send
from tests.kit.dual_writing import BROKER, Stage
from tests.unit.controller.world import broker, image_of, partition, topic
from tests.unit.node.test_copy_grows_in_line import Work, counted
from wire import codec
from wire import messages as m
from wire import records as r
from wire.constant import Constant
from wire.frame import FrameReader, decode_request, encode_response, framed

ENDPOINT = r.RegisterBrokerRecord.BrokerEndpoint(name="PLAINTEXT", host="broker", port=9092)
FEW, MANY = 10, 1_000
SLACK: Final = 1.05
"""More lines than with few: a heap is a little deeper."""


class Crowd:
    """Channels to so many brokers, all connected."""

    def __init__(self, brokers: int) -> None:
        self.channels = Channels(3000, count(1).__next__)
        peers = {each: Peer(each, 36, "broker", 9092) for each in range(brokers)}
        dialled = self.channels.set_peers(peers)
        self.conns = {
            each: one.conn for each, one in enumerate(e for e in dialled if isinstance(e, Connect))
        }
        self.channels.tick(0)
        for conn in self.conns.values():
            self.channels.handle(Connected(conn), 0)

    def put(self, broker_id: int, now_ms: int) -> int:
        """A request to one broker; its correlation id."""
        request = m.UpdateMetadataRequest(controller_id=3000)
        (sent,) = [e for e in self.channels.put(broker_id, request, now_ms) if isinstance(e, Send)]
        (frame,) = FrameReader().feed(sent.data)
        return decode_request(frame)[0].correlation_id

    def answer(self, broker_id: int, correlation_id: int, now_ms: int) -> None:
        """The broker answers."""
        answer = framed(encode_response(6, 8, correlation_id, m.UpdateMetadataResponse()))
        self.channels.handle(Received(self.conns[broker_id], answer), now_ms)

    def _deadline(self) -> list[Effect]:
        assert self.channels.deadline_ms is not None
        return []

    def idle(self, now_ms: int) -> int:
        """Lines that a step takes in which nothing is due."""
        work = Work()
        assert counted(work, lambda: self.channels.tick(now_ms)) == []
        counted(work, self._deadline)
        return work.run


def _silent(brokers: int) -> int:
    """Each broker has answered one request, and one has not."""
    crowd = Crowd(brokers)
    for each in crowd.conns:
        crowd.answer(each, crowd.put(each, each), each)
    crowd.put(FEW - 1, brokers)
    assert crowd.channels.deadline_ms == brokers + REPLY_TIMEOUT_MS
    return crowd.idle(brokers + 1)


def _unanswered(brokers: int) -> int:
    """No broker has answered."""
    crowd = Crowd(brokers)
    for each in crowd.conns:
        crowd.put(each, each)
    assert crowd.channels.deadline_ms == REPLY_TIMEOUT_MS
    return crowd.idle(brokers + 1)


@pytest.mark.parametrize("lines", [_silent, _unanswered])
def test_a_step_without_work_looks_at_no_broker(lines: Callable[[int], int]) -> None:
    assert lines(MANY) <= SLACK * lines(FEW)


def test_each_broker_that_is_due_is_looked_at_in_its_turn() -> None:
    crowd = Crowd(FEW)
    for turn, each in enumerate([3, 1, 2, 0]):
        crowd.put(each, turn)
    closed = [e.conn for e in crowd.channels.tick(REPLY_TIMEOUT_MS + 1) if isinstance(e, Close)]
    assert closed == [crowd.conns[1], crowd.conns[3]]
    closed = [e.conn for e in crowd.channels.tick(REPLY_TIMEOUT_MS + 3) if isinstance(e, Close)]
    assert closed == [crowd.conns[0], crowd.conns[2]]


def test_a_deadline_that_moves_on_or_comes_nearer_is_the_one_that_counts() -> None:
    crowd = Crowd(1)
    crowd.answer(0, crowd.put(0, 100), 200)
    assert crowd.channels.deadline_ms is None
    crowd.put(0, 300)
    assert crowd.channels.deadline_ms == 300 + REPLY_TIMEOUT_MS
    assert crowd.channels.tick(100 + REPLY_TIMEOUT_MS) == []
    assert crowd.channels.deadline_ms == 300 + REPLY_TIMEOUT_MS


def test_one_that_visits_all_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_them(self: _Alarms, now_ms: int) -> list[_Line]:
        del now_ms
        return [line for _, _, line in self._heap]

    monkeypatch.setattr(_Alarms, "take", all_of_them)
    assert _unanswered(MANY) > 10 * _unanswered(FEW)


class LongCrowd(Crowd):
    """Each broker is to get two requests with the same long content, in this order."""

    def __init__(self, brokers: int, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(brokers)
        kind = m.UpdateMetadataRequest
        state = kind.UpdateMetadataPartitionState(replicas=[1] * 1_000)
        topic = kind.UpdateMetadataTopicState(topic_name="t", partition_states=[state] * 50)
        self.topics = Constant([topic])
        for _ in codec.encoding(kind(topic_states=self.topics), 8):
            """Once for all brokers."""
        self.size = len(self.topics.encoded[8])
        monkeypatch.setattr(channels, "UNANSWERED_BYTES_MAX", 3 * self.size)
        self.sent: list[tuple[int, int]] = []
        self.brokers = {conn: each for each, conn in self.conns.items()}
        for epoch in (1, 2):
            for each in self.conns:
                request = kind(topic_states=self.topics, broker_epoch=epoch, type=TYPE_FULL)
                self.take(self.channels.put(each, request, 0))

    def take(self, effects: list[Effect]) -> None:
        bytes_of: dict[int, bytes] = {}
        for sent in effects:
            if isinstance(sent, Send):
                bytes_of[sent.conn] = bytes_of.get(sent.conn, b"") + sent.data
        for conn, data in bytes_of.items():
            for frame in FrameReader().feed(data):
                _, message = decode_request(frame)
                self.sent.append((self.brokers[conn], message.broker_epoch))

    def answered(self, broker_id: int, correlation_id: int, now_ms: int) -> None:
        answer = framed(encode_response(6, 8, correlation_id, m.UpdateMetadataResponse()))
        self.take(self.channels.handle(Received(self.conns[broker_id], answer), now_ms))


def test_long_requests_to_many_brokers_are_not_all_on_their_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crowd = LongCrowd(6, monkeypatch)
    assert crowd.size > channels.LONG_BYTES
    assert crowd.sent == [(0, 1), (1, 1), (2, 1)]
    crowd.answered(1, 0, 1)
    assert crowd.sent[3:] == [(1, 2)], "a broker that has answered goes on"
    crowd.answered(1, 1, 2)
    assert crowd.sent[4:] == [(3, 1)]
    assert crowd.channels.deadline_ms == channels.LONG_SLOT_MS


def test_brokers_that_do_not_answer_keep_others_waiting_for_a_while_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crowd = LongCrowd(6, monkeypatch)
    crowd.take(crowd.channels.tick(channels.LONG_SLOT_MS - 1))
    assert len(crowd.sent) == 3
    crowd.take(crowd.channels.tick(channels.LONG_SLOT_MS))
    assert crowd.sent[3:] == [(3, 1), (4, 1), (5, 1)]
    assert crowd.channels.deadline_ms == REPLY_TIMEOUT_MS


def test_not_all_of_many_brokers_are_told_at_once_that_one_has_changed() -> None:
    crowd = Crowd(2 * channels.UNANSWERED_MAX)
    live = [m.UpdateMetadataRequest.UpdateMetadataBroker(id=each) for each in range(MANY)]
    sent: list[Effect] = []
    for each in crowd.conns:
        request = m.UpdateMetadataRequest(controller_id=3000, live_brokers=live)
        sent += crowd.channels.put(each, request, 0)
    assert len(sent) == channels.UNANSWERED_MAX
    answer = framed(encode_response(6, 8, 0, m.UpdateMetadataResponse()))
    (more,) = crowd.channels.handle(Received(crowd.conns[0], answer), 1)
    assert isinstance(more, Send)
    assert more.conn == crowd.conns[channels.UNANSWERED_MAX]


def test_brokers_whose_turn_has_not_come_are_not_looked_at() -> None:
    """Each of 1,000 that waited was looked at in each step: 40 % of the leader's time."""
    crowd = Crowd(2 * channels.UNANSWERED_MAX)
    for each in crowd.conns:
        crowd.answer(each, crowd.put(each, 0), 1)
    live = [m.UpdateMetadataRequest.UpdateMetadataBroker(id=each) for each in range(MANY)]
    for each in crowd.conns:
        crowd.channels.put(each, m.UpdateMetadataRequest(live_brokers=live), 2)
    assert crowd.channels.deadline_ms == 2 + channels.LONG_SLOT_MS


def test_the_place_of_a_broker_that_leaves_is_given_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crowd = LongCrowd(4, monkeypatch)
    restarted = msgspec.structs.replace(crowd.channels.peers[0], epoch=37)
    crowd.take(crowd.channels.set_peers(dict(crowd.channels.peers) | {0: restarted}))
    assert crowd.channels.deadline_ms == 0
    crowd.take(crowd.channels.tick(1))
    assert crowd.sent[3:] == [(3, 1)]


def _pieces(brokers: int) -> float:
    """Steps for each broker in which all get everything, of 4,000 partitions."""
    known = [
        broker(each, fenced=False, is_migrating_zk_broker=True, end_points=[ENDPOINT])
        for each in range(brokers)
    ]
    spread = [tuple((n + more) % brokers for more in range(3)) for n in range(4_000)]
    image = image_of(
        *known,
        topic("a", 1),
        *(partition(1, n, replicas=one, isr=one, leader=one[0]) for n, one in enumerate(spread)),
    )
    propagator = Propagator(Channels(3000, count(1).__next__), 3000, "PLAINTEXT")
    propagator.full(image, 1)
    for steps in count():
        if not propagator.busy:
            return steps / brokers
        propagator.step(0)
    raise AssertionError


def test_not_each_broker_looks_at_all_partitions() -> None:
    assert _pieces(200) < 1.5


def test_one_that_looks_at_all_for_each_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_them(self: _Shared, _peer: Peer) -> Iterator[None]:
        yield from ()
        return self.partitions()

    monkeypatch.setattr(_Shared, "partitions_of", all_of_them)
    assert _pieces(200) > 5


def _beats(brokers: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Lines of a node's step with one heartbeat, and of what its shell asks after it."""
    stage = Stage(zookeeper_mode=True)
    kind, node = r.RegisterBrokerRecord, stage.node
    host, port = BROKER
    more = [
        kind(
            broker_id=each,
            broker_epoch=node.controller.tip.offset + 1,
            end_points=[kind.BrokerEndpoint(name="PLAINTEXT", host=host, port=port)],
            fenced=False,
            is_migrating_zk_broker=True,
        )
        for each in range(3, brokers + 1)
    ]
    node.controller.append(more, stage.joined.now_ms)
    stage.joined.wait(2_000)
    assert node.driver is not None
    assert len(node.driver.channels.peers) == brokers
    assert not node.driver.channels.queued
    work, step = Work(), node.step
    stage.beat("")

    def stepped(events: list[Event], now_ms: int) -> list[Effect]:
        effects = step(events, now_ms)
        assert node.deadline_ms is not None
        return effects

    monkeypatch.setattr(node, "step", lambda *of: counted(work, lambda: stepped(*of)))
    assert stage.beat("") == 0
    return work.run


def test_a_heartbeat_costs_the_same_among_many_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _beats(300, monkeypatch) <= SLACK * _beats(FEW, monkeypatch)
