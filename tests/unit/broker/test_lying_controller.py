"""A controller that answers what it likes: the broker goes on, or ends with a reason."""

from __future__ import annotations

import random
from typing import Any

import pytest

from emulator.net.accepted import Connections
from emulator.net.reply import API_VERSIONS, encoded
from emulator.net.versions import listed
from emulator.seam import Accepted, Close, Closed, Effect, Event, Received
from tests.laws.wire_values import Maker
from tests.unit.broker.joined_brokers import CONTROLLER, Stage
from wire import messages as m
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
