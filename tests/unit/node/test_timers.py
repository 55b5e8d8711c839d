"""Timers are looked at when one may be due: counted, not timed."""

from __future__ import annotations

import pytest

from emulator.controller.machine import Controller
from emulator.seam import Accepted, Event, Received
from tests.unit.controller.world import create
from tests.unit.node.test_no_request_ends_the_node import Peers, header
from wire import messages as m
from wire.frame import encode_request, framed


@pytest.fixture
def peers() -> Peers:
    return Peers()


def test_a_step_before_the_deadline_looks_at_no_timer(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it was asked for since the last step; each machine is asked once for it."""
    asked: list[int] = []
    real = vars(Controller)["deadline_ms"].fget

    def deadline(self: Controller) -> int | None:
        asked.append(1)
        due_ms: int | None = real(self)
        return due_ms

    monkeypatch.setattr(Controller, "deadline_ms", property(deadline))
    due_ms = peers.node.deadline_ms
    assert due_ms is not None
    assert due_ms > peers.now_ms
    assert len(asked) == 1
    peers.perform(peers.node.step([], due_ms - 1))
    assert len(asked) == 1
    end = peers.node.raft.log_end_offset
    peers.perform(peers.node.step([], due_ms - 1))
    assert len(asked) == 2, "nobody has asked since"
    assert peers.node.deadline_ms == due_ms
    beat = m.BrokerHeartbeatRequest(broker_id=0, broker_epoch=peers.image.brokers[0].epoch)
    data = framed(encode_request(header(63, 1), beat))
    events: list[Event] = [Accepted(77, "CONTROLLER", b"\x7f\0\0\1"), Received(77, data)]
    peers.perform(peers.node.step(events, due_ms))
    assert peers.node.raft.log_end_offset == end + 1, "a NoOp is due, whatever comes with it"


def test_what_an_event_makes_due_is_done_in_the_next_step_which_is_due_at_once(
    peers: Peers,
) -> None:
    """Of a request in slices, the first one is done when it comes."""
    assert peers.node.deadline_ms != 0
    data = framed(encode_request(header(19, 7), create("wide", 3_000, 1)))
    events: list[Event] = [Accepted(78, "CONTROLLER", b"\x7f\0\0\1"), Received(78, data)]
    effects = peers.node.step(events, peers.now_ms)
    steps = 0
    while peers.node.controller.busy:
        assert peers.node.deadline_ms == 0
        effects += peers.node.step([], peers.now_ms)
        steps += 1
    assert steps > 3
    peers.perform(effects)
    made = peers.image.topic("wide")
    assert len(made.partitions) == 3_000
