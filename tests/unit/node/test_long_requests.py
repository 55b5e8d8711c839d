"""A long request on its way through a node: the bytes of one step, and others in between."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.controller.queue import batches, writes
from emulator.metadata import history
from emulator.raft import log
from emulator.seam import (
    RECORDS_PER_SLICE,
    Accepted,
    AppendFile,
    Closed,
    Effect,
    Event,
    Halt,
    Received,
    Send,
)
from tests.kit.requests import delete_topics
from tests.unit.controller.world import acls, create, every_acl
from tests.unit.node.test_no_request_ends_the_node import Peers, header
from wire import messages as m
from wire.frame import FrameReader, decode_response, encode_request, framed

MANY = 3 * RECORDS_PER_SLICE
OFFER = m.ApiVersionsRequest(client_software_name="me", client_software_version="1")


class Log(Peers):
    """A node, and what it writes to its log and sends."""

    def __init__(self) -> None:
        self.written = b""
        self.told = b""
        self.steps = 0
        self.halted = False
        super().__init__()
        step = self.node.step

        def noted(events: list[Event], now_ms: int) -> list[Effect]:
            return self.note(step(events, now_ms))

        self.node.step = noted  # type: ignore[method-assign]

    def note(self, effects: list[Effect]) -> list[Effect]:
        self.steps += 1
        for effect in effects:
            if isinstance(effect, AppendFile):
                self.written += effect.data
            if isinstance(effect, Send):
                self.told += effect.data
        self.halted |= any(isinstance(effect, Halt) for effect in effects)
        return [effect for effect in effects if not isinstance(effect, Halt)]

    def open(self, conn: int) -> None:
        self.perform(self.node.step([Accepted(conn, "CONTROLLER", b"\x7f\0\0\1")], self.now_ms))

    def give(self, conn: int, *requests: tuple[object, int, int]) -> None:
        """Send requests on a connection, all at once."""
        data = b"".join(
            framed(encode_request(header(key, version), message))
            for message, key, version in requests
        )
        self.step([Received(conn, data)])

    def step(self, events: list[Event]) -> None:
        self.perform(self.node.step(events, self.now_ms))

    def answers(self, conn: int, key: int, version: int) -> list[Any]:
        """Those sent on a connection since the last look."""
        sent = self.sent.pop(conn, [])
        data = b"".join(one.data for one in sent if isinstance(one, Send))
        frames = FrameReader().feed(data) if data else []
        return [decode_response(key, version, frame)[1] for frame in frames]

    def go_on(self) -> None:
        """Steps, as long as the next one is due."""
        while (due := self.node.deadline_ms) is not None and due <= self.now_ms:
            self.step([])


def topics(names: int, partitions: int) -> m.CreateTopicsRequest:
    wanted = [create(f"n{partitions}-{n}", partitions, 2).topics[0] for n in range(names)]
    return m.CreateTopicsRequest(topics=wanted, timeout_ms=60_000)


def removal(names: int, partitions: int) -> m.DeleteTopicsRequest:
    return delete_topics(*(f"n{partitions}-{n}" for n in range(names)), timeout_ms=60_000)


SIZES = st.integers(1, 1_200)
REQUESTS = st.lists(
    st.one_of(
        SIZES.map(lambda n: (create(f"w{n}", n, 2), 19, 7)),
        SIZES.map(lambda n: (topics(n, 1), 19, 7)),
        SIZES.map(lambda n: (removal(n, 1), 20, 6)),
        SIZES.map(lambda n: (acls(n), 30, 3)),
        st.just((every_acl(), 31, 3)),
    ),
    min_size=1,
    max_size=4,
)


def run(requests: list[tuple[object, int, int]]) -> Log:
    peers = Log()
    for request in requests:
        peers.conn += 1
        peers.open(peers.conn)
        peers.give(peers.conn, request)
        peers.go_on()
    return peers


@settings(max_examples=15, deadline=None)
@given(REQUESTS)
def test_slices_give_the_bytes_of_one_step(requests: list[tuple[object, int, int]]) -> None:
    sliced = run(requests)
    with pytest.MonkeyPatch.context() as patch:
        for module in (batches, history, log, writes):
            patch.setattr(module, "RECORDS_PER_SLICE", 1 << 40)
        at_once = run(requests)
    assert sliced.written == at_once.written
    assert sliced.told == at_once.told
    assert sliced.image == at_once.image
    assert sliced.steps >= at_once.steps


def test_others_are_answered_between_its_slices() -> None:
    peers = Log()
    for conn in (501, 502):
        peers.open(conn)
    peers.give(501, (create("wide", MANY, 2), 19, 7))
    turns = 0
    while not peers.sent.get(501):
        beat = m.BrokerHeartbeatRequest(
            broker_id=0,
            broker_epoch=peers.image.brokers[0].epoch,
            current_metadata_offset=1 << 40,
        )
        before = len(peers.sent.get(502, []))
        peers.give(502, (beat, 63, 1))
        assert len(peers.sent[502]) == before + 1, "in the same step"
        turns += 1
    assert turns > 2 * MANY // RECORDS_PER_SLICE
    (answer,) = peers.answers(501, 19, 7)
    assert answer.topics[0].error_code == 0


def test_what_the_same_connection_sends_behind_it_waits_and_is_answered_in_order() -> None:
    peers = Log()
    peers.open(501)
    offers = [(OFFER, 18, 3)] * 100
    peers.give(501, (create("wide", MANY, 2), 19, 7), *offers[:30])
    for _ in range(3):
        peers.give(501, *offers)
    taken = peers.node.connections.requests_total[18]
    assert taken < 30, "the others are not even decoded"
    assert not peers.sent.get(501)
    peers.go_on()
    assert peers.node.connections.requests_total[18] == 330
    sent = peers.sent.pop(501)
    frames = FrameReader().feed(b"".join(one.data for one in sent if isinstance(one, Send)))
    assert len(frames) == 331
    assert decode_response(19, 7, frames[0])[1].topics[0].error_code == 0
    assert decode_response(18, 3, frames[330])[1].api_keys


def test_a_client_that_hangs_up_in_between() -> None:
    peers = Log()
    for conn in (501, 502):
        peers.open(conn)
    before = peers.written
    peers.give(501, (create("wide", MANY, 2), 19, 7))
    peers.give(502, (create("small", 1, 2), 19, 7))
    assert peers.node.counters.waiting == 2
    peers.step([Closed(501, "reset")])
    peers.go_on()
    (answer,) = peers.answers(502, 19, 7)
    assert answer.topics[0].error_code == 0
    assert peers.image.topic("wide") is None
    assert peers.written != before
    assert peers.node.counters.waiting == 0
    assert not peers.node.connections._paused
    peers.still_sound()


def test_the_stop_of_the_node_waits_for_it() -> None:
    peers = Log()
    for conn in (501, 502):
        peers.open(conn)
    peers.give(501, (create("wide", MANY, 2), 19, 7))
    peers.give(502, (create("small", 1, 2), 19, 7))
    peers.perform(peers.node.shutdown(peers.now_ms))
    assert not peers.halted
    peers.go_on()
    assert [one.topics[0].error_code for one in peers.answers(501, 19, 7)] == [0]
    assert [one.topics[0].error_code for one in peers.answers(502, 19, 7)] == [0]
    assert peers.halted
