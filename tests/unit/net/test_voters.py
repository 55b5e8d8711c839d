"""Connections to the other voters: lanes, and one outcome for each request."""

from __future__ import annotations

from itertools import count
from typing import Any

from emulator.net.greeting import listed
from emulator.net.voters import RECONNECT_MS, RECONNECT_MS_MAX, VoterChannels
from emulator.seam import Closed, Connect, Connected, Received, Send
from wire import messages as m
from wire.frame import FrameReader, decode_request, encode_response, framed

NOW = 1_000
RANGES = {1: (0, 17), 18: (0, 4), 52: (0, 1), 53: (0, 1), 70: (0, 0)}


class World:
    """One voter to talk to, which the test is."""

    def __init__(self) -> None:
        ids = count(1)
        self.voters: VoterChannels[str] = VoterChannels(
            {2: ("host-2", 9)}, 1, 2_000, lambda: next(ids)
        )
        self.now = NOW
        self.sent: list[tuple[int, int, int, Any]] = []
        """Connection, version, correlation id, message."""
        self.dialled: list[int] = []
        self.clients: dict[type, str | None] = {}
        """Kind of request -> client id."""
        self._readers: dict[int, FrameReader] = {}

    def turn(self) -> None:
        for effect in self.voters.effects(self.now):
            match effect:
                case Connect(conn):
                    self.dialled.append(conn)
                    self._readers[conn] = FrameReader()
                case Send(conn, data):
                    for frame in self._readers[conn].feed(data):
                        header, message = decode_request(frame)
                        self.sent.append((conn, header.api_version, header.correlation_id, message))
                        self.clients[type(message)] = header.client_id

    def connected(self, conn: int) -> None:
        """The peer accepts, and answers ApiVersions."""
        assert self.voters.owns(conn)
        self.voters.handle(Connected(conn), self.now)
        self.turn()
        _, version, number, message = self.sent.pop()
        assert isinstance(message, m.ApiVersionsRequest)
        self.answer(conn, 18, version, number, m.ApiVersionsResponse(api_keys=listed(RANGES)))

    def answer(self, conn: int, key: int, version: int, number: int, message: object) -> None:
        data = framed(encode_response(key, version, number, message))
        self.voters.handle(Received(conn, data), self.now)
        self.turn()

    def outcomes(self) -> list[tuple[str, type]]:
        return [(one.ticket, type(one.message)) for one in self.voters.take_outcomes()]


def test_a_vote_does_not_wait_behind_a_fetch():
    world = World()
    world.voters.put(2, m.FetchRequest(), "fetch")
    world.voters.put(2, m.VoteRequest(), "vote")
    world.voters.put(2, m.ControllerRegistrationRequest(), "call")
    world.turn()
    assert len(set(world.dialled)) == 3
    for conn in world.dialled:
        world.connected(conn)
    kinds = {type(message): version for _, version, _, message in world.sent}
    assert kinds == {m.FetchRequest: 17, m.VoteRequest: 1, m.ControllerRegistrationRequest: 0}


def test_the_answer_comes_with_what_was_asked():
    world = World()
    world.voters.put(2, m.VoteRequest(), "vote")
    world.turn()
    world.connected(world.dialled[0])
    ((conn, version, number, _),) = world.sent
    world.answer(conn, 52, version, number, m.VoteResponse())
    assert world.outcomes() == [("vote", m.VoteResponse)]
    assert world.outcomes() == []


def test_a_later_request_takes_the_place_of_one_that_was_not_sent():
    world = World()
    world.voters.put(2, m.VoteRequest(), "first")
    world.turn()
    world.voters.put(2, m.BeginQuorumEpochRequest(), "second")
    assert world.voters.deadline_ms == 0, "it is due at once"
    assert world.outcomes() == [("first", type(None))]


def test_a_peer_that_is_gone_answers_nothing_and_is_tried_again():
    world = World()
    world.voters.put(2, m.FetchRequest(), "sent")
    world.turn()
    world.connected(world.dialled[0])
    assert world.sent
    world.voters.handle(Closed(world.dialled[0], "reset"), world.now)
    assert world.outcomes() == [("sent", type(None))]
    world.voters.put(2, m.FetchRequest(), "again")
    world.turn()
    assert len(world.dialled) == 1, "after a pause"
    world.now += RECONNECT_MS
    world.voters.tick(world.now)
    world.turn()
    assert len(world.dialled) == 2
    world.voters.handle(Closed(world.dialled[1], "refused"), world.now)
    assert world.outcomes() == [("again", type(None))], "so that another voter can be asked"


