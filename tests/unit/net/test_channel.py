"""The outbound channel: order, limits, what is lost with a connection, and what is said first."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from emulator.net import channel
from emulator.net.channel import (
    NEXT,
    Broken,
    ChannelConfig,
    ChannelEvent,
    ChannelState,
    EndedBy,
    Opened,
    OutboundChannel,
    Unanswered,
)
from emulator.net.greeting import Greeting, GreetingError, NoCommonVersionError, common, listed
from emulator.net.login import Login, LoginError
from emulator.seam import Close, Closed, Connect, Connected, Event, Received, Send
from tests.kit.tables import Watched, check_pairs
from wire import messages as m
from wire.errors import EncodeError, ErrorCode
from wire.frame import FrameReader, decode_request, encode_response, framed

CONNECT_MS, REPLY_MS, RETRY_MS = 10_000, 30_000, 100
OFFER = {3: (0, 12), 17: (0, 1), 18: (0, 3), 36: (0, 2)}


class Peer:
    """A channel and the far end of its connection. ``turns``: everything the channel reported."""

    def __init__(self, *, retry_ms: int | None = RETRY_MS, most: int | None = 1, **more: Any):
        config = ChannelConfig("me", CONNECT_MS, REPLY_MS, retry_ms, most, **more)
        self.channel: OutboundChannel[str] = OutboundChannel(
            ("host", 9), config, count(1).__next__, count(70)
        )
        self.now_ms = 0
        self.dialled: list[int] = []
        self.closed: list[int] = []
        self.asked: list[tuple[int, int, Any]] = []
        self.turns: list[Any] = []

    def go_on(self) -> None:
        for effect in self.channel.effects(self.now_ms):
            match effect:
                case Connect(conn, host, port):
                    assert (host, port) == ("host", 9)
                    self.dialled.append(conn)
                case Close(conn):
                    self.closed.append(conn)
                case Send(conn, data):
                    assert conn == self.dialled[-1]
                    for frame in FrameReader().feed(data):
                        header, request = decode_request(frame)
                        assert header.client_id == "me"
                        self.asked.append((header.correlation_id, header.api_version, request))

    def put(self, ticket: str, version: int | None = 1, *, first: bool = False) -> None:
        request = m.MetadataRequest(topics=[m.MetadataRequest.MetadataRequestTopic(name=ticket)])
        self.channel.put(request, ticket, version, first=first)
        self.go_on()

    def event(self, event: Event) -> None:
        self.turns += self.channel.handle(event, self.now_ms)
        self.go_on()

    def connect(self) -> None:
        self.event(Connected(self.dialled[-1]))

    def answer(self, message: Any, index: int = -1, cut: int | None = None, shift: int = 0) -> None:
        correlation_id, version, request = self.asked[index]
        key = {m.MetadataRequest: 3, m.ApiVersionsRequest: 18, m.SaslHandshakeRequest: 17}.get(
            type(request), 36
        )
        payload = framed(encode_response(key, version, correlation_id + shift, message))
        self.event(Received(self.dialled[-1], payload[:cut]))
        if cut is not None:
            self.event(Received(self.dialled[-1], payload[cut:]))

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.turns += self.channel.tick(self.now_ms)
        self.go_on()

    @property
    def names(self) -> list[str]:
        return [request.topics[0].name for _, _, request in self.asked]


def metadata() -> m.MetadataResponse:
    return m.MetadataResponse()


def test_nothing_is_dialled_before_there_is_something_to_ask() -> None:
    peer = Peer()
    peer.go_on()
    assert peer.dialled == []
    peer.put("a")
    assert (peer.dialled, peer.asked) == ([1], [])
    peer.connect()
    assert peer.turns == [Opened()]
    assert peer.names == ["a"]


@pytest.mark.parametrize(("most", "sent"), [(1, 1), (2, 2), (None, 3)])
def test_no_more_than_its_limit_is_in_flight_and_order_is_kept(most: int | None, sent: int) -> None:
    peer = Peer(most=most)
    for name in "abc":
        peer.put(name)
    peer.connect()
    assert peer.names == list("abc"[:sent])
    for index in range(3):
        peer.answer(metadata(), index, cut=5)
    assert peer.names == list("abc")
    assert [turn.ticket for turn in peer.turns[1:]] == list("abc")
    assert [turn.correlation_id for turn in peer.turns[1:]] == [70, 71, 72]
    assert peer.channel.outstanding == 0
    assert peer.channel.deadline_ms is None


LONG = m.MetadataResponse(
    topics=[m.MetadataResponse.MetadataResponseTopic(name=f"t{n}") for n in range(4_500)]
)


def test_a_long_answer_is_read_in_slices_if_the_owner_wants_it() -> None:
    peer = Peer(sliced=True)
    peer.put("a")
    peer.put("b")
    peer.connect()
    peer.answer(LONG)
    slices = 1
    while peer.channel.deadline_ms == 0:
        assert peer.turns == [Opened()]
        assert (peer.names, peer.channel.waiting_for_answer) == (["a"], True)
        peer.wait(0)
        slices += 1
    assert slices == 5
    (answered,) = peer.turns[1:]
    assert (answered.ticket, len(answered.message.topics)) == ("a", 4_500)
    peer.answer(metadata())
    assert peer.turns[2].ticket == "b"
    peer = Peer()
    peer.put("a")
    peer.connect()
    peer.answer(LONG)
    assert peer.turns[1].ticket == "a"


@pytest.mark.parametrize("end", [Closed(1, "reset"), Received(1, framed(b"more"))])
def test_a_connection_that_ends_while_an_answer_is_read_has_none(end: Event) -> None:
    peer = Peer(sliced=True)
    peer.put("a")
    peer.connect()
    peer.answer(LONG)
    peer.event(end)
    assert peer.turns[1].ticket == "a"
    assert isinstance(peer.turns[1], Unanswered)
    assert isinstance(peer.turns[2], Broken)
    peer.wait(RETRY_MS)
    peer.connect()
    peer.put("b")
    peer.answer(metadata())
    assert peer.turns[-1].ticket == "b"


@pytest.mark.parametrize("at", [0, 3])
def test_a_long_answer_that_is_none_ends_the_connection(at: int) -> None:
    """Be it seen in the first slice, or at the end."""
    peer = Peer(sliced=True)
    peer.put("a")
    peer.connect()
    payload = encode_response(3, 1, 70 + (not at), LONG)[: -at or None]
    peer.event(Received(1, framed(payload)))
    for _ in range(6):
        peer.wait(0)
    assert isinstance(peer.turns[1], Unanswered)
    assert peer.turns[2].by is EndedBy.NONSENSE
    assert peer.closed == [1]


def test_what_is_in_flight_is_lost_with_its_connection_and_what_waits_is_not() -> None:
    peer = Peer()
    peer.put("a")
    peer.put("b")
    peer.connect()
    peer.event(Closed(1, "reset"))
    assert peer.turns[1:] == [
        Unanswered("a", 70, EndedBy.PEER),
        Broken(EndedBy.PEER, "reset", connected=True),
    ]
    peer.wait(RETRY_MS - 1)
    assert peer.dialled == [1]
    peer.wait(1)
    assert peer.dialled == [1, 2]
    peer.connect()
    assert peer.names == ["a", "b"]


def test_the_owner_may_say_it_again_before_everything_else() -> None:
    peer = Peer()
    peer.put("a")
    peer.put("b")
    peer.connect()
    peer.event(Closed(1, "reset"))
    peer.put("a", first=True)
    peer.wait(RETRY_MS)
    peer.connect()
    assert peer.names == ["a", "a"]
    peer.answer(metadata())
    assert peer.names == ["a", "a", "b"]


def test_without_another_connection_all_is_lost() -> None:
    peer = Peer(retry_ms=None)
    peer.put("a")
    peer.put("b")
    peer.connect()
    peer.event(Closed(1, "reset"))
    assert [turn for turn in peer.turns if isinstance(turn, Unanswered)] == [
        Unanswered("a", 70, EndedBy.PEER),
        Unanswered("b", None, EndedBy.PEER),
    ]
    assert peer.channel.state is ChannelState.OVER
    peer.wait(1_000_000)
    assert peer.dialled == [1]


def test_a_connection_and_an_answer_have_limits_of_their_own() -> None:
    peer = Peer()
    peer.put("a")
    peer.wait(CONNECT_MS - 1)
    assert peer.turns == []
    peer.wait(1)
    assert peer.turns == [Broken(EndedBy.TIME, "no connection in time")]
    assert peer.closed == [1]
    peer.wait(RETRY_MS)
    peer.connect()
    peer.wait(REPLY_MS - 1)
    assert peer.closed == [1]
    peer.wait(1)
    assert peer.turns[-2:] == [
        Unanswered("a", 70, EndedBy.TIME),
        Broken(EndedBy.TIME, "no reply in time", connected=True),
    ]
    assert peer.closed == [1, 2]


def test_the_limit_of_a_connection_dialled_without_a_time_begins_when_one_is_told() -> None:
    peer = Peer()
    peer.channel.dial()
    assert [type(effect) for effect in peer.channel.effects(None)] == [Connect]
    assert peer.channel.deadline_ms is None
    peer.now_ms = 500
    peer.wait(0)
    assert peer.channel.deadline_ms == 500 + CONNECT_MS


@pytest.mark.parametrize("shift", [1, -1])
def test_an_answer_to_another_request_ends_the_connection(shift: int) -> None:
    peer = Peer()
    peer.put("a")
    peer.connect()
    peer.answer(metadata(), shift=shift)
    assert [turn.by for turn in peer.turns[1:]] == [EndedBy.NONSENSE, EndedBy.NONSENSE]
    assert peer.closed == [1]


@pytest.mark.parametrize("data", [framed(b"\0\0"), b"\xff\xff\xff\xff", framed(b"\0" * 9)])
@pytest.mark.parametrize("greets", [False, True])
def test_nonsense_ends_the_connection_whenever_it_comes(data: bytes, greets: bool) -> None:
    greeting = Greeting(m.ApiVersionsRequest()) if greets else None
    peer = Peer(greeting=greeting)
    peer.channel.dial(0)
    peer.go_on()
    peer.connect()
    peer.event(Received(1, data))
    assert peer.turns[-1].by is EndedBy.NONSENSE
    assert peer.closed == [1]


def test_events_of_connections_that_are_over_change_nothing() -> None:
    peer = Peer()
    peer.put("a")
    peer.connect()
    peer.wait(REPLY_MS)
    before = list(peer.turns)
    for late in (Closed(1, "cut"), Connected(1), Received(1, framed(b"\0\0\0\x46"))):
        peer.event(late)
    assert peer.turns == before
    assert peer.channel.state is ChannelState.WAITING


def test_closing_says_what_nobody_will_answer() -> None:
    peer = Peer()
    peer.put("a")
    peer.put("b")
    peer.connect()
    assert peer.channel.close() == [
        Unanswered("a", 70, EndedBy.OWNER),
        Unanswered("b", None, EndedBy.OWNER),
    ]
    peer.go_on()
    assert peer.closed == [1]
    assert peer.channel.close() == []
    peer.event(Closed(1, "late"))
    assert peer.channel.deadline_ms is None


def test_a_request_that_cannot_be_written_is_dropped_and_the_rest_goes_on() -> None:
    peer = Peer()
    peer.put("a")
    peer.connect()
    peer.answer(metadata())
    peer.channel.put(m.MetadataRequest(topics=None), "bad", 0)
    peer.channel.put(m.MetadataRequest(topics=[]), "good", 1)
    with pytest.raises(EncodeError):
        peer.go_on()
    peer.go_on()
    peer.answer(metadata())
    assert peer.turns[-1].ticket == "good"


# ---------------------------------------------------------------- what is said first
def offer(code: int = 0, ranges: dict[int, tuple[int, int]] | None = None) -> Any:
    return m.ApiVersionsResponse(
        error_code=code, api_keys=listed(OFFER if ranges is None else ranges)
    )


def greeting(**more: Any) -> Peer:
    peer = Peer(greeting=Greeting(m.ApiVersionsRequest(), **more))
    peer.put("a", None)
    peer.connect()
    return peer


def test_the_newest_version_that_both_speak_is_used() -> None:
    peer = greeting()
    assert [(version, type(asked)) for _, version, asked in peer.asked] == [
        (3, m.ApiVersionsRequest)
    ]
    peer.answer(offer(ranges={3: (0, 2), 18: (0, 3)}))
    assert peer.asked[-1][1] == 2
    assert peer.turns == [Opened()]


def test_a_lower_version_of_the_question_is_tried_when_the_peer_does_not_know_it() -> None:
    peer = greeting(version=4)
    peer.answer(offer(ErrorCode.UNSUPPORTED_VERSION, {18: (0, 2)}))
    assert peer.asked[-1][1] == 2
    peer.answer(offer())
    assert peer.turns == [Opened()]


def test_a_peer_that_knows_no_version_of_the_question_is_given_up() -> None:
    peer = greeting()
    for _ in range(9):
        if peer.turns:
            break
        peer.answer(offer(ErrorCode.UNSUPPORTED_VERSION, {18: (0, 9)}))
    (end,) = peer.turns
    assert end.by is EndedBy.REFUSAL
    assert isinstance(end.error, GreetingError)
    assert [version for _, version, _ in peer.asked] == [3, 2, 1, 0]


def test_what_cannot_be_said_is_reported_at_once_and_the_connection_stays() -> None:
    peer = greeting()
    peer.answer(offer(ranges={18: (0, 3)}))
    assert peer.channel.deadline_ms == 0
    peer.wait(0)
    assert peer.turns == [Opened(), Unanswered("a", None, EndedBy.VERSIONS)]
    assert (peer.closed, peer.channel.outstanding) == ([], 0)
    with pytest.raises(NoCommonVersionError):
        peer.channel.version_of(m.MetadataRequest)


def test_each_exchange_of_the_greeting_has_the_limit_of_connecting() -> None:
    peer = Peer(greeting=Greeting(m.ApiVersionsRequest(), login=Login("PLAIN", "u", "p")))
    peer.put("a")
    peer.wait(CONNECT_MS - 1)
    peer.connect()
    peer.wait(CONNECT_MS - 1)
    peer.answer(offer())
    peer.wait(CONNECT_MS - 1)
    assert peer.turns == []
    peer.wait(1)
    assert peer.turns == [Broken(EndedBy.TIME, "no reply in time", connected=True)]


def test_the_login_comes_before_the_first_request_and_again_on_every_connection() -> None:
    peer = Peer(greeting=Greeting(m.ApiVersionsRequest(), login=Login("PLAIN", "u", "p")))
    peer.put("a")
    for life in (1, 2):
        peer.connect()
        peer.answer(offer())
        peer.answer(m.SaslHandshakeResponse(mechanisms=("PLAIN",)))
        assert peer.asked[-1][2].auth_bytes == b"\0u\0p"
        assert len([turn for turn in peer.turns if turn == Opened()]) == life - 1
        peer.answer(m.SaslAuthenticateResponse())
        assert len([turn for turn in peer.turns if turn == Opened()]) == life
        peer.event(Closed(peer.dialled[-1], "reset"))
        peer.wait(RETRY_MS)
    asked = [request for _, _, request in peer.asked if isinstance(request, m.MetadataRequest)]
    assert len(asked) == 1


@pytest.mark.parametrize(
    "challenge", [b"", b"r=x", b"s=%%%,r=y,i=4096", b"i=many,s=,r=", b"\xff\xfe", b"e=no"]
)
def test_a_challenge_that_is_none_refuses_the_login_and_raises_nothing(challenge: bytes) -> None:
    peer = Peer(retry_ms=None, greeting=Greeting(login=Login("SCRAM-SHA-256", "u", "p")))
    peer.put("a")
    peer.connect()
    peer.answer(m.SaslHandshakeResponse(mechanisms=("SCRAM-SHA-256",)))
    peer.answer(m.SaslAuthenticateResponse(auth_bytes=challenge))
    lost, end = peer.turns
    assert lost == Unanswered("a", None, EndedBy.REFUSAL)
    assert isinstance(end.error, LoginError)
    assert peer.closed == [1]


def test_versions_meet_where_both_end() -> None:
    assert common({3: (0, 99)}, m.MetadataRequest) == common(None, m.MetadataRequest)
    for ranges, lowest in (({}, 0), ({3: (0, 3)}, 4), ({3: (98, 99)}, 0)):
        with pytest.raises(NoCommonVersionError):
            common(ranges, m.MetadataRequest, lowest)


def _peer_in(state: ChannelState, retry_ms: int | None) -> Peer:
    """A channel in a state; that of GREETING has a greeting, the others have none."""
    greets = state is ChannelState.GREETING
    peer = Peer(retry_ms=retry_ms, greeting=Greeting(m.ApiVersionsRequest()) if greets else None)
    if state is not ChannelState.IDLE:
        peer.put("a")
    if state in {ChannelState.GREETING, ChannelState.READY}:
        peer.connect()
    if state is ChannelState.WAITING:
        peer.event(Closed(1, "reset"))
    assert peer.channel.state is state
    return peer


def test_every_row_of_the_table_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Watched(monkeypatch, channel)
    for state in set(ChannelState) - {ChannelState.OVER}:
        closed = _peer_in(state, RETRY_MS)
        closed.channel.close()
        assert closed.channel.state is ChannelState.OVER
    for state in (ChannelState.DIALLING, ChannelState.GREETING, ChannelState.READY):
        for retry_ms, after in ((RETRY_MS, ChannelState.WAITING), (None, ChannelState.OVER)):
            broken = _peer_in(state, retry_ms)
            broken.event(Closed(1, "reset"))
            assert broken.channel.state is after
    greeted = _peer_in(ChannelState.GREETING, RETRY_MS)
    greeted.answer(offer())
    assert greeted.channel.state is ChannelState.READY
    waited = _peer_in(ChannelState.WAITING, RETRY_MS)
    waited.wait(RETRY_MS)
    assert waited.channel.state is ChannelState.DIALLING
    assert not table.unreached


def test_every_pair_that_is_not_in_the_table_is_refused() -> None:
    def after(state: ChannelState, event: ChannelEvent) -> ChannelState:
        peer = Peer()
        peer.channel.state = state
        peer.channel._enter(event)
        return peer.channel.state

    check_pairs(NEXT, ChannelState, ChannelEvent, after)
