"""Connections to the other voters: lanes, and one outcome for each request."""

from __future__ import annotations

from itertools import count
from typing import Any

from emulator.net.versions import listed
from emulator.net.voters import RECONNECT_MS, VoterChannels
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
            {2: ("host-2", 9)}, "raft-client-1", 2_000, lambda: next(ids)
        )
        self.now = NOW
        self.sent: list[tuple[int, int, int, Any]] = []
        """Connection, version, correlation id, message."""
        self.dialled: list[int] = []
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