def test_a_peer_that_is_silent_is_given_up():
    world = World()
    world.voters.put(2, m.VoteRequest(), "vote")
    world.turn()
    world.connected(world.dialled[0])
    world.now += 2_000
    world.voters.tick(world.now)
    assert world.outcomes() == [("vote", type(None))]


def test_a_registration_has_the_client_id_that_kafka_gives_it():
    world = World()
    world.voters.put(2, m.FetchRequest(), "fetch")
    world.voters.put(2, m.VoteRequest(), "vote")
    world.voters.put(2, m.ControllerRegistrationRequest(), "call")
    world.turn()
    for conn in world.dialled:
        world.connected(conn)
    assert {kind.__name__: world.clients[kind] for kind in world.clients} == {
        "ApiVersionsRequest": world.clients[m.ApiVersionsRequest],
        "FetchRequest": "raft-client-1",
        "VoteRequest": "raft-client-1",
        "ControllerRegistrationRequest": "1",
    }


def test_a_lost_connection_is_not_made_again_before_there_is_something_to_send():
    world = World()
    world.voters.put(2, m.VoteRequest(), "vote")
    world.turn()
    world.connected(world.dialled[0])
    world.voters.handle(Closed(world.dialled[0], "reset"), world.now)
    world.voters.take_outcomes()
    assert world.voters.deadline_ms is None
    for _ in range(100):
        world.now += 600
        world.voters.tick(world.now)
        world.turn()
    assert len(world.dialled) == 1


def refused_for(world: World, ms: int) -> list[tuple[int, int]]:
    """Ask a voter that is down every 20 ms; returns when each was asked, and how long it waited."""
    asked: dict[str, int] = {}
    waits: list[tuple[int, int]] = []
    end = world.now + ms
    while world.now < end:
        if world.now % 20 == 0 and len(asked) == len(waits):
            asked[f"{world.now}"] = world.now
            world.voters.put(2, m.VoteRequest(), f"{world.now}")
        world.turn()
        for conn in world.dialled:
            if world.voters.owns(conn):
                world.voters.handle(Closed(conn, "refused"), world.now)
        world.voters.tick(world.now)
        for one in world.voters.take_outcomes():
            assert one.message is None
            waits.append((asked[one.ticket], world.now - asked[one.ticket]))
        world.now += 1
    assert len({at for at, _ in waits}) == len(waits) >= len(asked) - 1, "one outcome for each"
    return waits


def test_a_voter_that_is_down_is_tried_ever_less_often_and_nobody_waits_for_it():
    world = World()
    waits = refused_for(world, 10_000)
    assert max(ms for _, ms in waits) <= RECONNECT_MS + 1
    assert len(waits) > 200, "whoever asked can turn to another voter"
    assert 10_000 // RECONNECT_MS_MAX <= len(world.dialled) <= 10_000 // RECONNECT_MS_MAX + 5


def test_an_answer_ends_the_longer_pauses():
    world = World()
    refused_for(world, 5_000)
    world.now += RECONNECT_MS_MAX
    world.voters.put(2, m.VoteRequest(), "vote")
    world.turn()
    world.connected(world.dialled[-1])
    conn, version, number, _ = world.sent[-1]
    world.answer(conn, 52, version, number, m.VoteResponse())
    world.voters.handle(Closed(conn, "stopped"), world.now)
    before = len(world.dialled)
    world.voters.take_outcomes()
    world.voters.put(2, m.VoteRequest(), "again")
    world.now += RECONNECT_MS
    world.turn()
    assert len(world.dialled) == before + 1


def test_a_request_that_the_peer_does_not_speak_has_one_outcome_also_when_the_line_breaks():
    for closed_first in (True, False):
        world = World()
        world.voters.put(2, m.DescribeQuorumRequest(), "unspoken")
        world.turn()
        world.connected(world.dialled[0])
        if closed_first:
            world.voters.handle(Closed(world.dialled[0], "reset"), world.now)
        for _ in range(3):
            world.voters.tick(world.now)
            world.turn()
            world.now += RECONNECT_MS
        assert world.outcomes() == [("unspoken", type(None))]
