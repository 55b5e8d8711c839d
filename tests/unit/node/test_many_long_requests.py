"""Long requests beside and behind each other: whose turn it is, in which order, and who answers."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.net.accepted import Inbound
from emulator.seam import Received, Send
from tests.unit.controller.envelopes import enveloped
from tests.unit.controller.world import create
from tests.unit.node.test_long_requests import OFFER, Log, removal, topics
from tests.unit.node.test_no_request_ends_the_node import header
from wire import messages as m
from wire.frame import SLICED_BYTES, FrameReader, decode_response, encode_request, framed

MANY = 1_500


def in_envelope(message: object, key: int, version: int) -> tuple[object, int, int]:
    return enveloped(encode_request(header(key, version), message)), 58, 0


def frame_of(message: object, key: int, version: int) -> bytes:
    return framed(encode_request(header(key, version), message))


@pytest.mark.parametrize("apart", [False, True])
def test_a_long_envelope_is_opened_before_what_comes_behind_it_is_taken(apart: bool) -> None:
    peers = Log()
    peers.open(501)
    first, second = in_envelope(topics(MANY, 1), 19, 7), in_envelope(removal(1, 1), 20, 6)
    if apart:
        peers.give(501, first)
        # It may come in the step in which the one before it is taken.
        peers.give(501, second)
    else:
        peers.give(501, first, second)
    peers.go_on()
    created, deleted = (
        decode_response(key, version, told.response_data)[1]
        for told, (key, version) in zip(peers.answers(501, 58, 0), ((19, 7), (20, 6)), strict=True)
    )
    assert {one.error_code for one in created.topics} == {0}
    assert [one.error_code for one in deleted.responses] == [0]


def test_an_envelope_keeps_its_place_when_the_step_is_over() -> None:
    peers = Log()
    peers.open(501)
    wide = [(create(f"w{number}", 240, 2), 19, 7) for number in range(6)]
    small = in_envelope(topics(1, 1), 19, 7), (removal(1, 1), 20, 6)
    asked = b"".join(frame_of(*one) for one in (*wide, *small))
    effects = peers.node.step([Received(501, asked)], peers.now_ms)
    assert peers.node.controller.busy, "no step does them all"
    peers.perform(effects)
    peers.go_on()
    *_, told, deleted = FrameReader().feed(
        b"".join(one.data for one in peers.sent[501] if isinstance(one, Send))
    )
    made = decode_response(19, 7, decode_response(58, 0, told)[1].response_data)[1]
    assert [one.error_code for one in made.topics] == [0]
    assert [one.error_code for one in decode_response(20, 6, deleted)[1].responses] == [0]


def test_what_the_raft_machine_answers_may_come_in_a_long_envelope() -> None:
    peers = Log()
    peers.open(501)
    kind = m.DescribeQuorumRequest
    log = kind.TopicData(
        topic_name="__cluster_metadata",
        partitions=[kind.PartitionData(partition_index=0) for _ in range(20_000)],
    )
    peers.give(501, in_envelope(kind(topics=[log]), 55, 1))
    peers.go_on()
    (told,) = peers.answers(501, 58, 0)
    assert decode_response(55, 1, told.response_data)[1] is not None
    assert not peers.node.counters.waiting


def test_a_step_reads_a_slice_of_one_long_request_and_all_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peers = Log()
    conns = range(600, 620)
    for conn in (501, *conns):
        peers.open(conn)
    read: list[Any] = []
    real = Inbound.read_on

    def noted(self: Inbound) -> Any:
        read.append(self)
        return real(self)

    monkeypatch.setattr(Inbound, "read_on", noted)
    long = frame_of(topics(MANY, 1), 19, 7)
    assert len(long) > SLICED_BYTES
    peers.step([Received(conn, long) for conn in conns])
    turns: list[Any] = []
    while len({*map(id, turns)}) < len(conns):
        assert len(read) <= 1
        turns += read
        read.clear()
        peers.give(501, (OFFER, 18, 3))
        assert len(peers.answers(501, 18, 3)) == 1, "in the same step"
    assert len(turns) == len(conns), "each once before one again"
    peers.go_on()
    assert {len(peers.answers(conn, 19, 7)) for conn in conns} == {1}
    assert not peers.node.counters.waiting
